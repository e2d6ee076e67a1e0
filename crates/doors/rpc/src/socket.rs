//! A client's socket, watched for input only. Were it always watched for room too, every reply that the client takes would
//! wake the connection once more for nothing; room is watched for only while something could not be written.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};
use tokio::net::UnixStream;

use crate::transport::{Arrival, Transport, TryWrite};

/// Both ways of one connection. Only `wait` waits.
pub(crate) struct Socket {
    fd: Arc<OwnedFd>,
    /// What the kernel was last asked to tell of; nothing before the first wait.
    watch: Option<(Interest, AsyncFd<Arc<OwnedFd>>)>,
}

/// One way of a connection.
pub(crate) struct Writer(Arc<OwnedFd>);

impl TryWrite for Writer {
    fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_empty(|| rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))
    }
}

impl Socket {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Self { fd: Arc::new(OwnedFd::from(stream.into_std()?)), watch: None })
    }

    #[expect(
        deprecated,
        reason = "its successor is unsafe; what it asks for holds: the descriptor is owned, and shared"
    )]
    fn watch(&mut self, interest: Interest) -> io::Result<&AsyncFd<Arc<OwnedFd>>> {
        let watch = match self.watch.take() {
            Some((watched, watch)) if watched == interest => watch,
            other => {
                // The kernel keeps one watch for a descriptor. A new one tells at once what is so already.
                drop(other);
                AsyncFd::with_interest(Arc::clone(&self.fd), interest)?
            }
        };
        Ok(&self.watch.insert((interest, watch)).1)
    }
}

impl Transport for Socket {
    type Writer = Writer;

    fn try_read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        try_read(&self.fd, buffer)
    }

    fn writer(&self) -> Writer {
        Writer(Arc::clone(&self.fd))
    }

    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let hung = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        poll(&mut fds, Some(&now)).is_ok() && fds.iter().any(hung)
    }

    async fn wait(&mut self, mut buffer: Option<&mut Vec<u8>>, room: bool) -> io::Result<Arrival> {
        let watch = self.watch(if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE })?;
        let wanted = match (&buffer, room) {
            (Some(_), true) => Interest::READABLE | Interest::WRITABLE,
            (Some(_), false) => Interest::READABLE,
            (None, _) => Interest::WRITABLE,
        };
        loop {
            let mut ready = watch.ready(wanted).await?;
            if room && ready.ready().is_writable() {
                ready.clear_ready_matching(Ready::WRITABLE);
                return Ok(Arrival::Room);
            }
            let Some(buffer) = buffer.as_deref_mut() else { continue };
            let space = buffer.capacity() - buffer.len();
            let read = try_read(watch.get_ref(), buffer)?;
            // A short count says that the socket is empty, and saves asking again.
            if read.is_none_or(|count| count < space) {
                ready.clear_ready_matching(Ready::READABLE);
            }
            if let Some(count) = read {
                return Ok(Arrival::Input(count));
            }
        }
    }
}

fn try_read(fd: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    unless_empty(|| rustix::net::recv(fd, spare_capacity(buffer), RecvFlags::empty()).map(|(count, _)| count))
}

fn unless_empty(mut attempt: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match attempt() {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
