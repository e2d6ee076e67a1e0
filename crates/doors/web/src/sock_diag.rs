//! The kernel's word about one TCP socket of this machine, asked for by its two ends. Unlike a walk through `/proc/net/tcp`, in
//! which whoever comes or goes meanwhile moves the lines of others, it cannot miss one that is there.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::time::Duration;

/// `SOCK_DIAG_BY_FAMILY`, a request, an error in answer to one.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const TCP: u8 = 6;
/// `INET_DIAG_NOCOOKIE`: whichever socket has these ends.
const ANY: [u8; 8] = [0xff; 8];
/// The kernel answers at once or not at all.
const WITHIN: Duration = Duration::from_secs(1);
/// Lengths of headers and of what is asked and answered.
const HEAD: usize = 16;
const ASKED: usize = 72;
const ID: usize = 48;
const NOT_FOUND: i32 = -2;

/// A socket, as the kernel tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    /// As in `/proc/net/tcp`.
    pub(crate) state: u8,
    pub(crate) uid: u32,
    /// 0 once nobody holds it.
    pub(crate) inode: u64,
}

/// The socket whose own end is `local` and other end `remote`. Nothing where there is none, or where this kernel cannot say.
pub(crate) fn find(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(WITHIN))?;
    sendto(&socket, &question(local, remote), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 1024];
    let (_, length) = recv(&socket, &mut answer, RecvFlags::empty())?;
    read(answer.get(..length).unwrap_or_default())
}

fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(ASKED);
    bytes.extend(u32::try_from(ASKED).unwrap_or(0).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Number and sender: there is one question on this socket.
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or(0), TCP, 0, 0]);
    // In any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    bytes.extend(octets(local.ip()));
    bytes.extend(octets(remote.ip()));
    // Over any interface.
    bytes.extend([0; 4]);
    bytes.extend(ANY);
    bytes
}

/// An address in the room of the longer kind.
fn octets(ip: IpAddr) -> [u8; 16] {
    let mut room = [0; 16];
    match ip {
        IpAddr::V4(ip) => room.iter_mut().zip(ip.octets()).for_each(|(to, from)| *to = from),
        IpAddr::V6(ip) => room = ip.octets(),
    }
    room
}

fn read(answer: &[u8]) -> io::Result<Option<Socket>> {
    let odd = || io::Error::other("an answer about sockets that cannot be read");
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes).ok_or_else(odd)?;
    let word = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    match kind {
        ERROR => match word(HEAD).ok_or_else(odd)?.cast_signed() {
            NOT_FOUND => Ok(None),
            code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        },
        BY_FAMILY => {
            let state = answer.get(HEAD + 1).copied();
            // After the ends of it: when it expires, two queues, the owner, its number.
            let (uid, inode) = (word(HEAD + 4 + ID + 12), word(HEAD + 4 + ID + 16));
            let found =
                state.zip(uid).zip(inode).map(|((state, uid), inode)| Socket { state, uid, inode: inode.into() });
            found.map(Some).ok_or_else(odd)
        }
        _ => Err(odd()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ESTABLISHED: u8 = 1;

    /// Both ends of a connection at this address.
    fn connected(at: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(at).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_socket_is_found_by_its_ends_and_is_whose_it_is() {
        // Not every machine has the newer family.
        let newer = TcpListener::bind("[::1]:0").is_ok().then_some("[::1]:0");
        for at in std::iter::once("127.0.0.1:0").chain(newer) {
            let (client, server) = connected(at);
            let (peer, own) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            let inode = rustix::fs::fstat(client.as_fd()).unwrap().st_ino;
            let uid = rustix::process::geteuid().as_raw();
            assert_eq!(find(peer, own).unwrap(), Some(Socket { state: ESTABLISHED, uid, inode }), "{at}");
            drop((client, server));
            assert!(find(peer, own).unwrap().is_none_or(|found| found.inode == 0), "{at}");
        }
    }

    #[test]
    fn one_that_is_there_is_never_missed_however_many_come_and_go() {
        let held: Vec<_> = (0..64).map(|_| connected("127.0.0.1:0")).collect();
        let (busy, mut missed) = (AtomicBool::new(true), 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while busy.load(Ordering::Relaxed) {
                        drop(connected("127.0.0.1:0"));
                    }
                });
            }
            for (_, server) in held.iter().cycle().take(20 * held.len()) {
                let found = find(server.peer_addr().unwrap(), server.local_addr().unwrap());
                missed += usize::from(!matches!(found, Ok(Some(found)) if found.inode != 0));
            }
            busy.store(false, Ordering::Relaxed);
        });
        assert_eq!(missed, 0);
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for odd in [&[][..], &[0; 16], &[0xff; 40]] {
            assert!(read(odd).is_err());
        }
    }
}
