//! A helper of this process, in a group of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_story::Exit;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Brief, Ended, Ran, Running, see_through};

/// How long a file that is being written elsewhere is tried again, and how often.
const BUSY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(5));

/// Not waited for yet, so that its number can not be another's.
struct Ours {
    group: Pid,
    process: OwnedFd,
}

impl Running for Ours {
    fn over(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    fn ask(&self) {
        let _ = kill_process_group(self.group, Signal::TERM);
    }

    fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

pub(super) fn run(brief: &Brief) -> io::Result<Ran> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(&brief.program);
    command.args(&brief.args).env_clear().envs(brief.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&brief.cwd).process_group(0);
    command.stdin(brief.input()?.map_or_else(Stdio::null, Stdio::from));
    command.stderr(if brief.with_stderr { Stdio::from(writer.try_clone()?) } else { Stdio::null() });
    command.stdout(writer);
    let mut child = start(&mut command, brief.within.min(BUSY.0))?;
    // The command holds the writing end: as long as it lives, the pipe has no end.
    drop(command);
    let group = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    let seen = pidfd_open(group, PidfdFlags::empty())
        .inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })
        .map_err(io::Error::from)
        .and_then(|process| see_through(brief, &Ours { group, process }, reader));
    let status = child.wait()?;
    let (over, said) = seen?;
    let exit = Exit::of(status.code(), status.signal());
    Ok(Ran { ended: over.unwrap_or(Ended::Exited(exit)), said })
}

/// A program that is being started elsewhere may for a moment hold what was just written.
fn start(command: &mut Command, within: Duration) -> io::Result<Child> {
    let deadline = Instant::now() + within;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                std::thread::sleep(BUSY.1);
            }
            other => return other,
        }
    }
}
