//! What children are sent: the offset contract, the cap, closing, and children that do not listen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::common::*;
use ostler_journal::{Appended, Journal, JournalOptions, Kind, PumpConfig, PumpIo, Pumps, StdinError};
use ostler_story::Exit;
use rustix::pipe::{SpliceFlags, splice};

fn accepted(applied: u64) -> Appended {
    Appended { applied, duplicate: false }
}

fn duplicate(applied: u64) -> Appended {
    Appended { applied, duplicate: true }
}

#[test]
fn the_offset_makes_a_resend_harmless() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "cat");
    let gap = |outcome| matches!(outcome, Err(StdinError::Gap { applied }) if applied == 10);
    assert_eq!(proc.send(b"").unwrap(), accepted(0));
    assert_eq!(proc.send_at(Some(0), b"").unwrap(), accepted(0));
    assert!(matches!(proc.send_at(Some(1), b"x"), Err(StdinError::Gap { applied: 0 })));
    assert_eq!(proc.send(b"hello").unwrap(), accepted(5));
    assert_eq!(proc.send_at(Some(5), b"world").unwrap(), accepted(10));
    assert_eq!(proc.send_at(Some(0), b"hello").unwrap(), duplicate(10));
    assert_eq!(proc.send_at(Some(5), b"world").unwrap(), duplicate(10));
    assert_eq!(proc.send_at(Some(4), b"").unwrap(), duplicate(10));
    assert_eq!(proc.send_at(Some(-1), b"A").unwrap(), duplicate(10));
    assert_eq!(proc.send_at(Some(10), b"").unwrap(), accepted(10));
    assert!(gap(proc.send_at(Some(11), b"q")));
    assert!(gap(proc.send_at(Some(11), b"")));
    assert!(gap(proc.send_at(Some(i64::MAX), b"q")));
    assert_eq!(proc.send_at(Some(7), b"rldNEW").unwrap(), accepted(13));
    assert_eq!(proc.send_at(Some(0), b"helloworldNEW!!").unwrap(), accepted(15));
    assert_eq!(proc.journal.bounds().applied, 15);
    proc.close_stdin().unwrap();
    assert_eq!(text_of(&proc.finish(), Kind::Stdout), "helloworldNEW!!");
    assert_eq!(proc.journal.bounds().applied, 15);
}

#[test]
fn megabytes_arrive_in_order() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "sleep 0.2; cat");
    let chunks: Vec<Vec<u8>> =
        (0..40_u8).map(|n| (0..100_000_u32).map(|i| (i as u8).wrapping_mul(n)).collect()).collect();
    let answers: Vec<_> = chunks.iter().map(|chunk| proc.send_later(None, chunk)).collect();
    for (n, answer) in (1..).zip(answers) {
        assert_eq!(answer.recv_timeout(LONG).unwrap().unwrap(), accepted(n * 100_000));
    }
    proc.close_stdin().unwrap();
    assert_eq!(bytes_of(&proc.finish(), Kind::Stdout), chunks.concat());
}

#[test]
fn a_full_spool_makes_the_writer_wait_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let config = PumpConfig { spool_cap: 100_000, ..quick() };
    let pumps = Pumps::start(config).unwrap();
    let script = "while [ ! -e \"$GO\" ]; do sleep 0.02; done; exec cat";
    let go = dir.path().join("go");
    let script = script.replace("$GO", go.to_str().unwrap());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), &script);
    proc.send(&[b'a'; 110_000]).unwrap();
    let first = proc.send_later(None, &[b'b'; 50_000]);
    let second = proc.send_later(None, b"c");
    std::thread::sleep(Duration::from_millis(100));
    assert!(first.try_recv().is_err() && second.try_recv().is_err(), "nobody read yet");
    assert_eq!(proc.journal.bounds().applied, 110_000);
    std::fs::write(&go, "").unwrap();
    assert_eq!(first.recv_timeout(LONG).unwrap().unwrap(), accepted(160_000));
    assert_eq!(second.recv_timeout(LONG).unwrap().unwrap(), accepted(160_001));
    proc.close_stdin().unwrap();
    let frames = proc.finish();
    let wanted = [vec![b'a'; 110_000], vec![b'b'; 50_000], b"c".to_vec()].concat();
    assert_eq!(bytes_of(&frames, Kind::Stdout), wanted);
}

#[test]
fn whoever_waits_when_the_child_exits_is_told_that_it_was_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let config = PumpConfig { spool_cap: 10_000, ..quick() };
    let pumps = Pumps::start(config).unwrap();
    // Somebody else keeps stdin open and never reads it, so it is the exit that must answer.
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "exec 3<&0; sleep 3 <&3 >/dev/null 2>&1 & sleep 0.3");
    proc.send(&[b'a'; 20_000]).unwrap();
    let waiting = proc.send_later(None, &[b'b'; 5_000]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(waiting.try_recv().is_err());
    proc.finish();
    assert_eq!(waiting.recv_timeout(LONG).unwrap().unwrap(), accepted(25_000));
    assert_eq!(proc.journal.bounds().applied, 25_000);
    assert!(matches!(proc.send(b"x"), Err(StdinError::NotRunning)));
    assert!(matches!(proc.send_at(Some(999_999), b"x"), Err(StdinError::NotRunning)));
}

#[test]
fn too_many_waiting_writers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = PumpConfig { spool_cap: 1000, spool_waiters: 3, ..quick() };
    let pumps = Pumps::start(config).unwrap();
    let proc = Proc::start(&pumps, &dir.path().join("j"), "exec sleep 60");
    proc.send(&[b'a'; 100_000]).unwrap();
    let waiting: Vec<_> = (0..3).map(|_| proc.send_later(None, b"x")).collect();
    assert!(matches!(proc.send(b"x"), Err(StdinError::Busy)));
    assert!(waiting.iter().all(|answer| answer.try_recv().is_err()));
}

#[test]
fn a_child_that_closed_its_stdin_is_no_error() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "exec 0<&-; echo closed; sleep 0.3");
    wait_until("the close", || proc.journal.bounds().last_seq == 1);
    assert_eq!(proc.send(&[b'x'; 10_000]).unwrap(), accepted(10_000));
    assert_eq!(proc.send(b"more").unwrap(), accepted(10_004));
    assert_eq!(text_of(&proc.finish(), Kind::Stdout), "closed\n");
}

#[test]
fn closing_waits_for_what_was_accepted_and_refuses_what_comes_after() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "sleep 0.2; wc -c");
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    proc.hosted.on_close_stdin(Box::new(move || tell.store(true, Ordering::SeqCst)));
    proc.send(&[b'x'; 300_000]).unwrap();
    assert_eq!(proc.close_stdin().unwrap(), accepted(300_000));
    assert!(!told.load(Ordering::SeqCst), "the child has not read it yet");
    assert!(matches!(proc.send(b"x"), Err(StdinError::Closed)));
    assert_eq!(proc.close_stdin().unwrap(), accepted(300_000), "closing twice is closing");
    assert_eq!(text_of(&proc.finish(), Kind::Stdout).trim(), "300000");
    assert!(told.load(Ordering::SeqCst));
    assert_eq!(proc.journal.stdin_closed_at(), Some(300_000));
}

#[test]
fn a_process_without_stdin_says_so() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let hosted = pumps.host(journal, PumpIo::default(), false);
    let (done, answer) = mpsc::channel();
    hosted.append_stdin(None, b"x".to_vec(), answer_to(done));
    assert!(matches!(answer.recv_timeout(LONG).unwrap(), Err(StdinError::Closed)));
    hosted.child_exited(Exit::Code(0));
}

#[test]
fn delivered_input_is_punched_out_unless_it_is_kept() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    for keep_stdin in [false, true] {
        let path = dir.path().join(keep_stdin.to_string());
        let options = JournalOptions { keep_stdin, ..JournalOptions::default() };
        let journal = Journal::create_with(&path, options).unwrap();
        let mut proc = Proc::in_journal(&pumps, journal, "exec cat");
        proc.send(&[b's'; 1_000_000]).unwrap();
        wait_until("the echo", || proc.journal.bounds().out_end == 1_000_000);
        if !keep_stdin {
            wait_until("the punch", || {
                std::fs::read(path.join("in")).unwrap()[..900_000].iter().all(|byte| *byte == 0)
            });
        }
        proc.close_stdin().unwrap();
        let frames = proc.finish();
        assert_eq!(bytes_of(&frames, Kind::Stdout), vec![b's'; 1_000_000]);
        pumps.sync_now();
        let left = std::fs::read(path.join("in")).unwrap();
        let kept = left.iter().filter(|byte| **byte == b's').count();
        assert_eq!((left.len(), kept), (1_000_000, if keep_stdin { 1_000_000 } else { 0 }));
    }
}

#[test]
fn punching_never_reaches_what_a_child_passed_on_without_reading() {
    // A child that moves its input on by splice: the pages in the far pipe are still those of the ledger.
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let (read, write) = pipe();
    let (far_read, far_write) = pipe();
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let io =
        PumpIo { stdin: Some(nonblocking(write)), ledger: Some(journal.ledger_reader().unwrap()), ..PumpIo::default() };
    let hosted = pumps.host(Arc::clone(&journal), io, false);
    let truth: Vec<u8> = (0..300_000_u32).map(|n| (n % 251 + 1) as u8).collect();
    let (done, answer) = mpsc::channel();
    hosted.append_stdin(None, truth.clone(), answer_to(done));
    answer.recv_timeout(LONG).unwrap().unwrap();
    rustix::pipe::fcntl_setpipe_size(&far_write, 1 << 20).unwrap();
    let mut passed = 0;
    while passed < truth.len() {
        passed += splice(&read, None, &far_write, None, 50_000, SpliceFlags::empty()).unwrap();
        // Punched in the middle of everything, where neighbouring pages are still in use.
        pumps.sync_now();
    }
    let ledger = dir.path().join("j/in");
    wait_until("the punch", || std::fs::read(&ledger).unwrap()[..100_000].iter().all(|byte| *byte == 0));
    hosted.child_exited(Exit::Code(0));
    wait_until("the exit", || journal.bounds().exit.is_some());
    pumps.sync_now();
    pumps.sync_now();
    let left = std::fs::read(&ledger).unwrap();
    assert!(left.iter().all(|byte| *byte == 0), "all of it is punched");
    drop(far_write);
    let mut seen = Vec::new();
    std::io::Read::read_to_end(&mut std::fs::File::from(far_read), &mut seen).unwrap();
    assert!(seen == truth, "what is in the far pipe changed");
}

#[test]
fn an_answer_takes_microseconds_not_milliseconds() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let proc = Proc::start(&pumps, &dir.path().join("j"), "exec cat > /dev/null");
    let times = (0..200).map(|_| {
        let start = Instant::now();
        proc.send(b"x").unwrap();
        start.elapsed()
    });
    // The best: on a busy machine the others say how busy it is.
    let best = times.min().unwrap();
    assert!(best < Duration::from_millis(1), "{best:?}");
}
