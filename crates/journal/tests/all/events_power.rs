//! The power is cut while events are being journaled: what is found afterwards is the beginning of them, holds at least
//! what was reported as safe, and the rest is derived again. The disk is an ext4 whose device keeps writes in a cache of
//! its own until it is told to flush, and at the cut loses any of them. Needs root; skipped without, but never in CI.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::fuse::Fuse;
use crate::common::mount::{Mount, make_ext4};
use crate::common::*;
use ostler_journal::{EventCursor, EventJournal, EventStep, PumpConfig, Pumps};

const CUTS: u64 = 5;
/// Large enough for an ext4 with a journal and for everything that is said.
const DISK_MIB: u64 = 48;
const SYNC_EVERY: Duration = Duration::from_millis(30);

/// The payload of a record tells its number; never zeros.
fn payload(number: u64) -> Vec<u8> {
    format!("{number:015}\n").repeat(1 + number as usize % 40).into_bytes()
}

/// Journals records, steadily, until told to stop; notes when each was.
fn speak(journal: &Arc<EventJournal>, said: &Mutex<Vec<Instant>>, stop: &AtomicBool) {
    for number in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        journal.append(1, number, &payload(number)).unwrap();
        said.lock().unwrap().push(Instant::now());
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_power_cut_leaves_the_beginning_of_the_events_and_all_that_were_reported_safe() {
    if !is_alone() {
        return;
    }
    let hooks = tempfile::tempdir().unwrap();
    ostler_hooks::use_directory(hooks.path());
    // Whoever opens a journal here does so in another boot.
    std::fs::write(hooks.path().join("mark.boot.fault"), "7").unwrap();
    let (place, home, after) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(fuse) = Fuse::mount(place.path()) else { return };
    let disk = place.path().join("disk");
    if !make_ext4(&disk, DISK_MIB) {
        return;
    }
    fuse.play_disk("disk");
    let Some(_mount) = Mount::image(home.path(), &disk) else { return };
    let pumps = Pumps::start(PumpConfig { sync_every: SYNC_EVERY, ..quick() }).unwrap();
    let journal = EventJournal::create(&home.path().join("sessions/s")).unwrap();
    pumps.keep_synced(&journal);
    let (said, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| speak(&journal, &said, &stop));
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        let mut safe_before = 0;
        for cut in 0..CUTS {
            // A random moment, once something more was reported safe.
            let least = Instant::now() + Duration::from_millis(next() % 120);
            let mut safe = 0;
            wait_until("more to be safe", || {
                let now = Instant::now();
                let before = now.checked_sub(pumps.oldest_unsynced()).unwrap();
                safe = said.lock().unwrap().partition_point(|at| *at < before) as u64;
                safe > safe_before && now > least
            });
            let image = match cut {
                // The cache was lucky, or lost everything, or anything in between.
                0 => fuse.cut_power("disk", || true),
                1 => fuse.cut_power("disk", || false),
                _ => fuse.cut_power("disk", || next().is_multiple_of(2)),
            };
            let found = after_the_cut(after.path(), &image, safe);
            println!("cut {cut}: {safe} records reported safe, {found} found, {} visible", journal.bounds().last);
            safe_before = safe;
        }
    });
    journal.close_files();
}

/// Mounts a disk as the next boot would, recovers the events, and says how many there are.
fn after_the_cut(dir: &Path, image: &[u8], safe: u64) -> u64 {
    let (disk, place) = (dir.join("disk"), dir.join("place"));
    std::fs::write(&disk, image).unwrap();
    let _ = std::fs::create_dir(&place);
    let _mount = Mount::image(&place, &disk).unwrap();
    let journal = EventJournal::open(&place.join("sessions/s")).unwrap();
    let found = journal.bounds().last;
    assert_eq!(journal.bounds().damaged_from, None);
    assert!(found >= safe, "{found} records found, {safe} were reported safe");
    assert_eq!(journal.derived_up_to(1), found);
    for number in found + 1..found + 10 {
        assert_eq!(journal.append(1, number, &payload(number)).unwrap(), Some(number));
    }
    let mut cursor = EventCursor::new(Arc::clone(&journal), 0);
    for number in 1..found + 10 {
        let mut bytes = Vec::new();
        assert!(matches!(cursor.next_blocking(&mut bytes).unwrap(), EventStep::Event(head) if head.src_end == number));
        assert!(bytes == payload(number), "record {number} of {found} is not what was said");
    }
    drop(cursor);
    journal.close_files();
    found
}

/// Also when an assertion fails: else the test would wait for the speaker for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
