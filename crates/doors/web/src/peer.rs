//! Whose program is at the other end of a loopback connection. Loopback is not a user: on a shared machine anybody can
//! connect to it, so the kernel is asked for the owner of the other socket. Which program it is
//! matters only for what would loosen an agent, and is the engine's to find out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_engine::{Caller, Engine};

use crate::sock_diag;

/// The table is read up to here; a machine with more connections than that has to wait for a quieter moment.
const TABLE_MAX: u64 = 64 << 20;
/// How often one is looked for that must be there: to be passed over so often takes more than chance.
const LOOKS: u32 = 4;
/// States of a connection whose other end still has an owner: established, and its half-closed forms. What was closed
/// is listed as root's until it is gone, whoever it belonged to.
const OWNED: [&str; 3] = ["01", "04", "05"];
/// The same as numbers.
const OWNED_STATES: [u8; 3] = [1, 4, 5];

/// The kernel has found a socket when it was asked for one.
static KERNEL_ANSWERS: AtomicBool = AtomicBool::new(false);

/// A socket of this machine, as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    uid: u32,
    inode: u64,
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its end.
    pub address: SocketAddr,
    /// Our end.
    pub own: SocketAddr,
    /// A program of our own user, on this machine.
    pub ours: bool,
}

impl Peer {
    /// The program at the other end, as the engine judges it. Waits for the kernel, and looks at every process of the machine.
    pub fn caller(&self, engine: &Engine) -> Caller {
        caller(self.address, self.own, |inode, uid| engine.caller_holding(inode, uid))
    }
}

/// The user whose socket is connected from `peer` to `own`, both on this machine. Waits for the kernel.
pub(crate) fn uid(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    Ok(owner(peer, own)?.map(|owned| owned.uid))
}

fn caller(peer: SocketAddr, own: SocketAddr, holding: impl FnOnce(u64, u32) -> Caller) -> Caller {
    match owner(peer, own) {
        Ok(Some(Owned { uid, inode })) => holding(inode, uid),
        // Somebody elsewhere, who was let in by a token. One of this machine's that is not in the table has closed its end.
        Ok(None) if is_elsewhere(peer) => Caller::Elsewhere,
        _ => Caller::Unknown,
    }
}

/// Whether an address is another machine's: nobody here can be there.
fn is_elsewhere(peer: SocketAddr) -> bool {
    let (mut here, ip) = (peer, peer.ip().to_canonical());
    here.set_port(0);
    let bound = std::net::UdpSocket::bind(here);
    !ip.is_loopback() && bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

fn owner(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<Owned>> {
    let (peer, own) = (plain(peer), plain(own));
    // A kernel that cannot be asked for one socket says that there is none, so once it found one its word counts.
    let answers = match sock_diag::find(peer, own) {
        Ok(Some(found)) => {
            KERNEL_ANSWERS.store(true, Ordering::Relaxed);
            let owned = OWNED_STATES.contains(&found.state) && found.inode != 0;
            return Ok(owned.then_some(Owned { uid: found.uid, inode: found.inode }));
        }
        Ok(None) => KERNEL_ANSWERS.load(Ordering::Relaxed),
        Err(_) => false,
    };
    if answers { Ok(None) } else { in_table(peer, own) }
}

/// The same where the kernel cannot be asked for one socket. It gives its tables piece by piece, and who comes or goes
/// meanwhile shifts the rest: one that must be there and was passed over is looked for again.
fn in_table(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<Owned>> {
    let must_be_there = peer.ip().is_loopback();
    for _ in 1..LOOKS {
        match in_table_now(peer, own) {
            Ok(None) if must_be_there => {}
            found => return found,
        }
    }
    in_table_now(peer, own)
}

fn in_table_now(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<Owned>> {
    let tables: &[&str] = match peer {
        // A socket of the newer family may speak the older one.
        SocketAddr::V4(_) => &["/proc/net/tcp", "/proc/net/tcp6"],
        SocketAddr::V6(_) => &["/proc/net/tcp6"],
    };
    for table in tables {
        let file = match File::open(table) {
            Ok(file) => file,
            // A kernel without the newer family has no table of it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Some(owned) = search(BufReader::new(file.take(TABLE_MAX)), peer, own)? {
            return Ok(Some(owned));
        }
    }
    Ok(None)
}

/// An address of the older family, however it is written.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn search(table: impl BufRead, peer: SocketAddr, own: SocketAddr) -> io::Result<Option<Owned>> {
    for line in table.lines().skip(1) {
        let line = line?;
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(remote), Some(state)) = (words.next(), words.next(), words.next()) else { continue };
        if !OWNED.contains(&state) || address(local) != Some(peer) || address(remote) != Some(own) {
            continue;
        }
        // tx:rx, tr:when, retransmits; then the owner, its time-out, and the socket's number, 0 once nobody holds it.
        let (uid, inode) = (words.nth(3).and_then(|uid| uid.parse().ok()), words.nth(1).and_then(|id| id.parse().ok()));
        match (uid, inode) {
            (_, None | Some(0)) => {}
            (Some(uid), Some(inode)) => return Ok(Some(Owned { uid, inode })),
            (None, _) => return Ok(None),
        }
    }
    Ok(None)
}

/// `0100007F:1F90`, or the same with four words.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn found(line: &str) -> Option<Owned> {
        let table = format!("{HEAD}{line}\n");
        search(table.as_bytes(), "127.0.0.1:4660".parse().unwrap(), "127.0.0.1:9100".parse().unwrap()).unwrap()
    }

    #[test]
    fn the_owner_of_the_other_end_is_found() {
        let line = |state: &str, uid: u32, inode: u32| {
            format!(
                "   0: 0100007F:1234 0100007F:238C {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0 20"
            )
        };
        let owned = Some(Owned { uid: 1000, inode: 77 });
        assert_eq!(found(&line("01", 1000, 77)), owned);
        assert_eq!(found(&line("05", 1000, 77)), owned);
    }

    #[test]
    fn a_socket_that_nobody_holds_belongs_to_nobody_although_it_is_listed_as_roots() {
        let line = |state: &str| {
            format!(
                "   0: 0100007F:1234 0100007F:238C {state} 00000000:00000000 00:00000000 00000000  0        0 0 1 0 20"
            )
        };
        for state in ["01", "04", "05", "06", "08"] {
            assert_eq!(found(&line(state)), None, "{state}");
        }
    }

    #[test]
    fn our_own_end_and_other_connections_are_not_the_peer() {
        assert_eq!(found("   0: 0100007F:238C 0100007F:1234 01 0:0 00:0 0 1000 0 77"), None);
        assert_eq!(found("   0: 0100007F:1234 0100007F:238D 01 0:0 00:0 0 1000 0 77"), None);
        assert_eq!(found("torn"), None);
    }

    #[test]
    fn the_newer_family_and_its_way_to_write_the_older_one_are_understood() {
        assert_eq!(address("00000000000000000000000001000000:238C"), Some("[::1]:9100".parse().unwrap()));
        assert_eq!(address("0000000000000000FFFF00000100007F:238C"), Some("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address("00:1"), None);
    }

    /// Both ends of a connection, and their addresses.
    fn connected() -> (TcpStream, TcpStream, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let own = server.local_addr().unwrap();
        (client, server, peer, own)
    }

    #[test]
    fn a_connection_of_our_own_is_ours() {
        let (client, _server, peer, own) = connected();
        assert_eq!(uid(peer, own).unwrap(), Some(rustix::process::geteuid().as_raw()));
        drop(client);
        assert_eq!(uid(peer, own).unwrap(), None);
    }

    #[test]
    fn the_table_finds_what_the_kernel_finds() {
        let (_client, _server, peer, own) = connected();
        let mut found = None;
        // Others that come and go meanwhile move its line.
        for _ in 0..100 {
            found = in_table(peer, own).unwrap();
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some() && found == owner(peer, own).unwrap());
    }

    #[test]
    fn a_connection_that_is_gone_is_nobodys_and_one_from_elsewhere_came_with_a_token() {
        let (client, _server, peer, own) = connected();
        drop(client);
        assert_eq!(caller(peer, own, |_, _| Caller::Free), Caller::Unknown);
        assert_eq!(caller("192.0.2.1:4660".parse().unwrap(), own, |_, _| Caller::Free), Caller::Elsewhere);
        assert_eq!(caller("[2001:db8::1]:4660".parse().unwrap(), own, |_, _| Caller::Free), Caller::Elsewhere);
    }

    #[test]
    fn an_address_of_this_machine_is_not_elsewhere_although_nobody_holds_the_other_end() {
        let own = "192.0.2.1:8767".parse().unwrap();
        // The address that this machine would send from, where it has another than the loopback.
        let out = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|out| {
            out.connect("192.0.2.1:9")?;
            out.local_addr()
        });
        for here in out.into_iter().chain(["[::ffff:127.0.0.1]:4660", "[::1]:4660"].map(|text| text.parse().unwrap())) {
            assert_eq!(caller(here, own, |_, _| Caller::Free), Caller::Unknown, "{here}");
        }
    }
}
