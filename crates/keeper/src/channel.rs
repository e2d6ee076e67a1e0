//! One packet at a time over a SEQPACKET socket, descriptors beside it. Never blocks unless the
//! socket does, and never leaves a received descriptor open across exec.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::wire::FDS_MAX;

/// What became of a read.
#[derive(Debug)]
pub(crate) enum Received {
    /// A packet of this length is in the buffer. `cut`: descriptors were dropped because our table
    /// is full.
    Packet { length: usize, fds: Vec<OwnedFd>, cut: bool },
    /// The other side is gone.
    Closed,
}

/// Sends one packet whole or not at all.
pub(crate) fn send(socket: impl AsFd, packet: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    loop {
        match sendmsg(socket.as_fd(), &[IoSlice::new(packet)], &mut control, flags | SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives one packet. A packet that did not fit is an error. That the other side went without having read everything is
/// told once, before the packets that it had sent: those are still there.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut reset = false;
    let message = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(buffer)], &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) if !reset => reset = true,
            Err(Errno::CONNRESET) => return Ok(Received::Closed),
            Err(errno) => return Err(errno),
        }
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if message.bytes == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Packet { length: message.bytes, fds, cut: message.flags.contains(ReturnFlags::CTRUNC) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn the_greatest_number_of_descriptors_arrives_in_one_packet() {
        let (left, right) = pair();
        let fds = vec![left.as_fd(); FDS_MAX];
        send(&left, b"x", &fds, SendFlags::empty()).unwrap();
        let mut buffer = [0; 16];
        let Received::Packet { length, fds, cut } = receive(&right, &mut buffer, RecvFlags::empty()).unwrap() else {
            panic!("closed");
        };
        assert_eq!((length, fds.len(), cut), (1, FDS_MAX, false));
    }

    #[test]
    fn a_packet_too_large_for_the_buffer_is_an_error_not_half_a_packet() {
        let (left, right) = pair();
        send(&left, b"0123456789", &[], SendFlags::empty()).unwrap();
        let got = receive(&right, &mut [0; 4], RecvFlags::empty());
        assert_eq!(got.unwrap_err(), Errno::MSGSIZE);
    }

    #[test]
    fn what_the_other_side_said_last_is_heard_although_it_left_something_unread() {
        let (left, right) = pair();
        send(&right, b"unread", &[], SendFlags::empty()).unwrap();
        send(&left, b"bye", &[], SendFlags::empty()).unwrap();
        drop(left);
        let mut buffer = [0; 16];
        let got = receive(&right, &mut buffer, RecvFlags::empty()).unwrap();
        assert!(matches!(got, Received::Packet { length: 3, .. }), "closed");
        assert!(matches!(receive(&right, &mut buffer, RecvFlags::empty()).unwrap(), Received::Closed));
    }

    #[test]
    fn the_end_of_the_other_side_is_seen() {
        let (left, right) = pair();
        drop(left);
        let got = receive(&right, &mut [0; 4], RecvFlags::empty()).unwrap();
        assert!(matches!(got, Received::Closed));
    }
}
