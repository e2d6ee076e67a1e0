//! Processes that have said and heard nothing yet, and what is served beside them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use ostler_journal::{Guest, Journal, JournalOptions, PumpIo, Roll};
use ostler_story::Exit;

#[test]
fn a_process_that_was_quiet_is_journaled_from_its_first_byte_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (roll, _) = Roll::open(&dir.path().join("roll")).unwrap();
    let pumps = pumps();
    for (number, words) in [&b""[..], b"last words\n"].into_iter().enumerate() {
        let home = dir.path().join(format!("p{number}"));
        let journal = Journal::later(&home, JournalOptions::default(), &roll, None);
        let ((stdout, out), (stderr, err)) = (pipe(), pipe());
        let io = PumpIo { stdout: Some(nonblocking(stdout)), stderr: Some(nonblocking(stderr)), ..PumpIo::default() };
        let hosted = pumps.host(Arc::clone(&journal), io, false);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!home.exists(), "it has said nothing");
        rustix::io::write(&out, words).unwrap();
        drop((out, err));
        hosted.child_exited(Exit::Code(3));
        wait_until("the exit", || journal.bounds().exit.is_some());
        let bounds = journal.bounds();
        assert_eq!((bounds.last_seq, bounds.out_end, home.exists()), [(1, 0, false), (2, 11, true)][number]);
        assert_eq!(bounds.exit.unwrap().how, Exit::Code(3));
    }
}

struct Bell {
    fd: Arc<OwnedFd>,
    turns: Arc<AtomicUsize>,
    due: Option<Instant>,
}

impl Guest for Bell {
    fn fd(&self) -> BorrowedFd<'_> {
        (*self.fd).as_fd()
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn turn(&mut self) -> bool {
        let _ = rustix::io::read(&*self.fd, &mut [0; 8]);
        // The third is asked for by its time, and is the last.
        let turn = self.turns.fetch_add(1, Ordering::SeqCst) + 1;
        self.due = (turn == 2).then(|| Instant::now() + Duration::from_millis(5));
        turn < 3
    }
}

#[test]
fn a_guest_has_a_turn_when_it_comes_when_it_rings_and_when_it_is_due() {
    use rustix::event::{EventfdFlags, eventfd};
    let pumps = pumps();
    let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap());
    let turns = Arc::new(AtomicUsize::new(0));
    pumps.attend(Box::new(Bell { fd: Arc::clone(&fd), turns: Arc::clone(&turns), due: None }));
    wait_until("the first", || turns.load(Ordering::SeqCst) == 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(turns.load(Ordering::SeqCst), 1);
    rustix::io::write(&*fd, &1_u64.to_ne_bytes()).unwrap();
    wait_until("the last", || turns.load(Ordering::SeqCst) == 3);
    rustix::io::write(&*fd, &1_u64.to_ne_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(turns.load(Ordering::SeqCst), 3, "it has left");
}

/// CPU time of the thread that serves the quiet ones, in ticks of the kernel.
fn ticks_of_the_quiet_thread() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stat = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let quiet =
        stat.filter_map(|stat| stat.split_once("(pump-quiet) ").map(|(_, rest)| rest.to_owned())).next().unwrap();
    quiet.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_process_that_closed_its_pipes_and_lives_on_keeps_nobody_awake() {
    if !is_alone() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (roll, _) = Roll::open(&dir.path().join("roll")).unwrap();
    let pumps = pumps();
    let journal = Journal::later(&dir.path().join("p0"), JournalOptions::default(), &roll, None);
    let ((stdout, out), (stderr, err)) = (pipe(), pipe());
    let io = PumpIo { stdout: Some(nonblocking(stdout)), stderr: Some(nonblocking(stderr)), ..PumpIo::default() };
    let hosted = pumps.host(Arc::clone(&journal), io, false);
    drop((out, err));
    std::thread::sleep(Duration::from_millis(500));
    let ticks = ticks_of_the_quiet_thread();
    assert!(ticks < 10, "{ticks} of 50 ticks");
    hosted.child_exited(Exit::Code(3));
    wait_until("the exit", || journal.bounds().exit.is_some());
}
