//! The daemon is killed in every window between two steps, and a new one goes on: nothing lost, nothing twice, no frame
//! that somebody saw changed.
//!
//! The test is the keeper: it owns the child and the descriptors and hands them to each daemon over a socket. The
//! daemon is this same program started again as `mini_daemon`.

use std::fs::OpenOptions;
use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::fuse::Fuse;
use crate::common::*;
use ostler_journal::{Cursor, Journal, Kind, PumpIo, PumpPty, Step};
use ostler_story::Exit;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// How often a daemon is killed at random; more in a long run: `OSTLER_KILLS=1000 cargo test --release --test crash`.
fn kills() -> usize {
    std::env::var("OSTLER_KILLS").map_or(25, |kills| kills.parse().unwrap())
}

/// What the child is sent, and so what it must echo, and as much again on stderr.
fn size() -> usize {
    kills() * 6000
}

fn input() -> Vec<u8> {
    (0..size() as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// The daemon's side. Run as a test by itself it has no keeper to serve, and ends.
#[test]
fn mini_daemon() {
    let Some(base) = std::env::var_os("OSTLER_CRASH") else { return };
    let base = PathBuf::from(base);
    // A panic in any thread is something a client would see.
    let panics = base.join("panic");
    std::panic::set_hook(Box::new(move |panic| {
        let _ = std::fs::write(&panics, panic.to_string());
    }));
    let mut fds = receive(&UnixStream::connect(base.join("keeper.sock")).unwrap());
    let dir = base.join("j");
    let journal = Journal::open(&dir).unwrap();
    let relays = fds.split_off(4);
    let ledger = fds.pop().unwrap();
    let io = if base.join("terminal").exists() {
        let pty =
            PumpPty { relay_write: fds.pop().unwrap(), relay_read: fds.pop().unwrap(), master: fds.pop().unwrap() };
        PumpIo { pty: Some(pty), ledger: Some(ledger), ..PumpIo::default() }
    } else {
        PumpIo {
            stdin: fds.pop(),
            stderr: fds.pop(),
            stdout: fds.pop(),
            ledger: Some(ledger),
            relays,
            ..PumpIo::default()
        }
    };
    let pumps = pumps();
    let hosted = pumps.host(Arc::clone(&journal), io, true);

    // A client that shows what it sees, once it has seen it.
    let seen_by = Arc::clone(&journal);
    let seen = base.join("seen");
    std::thread::spawn(move || show(&seen_by, &seen));

    // Another that sends what was not accepted yet, and a little that was.
    if !base.join("terminal").exists() {
        let input = input();
        // So that there is something to do for every daemon of a long row.
        let slow = base.join("slow").exists();
        let (done, answers) = mpsc::channel();
        loop {
            let applied = journal.bounds().applied as usize;
            let from = applied.saturating_sub(1000);
            if applied == size() {
                break;
            }
            let to = size().min(applied + if slow { 1500 } else { 20_000 });
            hosted.append_stdin(Some(from as i64), input[from..to].to_vec(), answer_to(done.clone()));
            let _ = answers.recv().unwrap();
            if slow {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        hosted.close_stdin(answer_to(done));
    }
    loop {
        if let Ok(code) = std::fs::read_to_string(base.join("exit")) {
            hosted.child_exited(Exit::Code(code.parse().unwrap()));
        }
        if journal.bounds().exit.is_some() {
            std::fs::write(base.join("done"), "").unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn show(journal: &Arc<Journal>, path: &Path) {
    let mut seen = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let mut cursor = Cursor::new(Arc::clone(journal), 0);
    loop {
        let mut bytes = Vec::new();
        match cursor.next_blocking(&mut bytes).unwrap() {
            Step::Frame(head) => seen.write_all(line(head.seq, head.kind, &bytes).as_bytes()).unwrap(),
            Step::UpToDate => std::thread::sleep(Duration::from_micros(200)),
            other => panic!("{other:?}"),
        }
    }
}

/// A frame in one line, for comparison; written with one write.
fn line(seq: u64, kind: Kind, bytes: &[u8]) -> String {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    format!("{seq} {kind:?} {} {sum:016x}\n", bytes.len())
}

fn receive(socket: &UnixStream) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    fds
}

/// The keeper's side: a child, its descriptors, and one daemon at a time.
struct Keeper {
    /// Where the journal is, if not on a disk.
    fuse: Option<Fuse>,
    base: tempfile::TempDir,
    listener: UnixListener,
    fds: Vec<OwnedFd>,
    child: Child,
    reaped: bool,
    daemon: Option<Child>,
}

impl Keeper {
    fn new() -> Self {
        let (child, fds) = Self::echo();
        Self::with(child, fds, tempfile::tempdir().unwrap(), None)
    }

    /// With its journal on a file system that can stall, and relays; `None` where there is none.
    #[cfg(not(feature = "lossy-pump"))]
    fn on_fuse() -> Option<Self> {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("fuse");
        std::fs::create_dir(&place).unwrap();
        let fuse = Fuse::mount(&place)?;
        std::fs::create_dir(place.join("j")).unwrap();
        std::os::unix::fs::symlink("fuse/j", base.path().join("j")).unwrap();
        let (child, fds) = Self::echo();
        Some(Self::with(child, fds, base, Some(fuse)))
    }

    fn echo() -> (Child, Vec<OwnedFd>) {
        let script = format!("head -c {} /dev/zero | tr '\\0' e >&2; cat; exit 7", size());
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = nonblocking(child.stdin.take().unwrap());
        rustix::pipe::fcntl_setpipe_size(&stdin, 4096).unwrap();
        let fds = vec![nonblocking(child.stdout.take().unwrap()), nonblocking(child.stderr.take().unwrap()), stdin];
        (child, fds)
    }

    #[cfg(not(feature = "lossy-pump"))]
    fn on_terminal(script: &str) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || open_terminal(&name);
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", "sh", "-c", script])
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        let (read, write) = pipe();
        let fds = vec![nonblocking(master), nonblocking(read), nonblocking(write)];
        let keeper = Self::with(child, fds, tempfile::tempdir().unwrap(), None);
        std::fs::write(keeper.path("terminal"), "").unwrap();
        keeper
    }

    fn with(child: Child, mut fds: Vec<OwnedFd>, base: tempfile::TempDir, fuse: Option<Fuse>) -> Self {
        let listener = UnixListener::bind(base.path().join("keeper.sock")).unwrap();
        std::fs::create_dir(base.path().join("hooks")).unwrap();
        let journal = Journal::create(&base.path().join("j")).unwrap();
        fds.push(journal.ledger_reader().unwrap());
        fds.extend(journal.relays().unwrap());
        Self { fuse, base, listener, fds, child, reaped: false, daemon: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn hook(&self, name: &str) {
        let path = self.path("hooks").join(name);
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    fn unhook(&self, name: &str) {
        std::fs::remove_file(self.path("hooks").join(name)).unwrap();
    }

    fn start_daemon(&mut self) {
        let daemon = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::mini_daemon", "--nocapture", "--test-threads=1"])
            .env("OSTLER_CRASH", self.base.path())
            .env("OSTLER_HOOKS", self.path("hooks"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (socket, _) = self.listener.accept().unwrap();
        let borrowed: Vec<BorrowedFd<'_>> = self.fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
        sendmsg(&socket, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        self.daemon = Some(daemon);
    }

    fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    /// Reaps the child when it has ended; closes our stdin end when the daemon recorded that (a real keeper is told).
    fn mind(&mut self) {
        if !self.path("terminal").exists() && self.is_stdin_delivered() {
            let null = std::fs::File::open("/dev/null").unwrap();
            self.fds[2] = null.into();
        }
        if !self.reaped
            && let Some(status) = self.child.try_wait().unwrap()
        {
            self.reaped = true;
            let Exit::Code(code) = status_of(status) else { panic!("{status}") };
            std::fs::write(self.path("exit.new"), code.to_string()).unwrap();
            std::fs::rename(self.path("exit.new"), self.path("exit")).unwrap();
        }
    }

    fn is_stdin_delivered(&self) -> bool {
        let position = rustix::fs::seek(&self.fds[3], rustix::fs::SeekFrom::Current(0)).unwrap();
        let ctl = std::fs::metadata(self.path("j/ctl")).unwrap().len();
        position == size() as u64 && ctl > 32
    }

    #[cfg(not(feature = "lossy-pump"))]
    fn journaled(&self) -> u64 {
        let len = |name: &str| std::fs::metadata(self.path(name)).unwrap().len();
        len("j/out") + len("j/err")
    }

    fn wait_for(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < LONG, "waited too long for {what}");
            self.mind();
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn hits(&self, name: &str) -> usize {
        let hits = std::fs::read_to_string(self.path("hooks").join(format!("{name}.hit")));
        hits.map_or(0, |hits| hits.lines().count())
    }

    /// Lets the daemon run into the `n`th passing of a hook and kills it there.
    fn kill_at(&mut self, hook: &str, n: usize) {
        self.hook(hook);
        let before = self.hits(hook);
        self.start_daemon();
        for passing in 1..=n {
            self.wait_for(hook, |keeper| keeper.hits(hook) >= before + passing);
            if passing < n {
                std::fs::write(self.path("hooks").join(hook), "x").unwrap();
            }
        }
        // Long enough for its client to look.
        std::thread::sleep(Duration::from_millis(5));
        self.kill_daemon();
        self.unhook(hook);
    }

    /// Everything in the end, read by one more opener.
    fn run_to_the_end(&mut self) -> (Vec<Frame>, Arc<Journal>) {
        self.start_daemon();
        self.wait_for("the end", |keeper| keeper.path("done").exists());
        self.kill_daemon();
        let journal = Journal::open(&self.path("j")).unwrap();
        (read_all(&journal), journal)
    }

    /// What clients were shown before, all of it, is what is there now.
    fn check_seen(&self, frames: &[Frame]) -> Result<(), String> {
        let seen = std::fs::read_to_string(self.path("seen")).unwrap_or_default();
        if let Ok(panic) = std::fs::read_to_string(self.path("panic")) {
            return Err(format!("a daemon panicked: {panic}"));
        }
        // A line cut by the kill was not shown.
        for shown in seen.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let seq: usize = shown.split(' ').next().unwrap().parse().unwrap();
            let Some(frame) = frames.get(seq - 1) else { return Err(format!("{shown} is gone")) };
            let now = line(frame.head.seq, frame.head.kind, &frame.bytes);
            if now != shown {
                return Err(format!("was shown {shown:?}, is now {now:?}"));
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let (frames, journal) = self.run_to_the_end();
        self.check_seen(&frames)?;
        let exits = frames.iter().filter(|frame| frame.head.kind == Kind::Exit).count();
        if exits != 1 || journal.bounds().exit.is_none_or(|exit| exit.how != Exit::Code(7)) {
            return Err(format!("{exits} exits, {:?}", journal.bounds().exit));
        }
        if bytes_of(&frames, Kind::Stderr) != vec![b'e'; size()] {
            return Err("stderr differs".into());
        }
        if bytes_of(&frames, Kind::Stdout) != input() {
            return Err("stdin or stdout differs".into());
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kill_daemon();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Windows in which a daemon with splice must not lose, repeat or change anything.
const WINDOWS: [&str; 9] = [
    "journal.spliced",
    "journal.indexed",
    "journal.visible",
    "stdin.appended",
    "stdin.delivered",
    "stdin.close_recorded",
    "stdin.closed",
    "exit.due",
    "exit.recorded",
];

#[test]
fn a_kill_in_any_window_costs_nothing() {
    for window in WINDOWS {
        for nth in [1, 3] {
            if nth > 1 && (window.starts_with("exit") || window.starts_with("stdin.close")) {
                continue;
            }
            let mut keeper = Keeper::new();
            keeper.kill_at(window, nth);
            keeper.check().unwrap_or_else(|error| panic!("{window}, passing {nth}: {error}"));
        }
    }
}

#[test]
fn a_kill_during_recovery_costs_nothing() {
    let mut keeper = Keeper::new();
    keeper.kill_at("journal.spliced", 2);
    keeper.kill_at("recovery.indexed", 1);
    keeper.kill_at("journal.spliced", 3);
    // A torn record, as a kill in the middle of a larger write would leave it.
    let idx = OpenOptions::new().write(true).open(keeper.path("j/idx")).unwrap();
    let len = idx.metadata().unwrap().len();
    idx.set_len(len + 17).unwrap();
    keeper.kill_at("recovery.cut", 1);
    keeper.check().unwrap();
}

#[cfg(not(feature = "lossy-pump"))]
#[test]
fn kills_at_random_moments_cost_nothing() {
    let mut keeper = Keeper::new();
    let mut random = 0x1234_5678_u64;
    std::fs::write(keeper.path("slow"), "").unwrap();
    for _ in 0..kills() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        keeper.start_daemon();
        let stop = Instant::now() + Duration::from_micros((random >> 33) % 25_000);
        while Instant::now() < stop {
            keeper.mind();
            std::thread::sleep(Duration::from_micros(200));
        }
        keeper.kill_daemon();
    }
    keeper.check().unwrap();
}

#[cfg(not(feature = "lossy-pump"))]
#[test]
fn a_terminal_loses_nothing_between_master_relay_and_file() {
    for window in ["pump.relayed", "journal.spliced", "journal.indexed"] {
        let mut keeper = Keeper::on_terminal("stty raw; seq 1 20000; exit 7");
        keeper.kill_at(window, 2);
        keeper.kill_at(window, 3);
        let (frames, _) = keeper.run_to_the_end();
        let wanted: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
        assert!(text_of(&frames, Kind::Stdout) == wanted, "{window}");
        keeper.check_seen(&frames).unwrap();
    }
}

#[cfg(not(feature = "lossy-pump"))]
#[test]
fn a_pipe_loses_nothing_between_child_relay_and_a_disk_that_stalls() {
    for window in ["pump.relayed", "journal.spliced", "journal.indexed"] {
        let Some(mut keeper) = Keeper::on_fuse() else { return };
        assert_eq!(keeper.fds.len(), 8, "a journal on FUSE has relays");
        keeper.kill_at(window, 2);
        keeper.start_daemon();
        let before = keeper.journaled();
        keeper.wait_for("progress", |keeper| keeper.journaled() > before);
        // Killed while it waits for the disk; the next one does not even get to open the journal.
        let stall = keeper.fuse.as_ref().unwrap().stall();
        std::thread::sleep(Duration::from_millis(50));
        keeper.kill_daemon();
        keeper.start_daemon();
        std::thread::sleep(Duration::from_millis(50));
        keeper.kill_daemon();
        drop(stall);
        keeper.check().unwrap_or_else(|error| panic!("{window}: {error}"));
    }
}

/// The negative control: a pump that reads and writes loses what it held, and this battery notices.
#[cfg(feature = "lossy-pump")]
#[test]
fn the_lossy_pump_is_caught() {
    let mut keeper = Keeper::new();
    keeper.kill_at("journal.lossy", 2);
    let error = keeper.check().expect_err("bytes were in the dead daemon's memory");
    assert!(error.contains("differs"), "{error}");
}
