//! Runs a program for a moment, to see whether it works or what it says. Its whole group is killed at the deadline.

use std::ffi::OsStr;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A CLI that takes longer to tell its version is of no use.
const RUNS: Duration = Duration::from_secs(15);
const SAYS: Duration = Duration::from_secs(5);
/// What `ldd --version` says fits many times over.
const SAID_MAX: u64 = 64 << 10;
const STEP: Duration = Duration::from_millis(5);

/// Whether the program exits with status 0 when given one argument.
pub(super) fn runs(program: impl AsRef<OsStr>, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let deadline = Instant::now() + RUNS;
    loop {
        match command.spawn() {
            Ok(child) => return wait(child, deadline),
            // A program that is being started elsewhere may for a moment hold what we just wrote.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(STEP);
            }
            Err(_) => return false,
        }
    }
}

/// What the program prints, on both outputs, whatever its status.
pub(super) fn says(program: &str, argument: &str) -> Option<Vec<u8>> {
    let (reader, writer) = std::io::pipe().ok()?;
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stderr(writer.try_clone().ok()?).stdout(writer).process_group(0);
    let child = command.spawn().ok()?;
    drop(command);
    let deadline = Instant::now() + SAYS;
    let said = collect(reader);
    wait(child, deadline);
    said.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

/// Reads on a thread of its own: a grandchild may keep the pipe open for ever.
fn collect(reader: PipeReader) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = reader.take(SAID_MAX).read_to_end(&mut said);
        let _ = sender.send(said);
    });
    receiver
}

/// True when the child ends in time and with status 0. It is killed with its group otherwise.
fn wait(mut child: Child, deadline: Instant) -> bool {
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(STEP),
            Err(_) => break,
        }
    }
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    false
}
