//! A disk that stalls, because the server behind it does. Needs root for FUSE; skipped without, but never in CI.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::fuse::Fuse;
use crate::common::*;
use ostler_journal::{Cursor, Journal, Kind, Pumps, Step};
use ostler_story::Exit;

/// More than there are threads for such journals.
const STALLED: usize = 5;
/// More than there are threads for the others.
const OTHERS: usize = 5;
const ROUNDS: u64 = 8;

fn numbers(count: usize) -> String {
    (1..=count).map(|n| format!("{n}\n")).collect()
}

/// Long enough that every pump which can run into the stalled disk has.
fn let_it_bite(journals: &[&Arc<Journal>]) {
    let ends = || journals.iter().map(|journal| journal.bounds().out_end).collect::<Vec<_>>();
    let mut before = ends();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = ends();
        if now == before {
            return;
        }
        before = now;
    }
}

#[test]
fn a_stalled_disk_delays_neither_the_others_nor_the_end_of_its_own_children() {
    let (place, good, pumps) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), pumps());
    let Some(fuse) = Fuse::mount(place.path()) else { return };
    let others: Vec<Proc> =
        (0..OTHERS).map(|n| Proc::start(&pumps, &good.path().join(n.to_string()), "exec cat")).collect();
    // A pump may wait in any of its writes; only one kind of them holds the pipe. Each round finds some in it.
    for round in 0..ROUNDS {
        stall_and_kill(&pumps, &place.path().join(round.to_string()), &fuse, &others, 5 * (round + 1));
    }
}

/// Children whose journals are in `dir` are killed while nothing there can be written; `others` echo all the time.
fn stall_and_kill(pumps: &Arc<Pumps>, dir: &Path, fuse: &Fuse, others: &[Proc], echoed: u64) {
    let mut stalled: Vec<Proc> =
        (0..STALLED).map(|n| Proc::start(pumps, &dir.join(n.to_string()), "exec seq 1 100000000")).collect();
    for proc in &stalled {
        assert!(proc.journal.is_remote());
        wait_until("a first frame", || proc.journal.bounds().last_seq > 0);
    }
    let stall = fuse.stall();
    let_it_bite(&stalled.iter().map(|proc| &proc.journal).collect::<Vec<_>>());
    for other in others {
        other.send(b"go on").unwrap();
        wait_until("the echo", || other.journal.bounds().out_end == echoed);
    }
    // A reader that may not wait is told so, also about frames that are there.
    let mut cursor = Cursor::new(Arc::clone(&stalled[0].journal), 0);
    assert_eq!(cursor.try_next(&mut Vec::new()).unwrap(), Step::WouldBlock);
    // The children wait for room in their own pipes, where a signal finds them.
    for proc in &mut stalled {
        proc.child.kill().unwrap();
        wait_until("the end of the child", || proc.child.try_wait().unwrap().is_some());
        proc.hosted.child_exited(Exit::Signal(9));
    }
    let before: Vec<u64> = stalled.iter().map(|proc| proc.journal.bounds().out_end).collect();
    drop(stall);
    for (proc, before) in stalled.iter().zip(before) {
        wait_until("the exit record", || proc.journal.bounds().exit.is_some());
        let said = text_of(&read_all(&proc.journal), Kind::Stdout);
        assert!(said.len() as u64 > before, "what waited in pipe and relay came too");
        let last = said.lines().count() + 1;
        assert!(numbers(last).starts_with(&said), "a hole or a repetition");
    }
}

#[test]
fn nothing_is_lost_when_the_disk_comes_back() {
    let (place, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let Some(fuse) = Fuse::mount(place.path()) else { return };
    let mut proc = Proc::start(&pumps, &place.path().join("j"), "seq 1 300000; seq 1 1000 >&2; exit 4");
    for _ in 0..5 {
        let before = proc.journal.bounds().last_seq;
        wait_until("progress", || proc.journal.bounds().last_seq > before || proc.child.try_wait().unwrap().is_some());
        let stall = fuse.stall();
        let_it_bite(&[&proc.journal]);
        drop(stall);
    }
    let frames = proc.finish();
    assert!(text_of(&frames, Kind::Stdout) == numbers(300_000));
    assert!(text_of(&frames, Kind::Stderr) == numbers(1000));
    assert_eq!(proc.journal.bounds().exit.unwrap().how, Exit::Code(4));
}

#[test]
fn a_journal_on_a_disk_of_this_kernel_has_no_relays() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    assert!(!journal.is_remote() && journal.relays().unwrap().is_empty());
    assert!(!Journal::in_memory(ostler_journal::JournalOptions::default()).unwrap().is_remote());
    assert!(Path::new(journal.dir().unwrap()).exists());
}
