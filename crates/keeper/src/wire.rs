//! The messages between daemon and keeper, and their framing. A packet is the length of its JSON
//! head, the head, and raw bytes that the head describes; descriptors travel beside it. Both sides
//! ignore fields they do not know, and a verb the keeper does not know is answered by name, so an
//! old keeper serves a newer daemon.

use std::path::PathBuf;

use ostler_story::Exit;
use serde::{Deserialize, Serialize};

use crate::spec::{Listed, Own, Scope, Signalled, StdioKind, Step, Stray};

/// The keeper's name: argv[0], and all that a process listing shows of it.
pub const NAME: &str = "ostler-keeper";
/// The newest protocol spoken here: 2 has `hold`, and commands in the packet; 3 has `entrust`; 4 has `note`.
pub(crate) const PROTOCOL: u32 = 4;
/// The oldest protocol spoken here.
pub(crate) const OLDEST: u32 = 1;
/// The socket's name inside the instance directory.
pub(crate) const SOCKET: &str = "keeper.sock";

/// Longest key: it becomes an environment entry of the child.
pub const KEY_MAX: usize = 128;
/// Most metadata bytes per child: the keeper holds them in memory.
pub const META_MAX: usize = 32 * 1024;
/// Most descriptors held per child.
pub const HELD_MAX: usize = 16;
/// Most bytes that a daemon entrusts to its keeper: a key, a position and a hash.
pub const ENTRUSTED_MAX: usize = 128;
/// The kernel's limit of descriptors in one message (`SCM_MAX_FD`).
pub(crate) const FDS_MAX: usize = 253;
/// Largest packet: well below the 213,000 bytes at which a socket refuses a message.
pub(crate) const PACKET_MAX: usize = 128 * 1024;
/// A batch of children is closed at this size, so that one more child of any size still fits.
pub(crate) const BATCH_BYTES: usize = 48 * 1024;

/// A daemon's message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) verb: Verb,
}

/// All that can be said of a request whose verb is not known.
#[derive(Debug, Deserialize)]
pub(crate) struct Numbered {
    #[serde(default)]
    pub(crate) id: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    Hello(Greeting),
    /// Which process is the daemon? From anybody of this user, in place of a hello; the connection ends with the answer.
    Daemon,
    /// The last batch of children has arrived.
    Adopted,
    Spawn(SpawnWire),
    List,
    Strays,
    Signal {
        key: String,
        signal: i32,
        scope: Scope,
    },
    CloseStdin {
        key: String,
    },
    Resize {
        key: String,
        rows: u16,
        cols: u16,
    },
    Abandon {
        key: String,
    },
    Ack {
        key: String,
    },
    /// Command in the one descriptor beside it; no descriptor: no guard.
    Guard,
    Farewell,
    /// Whether the keeper may leave a core file, and be looked into.
    CoreDumps {
        allowed: bool,
    },
    /// New program in the one descriptor beside it.
    Reexec,
    Import(ChildWire),
    /// The one descriptor beside it is held with the child, as the first; a child that has any keeps what it has.
    Hold {
        key: String,
    },
    /// The raw bytes beside it are kept in memory in place of those before, and given to the next daemon. Not answered.
    Entrust,
    /// The file in the one descriptor beside it says that somebody is hosted. It is emptied when the keeper ends with nobody
    /// left, and kept open until then. Not answered.
    Note,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) protocol: u32,
    pub(crate) oldest: u32,
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) program: String,
    /// The file that it runs, by device and number: nobody else may look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<(u64, u64)>,
    /// What the daemon before entrusted to the keeper; only the keeper's greeting has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) entrusted: Vec<u8>,
}

/// A spawn: descriptors beside it are the sealed command, then `given`, then `held`; the raw bytes
/// are the metadata. A short command is no descriptor but the last `command` of the raw bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnWire {
    pub(crate) key: String,
    pub(crate) stdio: [StdioKind; 3],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) umask: Option<u32>,
    #[serde(default)]
    pub(crate) own: Own,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nofile: Option<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<(u32, u64, u64)>,
    #[serde(default)]
    pub(crate) given: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) void_exit: Option<i32>,
    /// A short helper, and how long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within_ms: Option<u64>,
}

/// What a descriptor beside a child is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Stdin,
    Stdout,
    Stderr,
    Master,
    RelayRead,
    RelayWrite,
    Held,
    #[serde(other)]
    Other,
}

/// A child: its descriptors are beside the packet in the order of `fds`, its metadata in the raw
/// bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChildWire {
    pub(crate) key: String,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    #[serde(default)]
    pub(crate) meta: usize,
    #[serde(default)]
    pub(crate) fds: Vec<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) starting: bool,
    /// The control group in which a keeper that is gone has put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<PathBuf>,
}

/// A keeper's message: the answer to request `id`, or news when `id` is 0.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeeperMessage {
    pub(crate) id: u64,
    pub(crate) body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    Hello(Greeting),
    Busy {
        pid: u32,
    },
    Version {
        protocol: u32,
    },
    /// The daemon that is connected and has not ended.
    Daemon {
        pid: Option<u32>,
        /// There is none, and the keeper brings one back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        soon: bool,
    },
    Batch {
        children: Vec<ChildWire>,
        more: bool,
    },
    Spawned(ChildWire),
    SpawnFailed {
        step: Step,
        errno: i32,
    },
    List {
        children: Vec<Listed>,
        more: bool,
    },
    Strays {
        strays: Vec<Stray>,
    },
    Signalled(Signalled),
    Done,
    NoSuchChild,
    AlreadyExited,
    System {
        errno: i32,
    },
    Refused {
        why: String,
        /// To a stranger: it may come again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    Exited {
        key: String,
        exit: Exit,
    },
    NeverStarted {
        key: String,
        step: Step,
        errno: i32,
    },
    Intruder {
        key: String,
        pid: u32,
    },
}

/// Frames a message and its raw bytes.
pub(crate) fn encode(head: &impl Serialize, raw: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 4];
    // Serialising these types to memory has no way to fail; an empty head would be refused.
    let _ = serde_json::to_writer(&mut packet, head);
    let length = u32::try_from(packet.len().saturating_sub(4)).unwrap_or(0);
    if let Some(prefix) = packet.first_chunk_mut::<4>() {
        *prefix = length.to_le_bytes();
    }
    packet.extend_from_slice(raw);
    packet
}

/// Splits a packet into its JSON head and its raw bytes.
pub(crate) fn split(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = packet.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*prefix)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_apart_as_it_was_put_together() {
        let packet = encode(&Request { id: 7, verb: Verb::Ack { key: "k".into() } }, b"\0raw");
        let (head, raw) = split(&packet).unwrap();
        let request: Request = serde_json::from_slice(head).unwrap();
        assert!(matches!(request, Request { id: 7, verb: Verb::Ack { key } } if key == "k"));
        assert_eq!(raw, b"\0raw");
    }

    #[test]
    fn a_packet_that_lies_about_its_length_is_refused() {
        assert!(split(b"").is_none());
        assert!(split(&[9, 0, 0, 0, b'{']).is_none());
    }

    #[test]
    fn a_newer_daemon_may_add_fields_and_verbs() {
        let text = br#"{"id":3,"color":"bay","verb":{"ack":{"key":"k","why":"journaled"}}}"#;
        assert!(serde_json::from_slice::<Request>(text).is_ok());
        let text = br#"{"id":4,"verb":{"groom":{"key":"k"}}}"#;
        assert!(serde_json::from_slice::<Request>(text).is_err());
        assert_eq!(serde_json::from_slice::<Numbered>(text).unwrap().id, 4);
    }
}
