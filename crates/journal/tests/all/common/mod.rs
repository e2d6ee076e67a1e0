//! Real pipes and real children for the tests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unreachable_pub,
    reason = "every test binary uses its own part of it"
)]

pub mod fuse;
pub mod mount;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use ostler_journal::{Appended, Cursor, FrameHead, Hosted, Journal, Kind, PumpConfig, PumpIo, Pumps, StdinError, Step};
use ostler_story::Exit;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::fcntl_setpipe_size;

/// Tells a test that it has its process for itself.
const ALONE: &str = "OSTLER_TEST_ALONE";

/// Whether this test has its process for itself, where nothing else moves its numbers or meets its faults. If it has not,
/// it is run again in a process of its own, and fails as it does there.
pub fn is_alone() -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let name = std::thread::current().name().unwrap().to_owned();
    // What it keeps until its end goes with this.
    let folder = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", &name, "--nocapture"]).env(ALONE, "yes").env("TMPDIR", folder.path());
    let ran = again.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    false
}

/// Longer than anything takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(20);

pub fn nonblocking(fd: impl Into<OwnedFd>) -> OwnedFd {
    let fd = fd.into();
    let flags = fcntl_getfl(&fd).unwrap();
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
    fd
}

/// The other side of a terminal, which does not become the one of this program.
pub fn open_terminal(name: &str) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap()
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

pub fn pumps() -> Arc<Pumps> {
    Pumps::start(quick()).unwrap()
}

/// Short times, no floor.
pub fn quick() -> PumpConfig {
    PumpConfig { exit_grace: Duration::from_millis(300), floor_bytes: 0, floor_percent: 0, ..PumpConfig::default() }
}

/// A shell command with its stdio hosted in a journal.
pub struct Proc {
    pub child: Child,
    pub hosted: Hosted,
    pub journal: Arc<Journal>,
}

impl Proc {
    pub fn start(pumps: &Arc<Pumps>, dir: &Path, script: &str) -> Self {
        Self::in_journal(pumps, Journal::create(dir).unwrap(), script)
    }

    pub fn in_journal(pumps: &Arc<Pumps>, journal: Arc<Journal>, script: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = nonblocking(child.stdin.take().unwrap());
        fcntl_setpipe_size(&stdin, 4096).unwrap();
        let io = PumpIo {
            stdin: Some(stdin),
            stdout: Some(nonblocking(child.stdout.take().unwrap())),
            stderr: Some(nonblocking(child.stderr.take().unwrap())),
            ledger: Some(journal.ledger_reader().unwrap()),
            relays: journal.relays().unwrap(),
            ..PumpIo::default()
        };
        let hosted = pumps.host(Arc::clone(&journal), io, false);
        Self { child, hosted, journal }
    }

    /// Waits for the child as the keeper would, and tells the pump.
    pub fn reap(&mut self) {
        let status = self.child.wait().unwrap();
        self.hosted.child_exited(status_of(status));
    }

    /// Reaps and waits for the exit record.
    pub fn finish(&mut self) -> Vec<Frame> {
        self.reap();
        wait_until("the exit record", || self.journal.bounds().exit.is_some());
        read_all(&self.journal)
    }

    pub fn send(&self, data: &[u8]) -> Result<Appended, StdinError> {
        self.send_at(None, data)
    }

    pub fn send_at(&self, offset: Option<i64>, data: &[u8]) -> Result<Appended, StdinError> {
        self.send_later(offset, data).recv_timeout(LONG).unwrap()
    }

    pub fn send_later(&self, offset: Option<i64>, data: &[u8]) -> Receiver<Result<Appended, StdinError>> {
        let (done, answer) = mpsc::channel();
        self.hosted.append_stdin(offset, data.to_vec(), answer_to(done));
        answer
    }

    pub fn close_stdin(&self) -> Result<Appended, StdinError> {
        let (done, answer) = mpsc::channel();
        self.hosted.close_stdin(answer_to(done));
        answer.recv_timeout(LONG).unwrap()
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn answer_to(done: Sender<Result<Appended, StdinError>>) -> Box<dyn FnOnce(Result<Appended, StdinError>) + Send> {
    Box::new(move |outcome| {
        let _ = done.send(outcome);
    })
}

pub fn status_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub head: FrameHead,
    pub bytes: Vec<u8>,
}

/// Every frame from the first on.
pub fn read_all(journal: &Arc<Journal>) -> Vec<Frame> {
    read_after(journal, 0)
}

pub fn read_after(journal: &Arc<Journal>, after: u64) -> Vec<Frame> {
    let mut cursor = Cursor::new(Arc::clone(journal), after);
    let mut frames = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let step = match cursor.try_next(&mut bytes).unwrap() {
            Step::WouldBlock => cursor.next_blocking(&mut bytes).unwrap(),
            step => step,
        };
        match step {
            Step::Frame(head) => {
                assert_eq!(head.len, bytes.len());
                frames.push(Frame { head, bytes });
            }
            Step::UpToDate => return frames,
            other => panic!("{other:?}"),
        }
    }
}

pub fn bytes_of(frames: &[Frame], kind: Kind) -> Vec<u8> {
    let of_kind = frames.iter().filter(|frame| frame.head.kind == kind);
    of_kind.map(|frame| frame.bytes.as_slice()).collect::<Vec<_>>().concat()
}

pub fn text_of(frames: &[Frame], kind: Kind) -> String {
    String::from_utf8(bytes_of(frames, kind)).unwrap()
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
