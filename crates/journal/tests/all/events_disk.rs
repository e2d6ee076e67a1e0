//! Events on a disk that says no, and what of them is promised about power loss.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::mount::Mount;
use crate::common::*;
use ostler_journal::{EventCursor, EventJournal, EventStep, Missing, PumpConfig, Pumps};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Faults are for the whole program, so each test here has one for itself.
struct Faults(tempfile::TempDir);

impl Faults {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        ostler_hooks::use_directory(dir.path());
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.fault"))
    }

    fn set(&self, name: &str, errno: i32) {
        std::fs::write(self.path(name), errno.to_string()).unwrap();
    }

    fn clear(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }
}

fn read(journal: &Arc<EventJournal>) -> Vec<Vec<u8>> {
    let mut cursor = EventCursor::new(Arc::clone(journal), 0);
    let mut payloads = Vec::new();
    loop {
        let mut payload = Vec::new();
        match cursor.next_blocking(&mut payload).unwrap() {
            EventStep::Event(_) => payloads.push(payload),
            EventStep::UpToDate => return payloads,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_cannot_be_written_is_not_visible_and_can_be_tried_again() {
    if !is_alone() {
        return;
    }
    let (faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let journal = EventJournal::create(dir.path()).unwrap();
    journal.append(1, 10, b"first").unwrap();
    for (src_end, fault, errno) in [(20, "derived.write", ENOSPC), (30, "derived.index", EIO)] {
        let before = journal.bounds();
        faults.set(fault, errno);
        let error = journal.append(1, src_end, b"a long one that fails").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno));
        assert_eq!((journal.bounds(), journal.derived_up_to(1)), (before, src_end - 10));
        faults.clear(fault);
        assert_eq!(journal.append(1, src_end, b"short").unwrap(), Some(before.last + 1));
    }
    let wanted = vec![b"first".to_vec(), b"short".to_vec(), b"short".to_vec()];
    assert_eq!(read(&journal), wanted);
    assert_eq!(read(&EventJournal::open(dir.path()).unwrap()), wanted);
}

#[test]
fn a_full_disk_takes_whole_records_or_none() {
    if !is_alone() {
        return;
    }
    let (_faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let Some(_mount) = Mount::tmpfs(dir.path(), 4) else { return };
    let journal = EventJournal::create(&dir.path().join("session")).unwrap();
    let filler = dir.path().join("filler");
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap();
    let payload = |number: u64| vec![number as u8; 100_000];
    let mut number = 0;
    let error = loop {
        match journal.append(1, number + 1, &payload(number)) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(ENOSPC));
    let found = read(&journal);
    assert_eq!(found.len() as u64, number);
    assert_eq!(read(&EventJournal::open(&dir.path().join("session")).unwrap()), found);
    std::fs::remove_file(&filler).unwrap();
    journal.append(1, number + 1, &payload(number)).unwrap();
    let wanted: Vec<_> = (0..=number).map(payload).collect();
    assert!(read(&journal) == wanted);
    journal.close_files();
}

#[test]
fn a_failed_sync_is_told_and_remembered() {
    if !is_alone() {
        return;
    }
    let (faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    let journal = EventJournal::create(dir.path()).unwrap();
    pumps.keep_synced(&journal);
    journal.append(1, 10, b"safe").unwrap();
    pumps.sync_now();
    assert_eq!(journal.bounds().damaged_from, None);
    journal.append(1, 20, b"in doubt").unwrap();
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    let _subscription = journal.subscribe(Arc::new(move || tell.store(true, Ordering::SeqCst)));
    faults.set("derived.sync", EIO);
    pumps.sync_now();
    faults.clear("derived.sync");
    assert!(told.load(Ordering::SeqCst));
    assert_eq!(journal.bounds().damaged_from, Some(2));
    assert_eq!(EventJournal::open(dir.path()).unwrap().bounds().damaged_from, Some(2));
    assert_eq!(read(&journal).len(), 2, "what is visible stays visible");
}

#[test]
fn in_another_boot_only_what_was_synced_counts_and_after_that_a_kill_costs_nothing_again() {
    if !is_alone() {
        return;
    }
    let (faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    let journal = EventJournal::create(dir.path()).unwrap();
    // Appended before anybody syncs it.
    journal.append(1, 10, b"safe").unwrap();
    pumps.keep_synced(&journal);
    assert!(pumps.oldest_unsynced() > Duration::ZERO);
    pumps.sync_now();
    journal.append(1, 20, b"safe too").unwrap();
    pumps.sync_now();
    assert_eq!(pumps.oldest_unsynced(), Duration::ZERO);
    journal.append(1, 30, b"gone").unwrap();
    assert!(pumps.oldest_unsynced() > Duration::ZERO);
    // Within one boot the files are good, whoever was killed.
    assert_eq!(EventJournal::open(dir.path()).unwrap().bounds().last, 3);
    faults.set("mark.boot", 7);
    let after = EventJournal::open(dir.path()).unwrap();
    faults.clear("mark.boot");
    assert_eq!((after.bounds().last, after.derived_up_to(1)), (2, 20));
    assert_eq!(after.append(1, 30, b"derived again").unwrap(), Some(3));
    drop(after);
    let wanted = vec![b"safe".to_vec(), b"safe too".to_vec(), b"derived again".to_vec()];
    assert_eq!(read(&EventJournal::open(dir.path()).unwrap()), wanted);
}

#[test]
fn a_hole_that_is_punched_during_a_read_is_a_gap_and_never_an_event() {
    if !is_alone() {
        return;
    }
    let (faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let journal = EventJournal::create(dir.path()).unwrap();
    for number in 1..=3 {
        journal.append(1, number, &[b'x'; 10_000]).unwrap();
    }
    let fifo = faults.0.path().join("derived.read");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut cursor = EventCursor::new(Arc::clone(&journal), 0);
    let reader = std::thread::spawn(move || {
        let mut payload = Vec::new();
        (cursor.next_blocking(&mut payload).unwrap(), payload, cursor.position())
    });
    wait_until("the read", || faults.0.path().join("derived.read.hit").exists());
    journal.cut_before(3).unwrap();
    std::fs::write(&fifo, "x").unwrap();
    assert_eq!(reader.join().unwrap(), (EventStep::Gap { first: 3, missing: Missing::LetGo }, Vec::new(), 2));
}

#[test]
fn pumps_that_end_leave_no_event_unsynced() {
    if !is_alone() {
        return;
    }
    let (_faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let journal = EventJournal::create(dir.path()).unwrap();
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    pumps.keep_synced(&journal);
    journal.append(1, 10, b"last words").unwrap();
    drop(pumps);
    let mark = std::fs::read(dir.path().join("events.mark")).unwrap();
    assert_eq!(mark[8..24], [10_u64.to_le_bytes(), 32_u64.to_le_bytes()].concat()[..]);
    // Nobody syncs it any more, and nobody waits for that.
    journal.append(1, 20, b"later").unwrap();
    assert_eq!(journal.bounds().last, 2);
}

#[test]
fn a_journal_that_is_deleted_before_it_was_synced_holds_nobody_up() {
    if !is_alone() {
        return;
    }
    let (_faults, dir) = (Faults::new(), tempfile::tempdir().unwrap());
    let journal = EventJournal::create(&dir.path().join("session")).unwrap();
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    pumps.keep_synced(&journal);
    journal.append(1, 10, b"nobody wants it").unwrap();
    journal.close_files();
    std::fs::remove_dir_all(journal.dir()).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(pumps);
        done.send(()).unwrap();
    });
    ended.recv_timeout(LONG).unwrap();
}
