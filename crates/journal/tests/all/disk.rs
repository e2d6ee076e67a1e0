//! A disk that says no: held back, never lost, never twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use ostler_journal::{Cursor, HeldReason, Journal, Kind, Missing, PumpConfig, Pumps, Step};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Faults are for the whole program, so each test here has one for itself.
struct Faults(tempfile::TempDir);

impl Faults {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        ostler_hooks::use_directory(dir.path());
        Self(dir)
    }

    fn set(&self, name: &str, errno: i32) {
        let path = self.0.path().join(format!("{name}.fault"));
        std::fs::write(path.with_extension("new"), errno.to_string()).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    }

    fn clear(&self, name: &str) {
        std::fs::remove_file(self.0.path().join(format!("{name}.fault"))).unwrap();
    }
}

#[test]
fn output_waits_in_the_pipe_while_the_disk_refuses_it() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    for (errno, reason) in [(ENOSPC, HeldReason::Full), (EDQUOT, HeldReason::Quota), (EIO, HeldReason::Disk)] {
        faults.set("journal.splice", errno);
        let mut proc = Proc::start(&pumps, &dir.path().join(errno.to_string()), "seq 1 30000; exit 3");
        wait_until("the hold", || proc.journal.bounds().held_back.is_some());
        let held = proc.journal.bounds().held_back.unwrap();
        assert_eq!((held.reason, held.errno), (reason, errno));
        std::thread::sleep(Duration::from_millis(450));
        let again = proc.journal.bounds().held_back.unwrap();
        assert_eq!(again, held, "still the same trouble, since the same time");
        assert_eq!(proc.journal.bounds().last_seq, 0);
        faults.clear("journal.splice");
        let wanted: String = (1..=30_000).map(|n| format!("{n}\n")).collect();
        assert!(text_of(&proc.finish(), Kind::Stdout) == wanted);
        assert_eq!(proc.journal.bounds().held_back, None);
    }
}

#[test]
fn a_record_that_could_not_be_written_is_written_later_and_nothing_is_taken_meanwhile() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    faults.set("journal.index", ENOSPC);
    let path = dir.path().join("j");
    let go = dir.path().join("go");
    let script = format!("printf first; while [ ! -e {} ]; do sleep 0.02; done; printf second; exit 0", go.display());
    let mut proc = Proc::start(&pumps, &path, &script);
    wait_until("the hold", || proc.journal.bounds().held_back.is_some());
    std::fs::write(&go, "").unwrap();
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(std::fs::read(path.join("out")).unwrap(), b"first");
    assert_eq!(proc.journal.bounds().last_seq, 0);
    faults.clear("journal.index");
    let frames = proc.finish();
    assert_eq!(text_of(&frames, Kind::Stdout), "firstsecond");
    assert_eq!(frames[0].bytes, b"first");
}

#[test]
fn the_exit_waits_for_the_disk_too() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    faults.set("journal.index", ENOSPC);
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "exit 4");
    proc.reap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(proc.journal.bounds().exit, None);
    faults.clear("journal.index");
    wait_until("the exit", || proc.journal.bounds().exit.is_some());
}

#[test]
fn a_daemon_that_starts_on_a_full_disk_shows_the_rest_later() {
    if !is_alone() {
        return;
    }
    let (faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let path = dir.path().join("j");
    drop(Journal::create(&path).unwrap());
    std::fs::write(path.join("out"), vec![b'x'; 100_000]).unwrap();
    faults.set("journal.index", ENOSPC);
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.bounds().last_seq, 0);
    let pumps = pumps();
    let mut proc = Proc::in_journal(&pumps, journal, "echo more");
    wait_until("the hold", || proc.journal.bounds().held_back.is_some());
    faults.clear("journal.index");
    let frames = proc.finish();
    assert_eq!(bytes_of(&frames, Kind::Stdout).len(), 100_005);
}

#[test]
fn input_waits_for_the_disk_and_counts_once() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "cat");
    faults.set("stdin.append", ENOSPC);
    let first = proc.send_later(None, b"one ");
    let second = proc.send_later(Some(4), b"two");
    wait_until("the hold", || proc.journal.bounds().held_back.is_some());
    assert!(first.try_recv().is_err());
    faults.clear("stdin.append");
    assert_eq!(first.recv_timeout(LONG).unwrap().unwrap().applied, 4);
    assert_eq!(second.recv_timeout(LONG).unwrap().unwrap().applied, 7);
    proc.close_stdin().unwrap();
    assert_eq!(text_of(&proc.finish(), Kind::Stdout), "one two");
    assert_eq!(proc.journal.bounds().held_back, None);
}

#[test]
fn input_that_can_not_be_read_back_waits_and_is_delivered_later() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "cat");
    faults.set("stdin.splice", EIO);
    assert_eq!(proc.send(b"one ").unwrap().applied, 4);
    wait_until("the hold", || proc.journal.bounds().held_back.is_some());
    assert_eq!(proc.journal.bounds().held_back.unwrap().reason, HeldReason::Disk);
    faults.clear("stdin.splice");
    assert_eq!(proc.send(b"two").unwrap().applied, 7);
    proc.close_stdin().unwrap();
    assert_eq!(text_of(&proc.finish(), Kind::Stdout), "one two");
    assert_eq!(proc.journal.bounds().held_back, None);
}

#[test]
fn a_failed_sync_marks_the_journal_from_there_on_for_good() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    let path = dir.path().join("j");
    let mut proc = Proc::start(&pumps, &path, "echo one; read go; echo two; read go");
    wait_until("the first line", || proc.journal.bounds().last_seq == 1);
    pumps.sync_now();
    assert_eq!(proc.journal.bounds().damaged_from, None);
    faults.set("sync.data", EIO);
    let woken = Arc::new(Mutex::new(false));
    let wake = Arc::clone(&woken);
    let subscription = proc.journal.subscribe(Arc::new(move || *wake.lock().unwrap() = true));
    proc.send(b"go\n").unwrap();
    wait_until("the second line", || proc.journal.bounds().last_seq == 2);
    *woken.lock().unwrap() = false;
    subscription.arm();
    pumps.sync_now();
    wait_until("the mark", || proc.journal.bounds().damaged_from.is_some());
    assert_eq!(proc.journal.bounds().damaged_from, Some(2));
    wait_until("the wake", || *woken.lock().unwrap());
    faults.clear("sync.data");
    proc.send(b"go\n").unwrap();
    proc.finish();
    pumps.sync_now();
    assert_eq!(proc.journal.bounds().damaged_from, Some(2), "a later success proves nothing");
    assert_eq!(Journal::open(&path).unwrap().bounds().damaged_from, Some(2));
}

#[test]
fn a_frame_that_is_cut_while_it_is_read_is_a_gap_not_zeros() {
    if !is_alone() {
        return;
    }
    let (faults, dir, pumps) = (Faults::new(), tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "head -c 100000 /dev/zero | tr '\\0' x");
    let last = proc.finish().last().unwrap().head.seq;
    let fifo = faults.0.path().join("cursor.read");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut cursor = Cursor::new(Arc::clone(&proc.journal), 0);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        (cursor.next_blocking(&mut bytes).unwrap(), bytes, cursor.position())
    });
    wait_until("the read", || faults.0.path().join("cursor.read.hit").exists());
    proc.journal.cut_before(last).unwrap();
    std::fs::write(&fifo, "x").unwrap();
    let (step, bytes, position) = reader.join().unwrap();
    assert_eq!(step, Step::Gap { first_seq: last, missing: Missing::LetGo });
    assert_eq!((bytes.len(), position), (0, last - 1));
}

#[test]
fn the_age_of_unsynced_bytes_is_known() {
    if !is_alone() {
        return;
    }
    let (_faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let config = PumpConfig { sync_every: Duration::from_secs(600), ..quick() };
    let pumps = Pumps::start(config).unwrap();
    assert_eq!(pumps.oldest_unsynced(), Duration::ZERO);
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "echo x");
    proc.finish();
    std::thread::sleep(Duration::from_millis(60));
    assert!(pumps.oldest_unsynced() >= Duration::from_millis(50));
    pumps.sync_now();
    assert_eq!(pumps.oldest_unsynced(), Duration::ZERO);
}
