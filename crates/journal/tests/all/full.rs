//! A file system that is really full. Needs root for a small tmpfs; skipped without, but never in CI.

use std::path::Path;
use std::time::Duration;

use crate::common::mount::Mount;
use crate::common::*;
use ostler_journal::{HeldReason, Kind, PumpConfig, Pumps};

const MIB: usize = 1 << 20;

#[test]
fn a_full_tmpfs_holds_the_child_back_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    if let Some(_mount) = Mount::tmpfs(dir.path(), 24) {
        fill_and_free(dir.path());
    }
}

#[test]
fn a_full_ext4_holds_the_child_back_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    if let Some(_mount) = Mount::ext4(dir.path(), 40) {
        fill_and_free(dir.path());
    }
}

fn fill_and_free(dir: &Path) {
    let filler = dir.join("filler");
    fill(&filler);
    let pumps = pumps();
    let mut proc = Proc::start(&pumps, &dir.join("j"), "seq 1 1500000; exit 6");
    wait_until("the hold", || proc.journal.bounds().held_back.is_some());
    assert_eq!(proc.journal.bounds().held_back.unwrap().reason, HeldReason::Full);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Proc::start(&pumps, &elsewhere.path().join("j"), "exec cat");
    other.send(b"others go on").unwrap();
    wait_until("the other", || other.journal.bounds().out_end == 12);
    let input = proc.send_later(None, &vec![b'x'; MIB]);
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(input.recv_timeout(LONG).unwrap().unwrap().applied, MIB as u64);
    let wanted: String = (1..=1_500_000).map(|n| format!("{n}\n")).collect();
    assert!(text_of(&proc.finish(), Kind::Stdout) == wanted);
    assert_eq!(proc.journal.bounds().exit.unwrap().how, ostler_story::Exit::Code(6));
}

/// Leaves about 4 MiB.
fn fill(filler: &Path) {
    let mut file = std::fs::File::create(filler).unwrap();
    while std::io::Write::write_all(&mut file, &vec![1; MIB]).is_ok() {}
    let len = file.metadata().unwrap().len();
    file.set_len(len - 4 * MIB as u64).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn below_the_floor_the_largest_writer_is_held_back_and_small_ones_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(dir.path(), 64) else { return };
    let filler = dir.path().join("filler");
    std::fs::write(&filler, vec![0; 20 * MIB]).unwrap();
    let config = PumpConfig {
        floor_bytes: 24 * MIB as u64,
        floor_percent: 100,
        sync_every: Duration::from_millis(20),
        ..quick()
    };
    let pumps = Pumps::start(config).unwrap();
    let slow = "while :; do head -c 1000000 /dev/zero; sleep 0.03; done";
    let large = Proc::start(&pumps, &dir.path().join("large"), slow);
    let small = Proc::start(&pumps, &dir.path().join("small"), "exec cat");
    wait_until("the hold", || large.journal.bounds().held_back.is_some());
    assert_eq!(large.journal.bounds().held_back.unwrap().reason, HeldReason::Floor);
    small.send(b"still here").unwrap();
    wait_until("the echo", || small.journal.bounds().out_end == 10);
    let end = large.journal.bounds().out_end;
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(large.journal.bounds().out_end, end);
    std::fs::remove_file(&filler).unwrap();
    wait_until("the release", || large.journal.bounds().out_end > end);
    assert_eq!(small.journal.bounds().held_back, None);
}

#[test]
fn a_small_disk_with_half_of_it_free_holds_nobody_back() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(dir.path(), 200) else { return };
    std::fs::write(dir.path().join("filler"), vec![0; 104 * MIB]).unwrap();
    let config = PumpConfig { sync_every: Duration::from_millis(10), ..PumpConfig::default() };
    let space = config.space(std::fs::File::open(dir.path()).unwrap()).unwrap();
    assert!(space.keep_free == space.size / 100 * 5 && space.free > space.keep_free, "{space:?}");
    let pumps = Pumps::start(config).unwrap();
    // Slow enough for many looks at the disk, each with more written than a small writer does.
    let script = "i=0; while [ $i -lt 40 ]; do head -c 1048576 /dev/zero; sleep 0.02; i=$((i+1)); done";
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), script);
    while proc.journal.bounds().out_end < 40 * MIB as u64 {
        assert_eq!(proc.journal.bounds().held_back, None);
        std::thread::sleep(Duration::from_millis(5));
    }
    proc.reap();
}

#[test]
fn a_limit_keeps_a_live_journal_small() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(dir.path(), 32) else { return };
    let options = ostler_journal::JournalOptions { live_max: Some(4 * MIB as u64), ..Default::default() };
    let journal = ostler_journal::Journal::create_with(&dir.path().join("j"), options).unwrap();
    let config = PumpConfig { sync_every: Duration::from_millis(10), ..quick() };
    let pumps = Pumps::start(config).unwrap();
    // Three times what fits: it can only end if the front is given back all the time.
    let script = "i=0; while [ $i -lt 96 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done";
    let mut proc = Proc::in_journal(&pumps, journal, script);
    proc.reap();
    wait_until("the exit", || proc.journal.bounds().exit.is_some());
    assert_eq!(proc.journal.bounds().out_end, 96 * MIB as u64);
    assert!(proc.journal.bounds().first_seq > 1);
}
