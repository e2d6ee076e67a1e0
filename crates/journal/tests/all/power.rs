//! The power is cut while a journal is being written: what is found afterwards is the beginning of what was said, and
//! holds at least what was reported as safe. The disk is an ext4 whose device keeps writes in a cache of its own until
//! it is told to flush, and at the cut loses any of them. Needs root; skipped without, but never in CI.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::common::fuse::Fuse;
use crate::common::mount::{Mount, make_ext4};
use crate::common::*;
use ostler_journal::{Journal, JournalOptions, Kind, PumpConfig, PumpIo, Pumps, Roll};
use ostler_story::Exit;
use tempfile::TempDir;

const CUTS: u64 = 5;
/// Large enough for an ext4 with a journal and for everything that is said.
const DISK_MIB: u64 = 48;
const SYNC_EVERY: Duration = Duration::from_millis(30);
/// Frames after which a pump has noted that the ones before wait to be synced: two of its turns.
const NOTED: u64 = 16;
/// What its owner keeps in the folder of a journal, and what that says.
const ROLL: &str = "roll";
const TOLD: &str = "whose journal it is";

/// The line that stands at a position tells it.
fn line(number: u64) -> String {
    format!("{number:015}\n")
}

/// Says numbered lines, steadily, until told to stop.
fn speak(mut to: File, stop: &AtomicBool) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let text: String = (number..number + 50).map(line).collect();
        to.write_all(text.as_bytes()).unwrap();
        number += 50;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What had become visible, and when that was seen.
#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    seq: u64,
    end: u64,
}

/// Follows what a journal shows, to be able to say what is older than a given age.
struct Watch<'a> {
    journal: &'a Journal,
    seen: Vec<Seen>,
}

impl Watch<'_> {
    fn look(&mut self) {
        let bounds = self.journal.bounds();
        self.seen.push(Seen { at: Instant::now(), seq: bounds.last_seq, end: bounds.out_end });
    }

    /// How many bytes are safe if the oldest unsynced one is `age` old at a time that is not before `now`.
    fn safe(&self, now: Instant, age: Duration) -> u64 {
        let Some(before) = now.checked_sub(age) else { return 0 };
        let old = self.seen.iter().rev().find(|seen| seen.at < before);
        let noted = old.map_or(0, |old| old.seq.saturating_sub(NOTED));
        self.seen.iter().rev().find(|seen| seen.seq <= noted).map_or(0, |seen| seen.end)
    }
}

#[test]
fn a_power_cut_leaves_the_beginning_of_what_was_said_and_all_that_was_reported_safe() {
    if !is_alone() {
        return;
    }
    cut_while_writing(JournalOptions::default());
}

#[test]
fn a_power_cut_while_the_front_is_being_cut_leaves_one_whole_piece_of_what_was_said() {
    if !is_alone() {
        return;
    }
    cut_while_writing(JournalOptions { live_max: Some(64 << 10), ..JournalOptions::default() });
}

fn cut_while_writing(options: JournalOptions) {
    hooks();
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
    let (roll, _) = Roll::open(&home.path().join(ROLL)).unwrap();
    pumps.keep_roll_synced(&roll);
    let journal = Journal::later(&home.path().join("procs/j"), options, &roll, None);
    journal.to_be_described(TOLD.into());
    assert!(!journal.is_remote(), "an ext4, whatever its disk is");
    let (read, write) = pipe();
    let io = PumpIo { stdout: Some(nonblocking(read)), ..PumpIo::default() };
    let _hosted = pumps.host(Arc::clone(&journal), io, false);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let speaker = std::thread::spawn(move || speak(File::from(write), &told));

    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut watch = Watch { journal: &journal, seen: Vec::new() };
    let mut safe_before = 0;
    for cut in 0..CUTS {
        // A random moment, once something more was reported safe.
        let least = Instant::now() + Duration::from_millis(random.next() % 120);
        let mut safe = 0;
        wait_until("more to be safe", || {
            watch.look();
            let now = Instant::now();
            safe = watch.safe(now, pumps.oldest_unsynced());
            safe > safe_before && now > least
        });
        let image = match cut {
            // The cache was lucky, or lost everything, or anything in between.
            0 => fuse.cut_power("disk", || true),
            1 => fuse.cut_power("disk", || false),
            _ => fuse.cut_power("disk", || random.next().is_multiple_of(2)),
        };
        let found = after_the_cut(after.path(), &image);
        println!("cut {cut}: {safe} bytes reported safe, {found} found, {} visible", journal.bounds().out_end);
        assert!(found >= safe, "{found} bytes found, {safe} were reported safe");
        safe_before = safe;
    }
    stop.store(true, Ordering::Relaxed);
    speaker.join().unwrap();
}

/// Mounts a disk as the next boot would, recovers the journal, and says how much of the truth is in it.
fn after_the_cut(dir: &Path, image: &[u8]) -> u64 {
    let (disk, place) = (dir.join("disk"), dir.join("place"));
    std::fs::write(&disk, image).unwrap();
    let _ = std::fs::create_dir(&place);
    let _mount = Mount::image(&place, &disk).unwrap();
    let journal = in_another_boot(|| Journal::open(&place.join("procs/j")).unwrap());
    assert_eq!(journal.bounds().damaged_from, None);
    let told = Roll::read(&place.join(ROLL)).unwrap();
    assert_eq!(told.first().map(|listed| listed.description.as_slice()), Some(TOLD.as_bytes()));
    let said = bytes_of(&read_after(&journal, journal.bounds().first_seq - 1), Kind::Stdout);
    let end = journal.bounds().out_end;
    let truth: String = (0..end / 16 + 1).map(line).collect();
    let kept = end as usize - said.len()..end as usize;
    assert!(kept.start == 0 || journal.bounds().first_seq > 1, "the front is missing, and nobody cut it");
    assert!(truth.as_bytes()[kept] == said, "not what was said");
    journal.close_files();
    end
}

/// Where faults are set; to be named before anything else is done.
fn hooks() -> &'static Path {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().unwrap()).path();
    ostler_hooks::use_directory(dir);
    dir
}

/// Does something as if the machine had been restarted.
fn in_another_boot<T>(act: impl FnOnce() -> T) -> T {
    let fault = hooks().join("mark.boot.fault");
    std::fs::write(&fault, "7").unwrap();
    let done = act();
    std::fs::remove_file(&fault).unwrap();
    done
}

#[test]
fn in_another_boot_only_what_was_synced_counts_and_after_that_a_kill_costs_nothing_again() {
    if !is_alone() {
        return;
    }
    hooks();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    let mut proc = Proc::start(&pumps, &path, "echo safe; echo safer >&2; read go; echo gone; echo gone >&2; read go");
    wait_until("two lines", || proc.journal.bounds().last_seq == 2);
    pumps.sync_now();
    proc.send(b"go\n").unwrap();
    wait_until("four lines", || proc.journal.bounds().last_seq == 4);
    // Within one boot the files are good, whoever was killed.
    assert_eq!(Journal::open(&path).unwrap().bounds().last_seq, 4);
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let journal = in_another_boot(|| Journal::open(&copy).unwrap());
    let frames = read_all(&journal);
    assert_eq!((text_of(&frames, Kind::Stdout), text_of(&frames, Kind::Stderr)), ("safe\n".into(), "safer\n".into()));
    // What is written from now on is of this boot.
    journal.record_exit(Exit::Unknown).unwrap();
    File::options().append(true).open(copy.join("out")).unwrap().write_all(b"new\n").unwrap();
    let frames = read_all(&Journal::open(&copy).unwrap());
    assert_eq!(text_of(&frames, Kind::Stdout), "safe\nnew\n");
    proc.send(b"go\n").unwrap();
    proc.finish();
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
