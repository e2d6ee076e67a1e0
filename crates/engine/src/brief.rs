//! Short helpers: a program that runs for a moment, to see whether it works or what it says. In a group of its own, which is
//! killed at the deadline. These block: not for the threads that doors live on.

use std::ffi::OsStr;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// What is asked of helpers fits many times over.
const SAID_MAX: u64 = 64 << 10;
const STEP: Duration = Duration::from_millis(5);

/// Whether the program exits with status 0, in time, when given one argument.
pub fn runs(program: impl AsRef<OsStr>, argument: &str, within: Duration) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let deadline = Instant::now() + within;
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

/// What the program prints in time, on both outputs, whatever its status.
pub fn says(program: &str, args: &[&str], within: Duration) -> Option<Vec<u8>> {
    let (reader, writer) = std::io::pipe().ok()?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(writer.try_clone().ok()?).stdout(writer).process_group(0);
    let child = command.spawn().ok()?;
    drop(command);
    let deadline = Instant::now() + within;
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_helper_that_hangs_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let (file, started) = (dir.path().join("pid"), Instant::now());
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        says("/bin/sh", &["-c", &script], Duration::from_millis(500));
        assert!(started.elapsed() < Duration::from_secs(20));
        let sleeper = Path::new("/proc").join(std::fs::read_to_string(&file).unwrap().trim()).join("exe");
        while sleeper.exists() {
            assert!(started.elapsed() < Duration::from_secs(20), "it lives on");
            thread::sleep(STEP);
        }
    }

    #[test]
    fn what_a_helper_says_in_time_is_heard() {
        let within = Duration::from_secs(30);
        assert_eq!(says("/bin/sh", &["-c", "echo out; echo err >&2; exit 3"], within).unwrap(), b"out\nerr\n");
        assert!(runs("/bin/true", "", within) && !runs("/bin/false", "", within) && !runs("/no/such", "", within));
    }
}
