//! Messages of one JSON object on a line, descriptors beside them. Bounded, and safe to stop waiting for.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// 32 MiB: an environment as large as the kernel allows, each byte as a number.
const MESSAGE_MAX: usize = 32 << 20;
/// A door has one listening socket.
const DESCRIPTORS_MAX: usize = 2;
const PIECE: usize = 64 << 10;
/// How long whoever was sent away may go on talking, and how long that is waited for.
const DRAINED_WITHIN: Duration = Duration::from_secs(2);

/// One end of a lease.
pub(super) struct Line {
    stream: Arc<UnixStream>,
    heard: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// The half of it that speaks. One message at a time, each to its end.
pub(super) struct Mouth(Arc<UnixStream>);

impl Mouth {
    /// Says something, with descriptors beside its first bytes.
    pub(super) async fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            let beside = if sent == 0 { descriptors } else { &[] };
            sent += self.0.async_io(Interest::WRITABLE, || send(&self.0, rest, beside)).await?;
        }
        Ok(())
    }
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream: Arc::new(stream), heard: Vec::new(), descriptors: Vec::new() }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Says something, with descriptors beside its first bytes.
    pub(super) async fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        Mouth(Arc::clone(&self.stream)).send(message, descriptors).await
    }

    /// What speaks here from now on, while somebody else listens.
    pub(super) fn mouth(&self) -> Mouth {
        Mouth(Arc::clone(&self.stream))
    }

    /// The next message; nothing when the other end is gone.
    pub(super) async fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        self.receive_within(MESSAGE_MAX).await
    }

    /// The same, of no more bytes than these, or what one look brings beyond them.
    pub(super) async fn receive_within<M: DeserializeOwned>(&mut self, most: usize) -> io::Result<Option<M>> {
        let mut looked = 0;
        loop {
            let unseen = self.heard.get(looked..).unwrap_or_default();
            if let Some(end) = unseen.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=looked + end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            looked = self.heard.len();
            if looked > most {
                return Err(io::Error::other("a message without an end"));
            }
            let (heard, descriptors) = (&mut self.heard, &mut self.descriptors);
            let stream = &self.stream;
            if stream.async_io(Interest::READABLE, || receive(stream, heard, descriptors)).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Says a last word and waits until it was heard. What the other end handed over is given up before, and what it is still
    /// saying is thrown away, or it would never hear that.
    pub(super) async fn dismiss(mut self, message: &impl Serialize) {
        self.descriptors.clear();
        if self.send(message, &[]).await.is_ok() {
            self.drain().await;
        }
    }

    /// Waits until the other end has given up what it was handed.
    pub(super) async fn dismissed(&mut self) {
        if rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write).is_ok() {
            self.drain().await;
        }
    }

    async fn drain(&mut self) {
        let drained = async {
            let mut nowhere = Vec::new();
            let stream = &self.stream;
            while let Ok(1..) =
                stream.async_io(Interest::READABLE, || receive(stream, &mut nowhere, &mut Vec::new())).await
            {
                nowhere.clear();
            }
        };
        // It may have gone, or go on for ever.
        let _ = tokio::time::timeout(DRAINED_WITHIN, drained).await;
    }

    /// The descriptor that came first.
    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        if self.descriptors.is_empty() { None } else { Some(self.descriptors.remove(0)) }
    }
}

fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

fn receive(socket: &UnixStream, heard: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut piece = [0; PIECE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut piece)], &mut control, flags)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::other("too many descriptors"));
    }
    heard.extend_from_slice(piece.get(..message.bytes).unwrap_or_default());
    Ok(message.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_messages_arrive_in_order_and_descriptors_with_them() {
        let (left, right) = UnixStream::pair().unwrap();
        let (left, mut right) = (Line::new(left), Line::new(right));
        let long = "x".repeat(3 << 20);
        let file = tempfile::tempfile().unwrap();
        let sending = async {
            left.send(&long, &[file.as_fd()]).await.unwrap();
            left.send(&"short", &[]).await.unwrap();
            drop(left);
        };
        let receiving = async {
            assert_eq!(right.receive::<String>().await.unwrap().unwrap(), long);
            assert!(right.take_descriptor().is_some());
            assert_eq!(right.receive::<String>().await.unwrap().unwrap(), "short");
            assert!(right.take_descriptor().is_none());
            assert_eq!(right.receive::<String>().await.unwrap(), None);
        };
        tokio::join!(sending, receiving);
    }
}
