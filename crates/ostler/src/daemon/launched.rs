//! A program that was started again by its own launcher: it leaves the launcher's session and reports back once.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::fs::{Mode, OFlags};

/// The daemon's end of the line to its launcher.
pub(crate) struct Launched {
    launcher: UnixStream,
}

impl Launched {
    /// Takes the line to the launcher from standard input, which becomes `/dev/null`, and starts a session.
    pub(crate) fn by_launcher() -> io::Result<Self> {
        let line = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        // Fails only for a group leader, which has a session of its own already.
        let _ = rustix::process::setsid();
        Ok(Self { launcher: line.into() })
    }

    /// The line itself.
    pub(crate) fn launcher(&mut self) -> &mut UnixStream {
        &mut self.launcher
    }
}
