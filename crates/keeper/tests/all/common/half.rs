//! The daemon's side of the protocol by hand, for what the client never does.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketType,
};

use super::{PATIENCE, Stable};

/// A daemon by hand: says hello, takes and acknowledges some batches, and goes.
pub struct Half {
    pub socket: OwnedFd,
}

impl Half {
    pub fn reach(stable: &Stable) -> OwnedFd {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        let address = SocketAddrUnix::new(stable.path().join("keeper.sock")).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE)).unwrap();
        socket
    }

    pub fn connect(stable: &Stable) -> Half {
        let half = Half { socket: Half::reach(stable) };
        half.say(r#"{"id":0,"verb":{"hello":{"protocol":7,"oldest":1,"pid":1,"mood":"eager"}}}"#);
        half
    }

    /// Connects once the connection before is gone.
    pub fn welcome(stable: &Stable) -> Half {
        loop {
            let half = Half::connect(stable);
            if half.hear().0["body"]["hello"].is_object() {
                return half;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn say(&self, text: &str) {
        let mut packet = u32::try_from(text.len()).unwrap().to_le_bytes().to_vec();
        packet.extend_from_slice(text.as_bytes());
        rustix::net::send(&self.socket, &packet, SendFlags::empty()).unwrap();
    }

    /// The next message and how many descriptors came with it.
    pub fn hear(&self) -> (serde_json::Value, usize) {
        let mut buffer = vec![0; 256 * 1024];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
        let got = rustix::net::recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::empty()).unwrap();
        let fds = control.drain().map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => fds.count(),
            _ => 0,
        });
        let fds = fds.sum();
        let length = u32::from_le_bytes(buffer[..4].try_into().unwrap()) as usize;
        assert!(got.bytes >= 4 + length);
        (serde_json::from_slice(&buffer[4..4 + length]).unwrap(), fds)
    }
}
