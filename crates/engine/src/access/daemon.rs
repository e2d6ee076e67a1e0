//! Whether whoever listens where a daemon should is that daemon. Whoever can write the folder can stop the daemon and put a
//! socket of its own there: it would show a person a question of its own, and ask for a password.
//!
//! The keeper says which process its daemon is, and the kernel which process listens. A keeper is believed that nobody hosts.
//! Once the keeper is dead, who was hosted can pose as both where there are no control groups; SECURITY.md says so.

use std::os::fd::AsFd;
use std::path::Path;

use ostler_keeper::client::{Serves, check_listener, daemon_of};
use ostler_keeper::{ConnectError, procfs};

use super::Peer;

/// Why nothing is decided with a listener.
#[derive(Debug, thiserror::Error)]
pub enum NotTheDaemon {
    /// The keeper serves another process.
    #[error(
        "pid {pid} ({name}) listens in its place, and the real one is pid {daemon}; end it (kill {pid}), then: ostler restart"
    )]
    Another {
        /// Who listens.
        pid: u32,
        /// Its short name.
        name: String,
        /// The daemon.
        daemon: u32,
    },
    /// The keeper serves nobody.
    #[error(
        "pid {pid} ({name}) listens in its place, and the real one is not running; end it (kill {pid}), then: ostler up"
    )]
    Alone {
        /// Who listens.
        pid: u32,
        /// Its short name.
        name: String,
    },
    /// Nobody can say which process the daemon is.
    #[error("cannot check that it is the real one: {0}")]
    Unsaid(String),
}

impl From<ConnectError> for NotTheDaemon {
    fn from(error: ConnectError) -> Self {
        Self::Unsaid(match error {
            ConnectError::Hosted(why) => why,
            error => format!("{error}; try: ostler restart"),
        })
    }
}

/// Makes sure that the other end of this connection is the daemon of the instance in `dir`. Asks the keeper, and waits for it.
pub fn is_the_daemon(connection: impl AsFd, dir: &Path) -> Result<(), NotTheDaemon> {
    let gone = || NotTheDaemon::Unsaid("it has just ended; try again".to_owned());
    let peer = Peer::of(&connection).map_err(|_| gone())?;
    let name = || procfs::stat(peer.pid).map(|stat| stat.name).unwrap_or_default();
    match daemon_of(dir)? {
        // Both have the number, and had it when the keeper spoke: they are the same.
        Serves::Process(pid) if pid == peer.pid => {
            if peer.lives() {
                Ok(())
            } else {
                Err(gone())
            }
        }
        Serves::Process(daemon) => Err(NotTheDaemon::Another { pid: peer.pid, name: name(), daemon }),
        Serves::Nobody | Serves::Soon => Err(NotTheDaemon::Alone { pid: peer.pid, name: name() }),
        Serves::Unsaid => Ok(check_listener(&connection)?),
    }
}

/// Whether the keeper of the instance in `dir` has a daemon, or brings one back. Asks the keeper, and waits for it.
pub fn daemon_comes(dir: &Path) -> bool {
    matches!(daemon_of(dir), Ok(Serves::Process(_) | Serves::Soon))
}
