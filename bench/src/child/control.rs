//! The FIFO through which the battery steers a child without touching the product: surge now, end now.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::conn::timespec;

/// How often a child looks whether the battery still lives: an aborted run must not leave children behind.
const PARENT_CHECK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Write this many bytes as fast as they are taken.
    Surge(u64),
    /// End; a child that reads stdin first waits for so many bytes of it.
    Quit(u64),
}

/// Nine bytes: below PIPE_BUF, so a message is never cut.
const MESSAGE: usize = 9;

impl Command {
    fn encode(self) -> [u8; MESSAGE] {
        let (tag, number) = match self {
            Self::Surge(number) => (b's', number),
            Self::Quit(number) => (b'q', number),
        };
        let mut message = [tag; MESSAGE];
        for (to, from) in message.iter_mut().skip(1).zip(number.to_le_bytes()) {
            *to = from;
        }
        message
    }

    fn decode(message: [u8; MESSAGE]) -> Option<Self> {
        let (tag, number) = message.split_first()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        match tag {
            b's' => Some(Self::Surge(number)),
            b'q' => Some(Self::Quit(number)),
            _ => None,
        }
    }
}

fn open_fifo(path: &Path) -> Result<File> {
    // Read and write: the FIFO then never reports an end, whoever opened it first.
    let flags = OFlags::NONBLOCK.bits() as i32;
    File::options().read(true).write(true).custom_flags(flags).open(path).with_context(|| path.display().to_string())
}

/// The battery's end.
pub(crate) struct Steering {
    fifo: File,
    pub(crate) path: PathBuf,
}

impl Steering {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).context("make a control FIFO")?;
        Ok(Self { fifo: open_fifo(&path)?, path })
    }

    /// A surge for which there is no room is dropped: the child has enough of them waiting.
    pub(crate) fn surge(&mut self, bytes: u64) -> Result<()> {
        match self.fifo.write(&Command::Surge(bytes).encode()) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn quit(&mut self, stdin_total: u64) -> Result<()> {
        self.fifo.write_all(&Command::Quit(stdin_total).encode()).context("tell a child to end")
    }
}

/// The child's end.
pub(crate) struct Control {
    fifo: File,
    parent: i32,
    checked: Instant,
}

impl Control {
    pub(crate) fn open(path: &Path, parent: i32) -> Result<Self> {
        Ok(Self { fifo: open_fifo(path)?, parent, checked: Instant::now() })
    }

    /// Waits up to `pause` for a command.
    pub(crate) fn wait(&mut self, pause: Duration) -> Result<Option<Command>> {
        self.wait_or(pause, None).map(|(command, _)| command)
    }

    /// Waits up to `pause` for a command or for `input` to become readable; the second answer says whether it is.
    pub(crate) fn wait_or(
        &mut self,
        pause: Duration,
        input: Option<rustix::fd::BorrowedFd<'_>>,
    ) -> Result<(Option<Command>, bool)> {
        self.check_parent()?;
        let mut readable = false;
        {
            let mut ready = vec![PollFd::new(&self.fifo, PollFlags::IN)];
            ready.extend(input.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut ready, Some(&timespec(pause))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(stdin) = ready.get(1) {
                readable = !stdin.revents().is_empty();
            }
        }
        let mut message = [0; MESSAGE];
        match self.fifo.read(&mut message) {
            Ok(MESSAGE) => Ok((Command::decode(message), readable)),
            Ok(n) => bail!("{n} bytes in the control FIFO"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok((None, readable)),
            Err(error) => Err(error.into()),
        }
    }

    fn check_parent(&mut self) -> Result<()> {
        if self.checked.elapsed() > PARENT_CHECK {
            self.checked = Instant::now();
            if !Path::new(&format!("/proc/{}", self.parent)).exists() {
                bail!("the battery (pid {}) is gone", self.parent);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_fifo() {
        for command in [Command::Surge(1 << 20), Command::Quit(0), Command::Quit(u64::MAX)] {
            assert_eq!(Command::decode(command.encode()), Some(command));
        }
        assert_eq!(Command::decode([b'x'; MESSAGE]), None);
    }
}
