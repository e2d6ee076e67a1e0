//! A neighbour that swaps a folder for a link while we look: nothing outside is ever read or written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

const SWAPS: usize = 10_000;

/// What was seen while a neighbour swapped.
#[derive(Debug, Default)]
struct Seen {
    inside: usize,
    outside: usize,
}

/// Swaps `root/d` with a link to a folder outside, ten thousand times, while `look` says what it finds.
fn race(look: impl Fn(&Path) -> Option<Vec<u8>>) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for (folder, content) in [("root/d", "inside"), ("out", "outside")] {
        fs::create_dir_all(base.join(folder)).unwrap();
        fs::write(base.join(folder).join("file"), content).unwrap();
    }
    symlink(base.join("out"), base.join("root/l")).unwrap();
    let (over, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let neighbour = thread::spawn({
        let (base, over, swaps) = (base.clone(), Arc::clone(&over), Arc::clone(&swaps));
        move || {
            while !over.load(Ordering::Relaxed) {
                let (d, l) = (base.join("root/d"), base.join("root/l"));
                renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let mut seen = Seen::default();
    // Until both have done enough: a busy machine may let one of them wait.
    let mut looks = 0;
    while swaps.load(Ordering::Relaxed) < SWAPS || looks < SWAPS {
        looks += 1;
        match look(&base.join("root")).as_deref() {
            Some(b"outside") => seen.outside += 1,
            Some(b"inside") => seen.inside += 1,
            _ => {}
        }
    }
    over.store(true, Ordering::Relaxed);
    neighbour.join().unwrap();
    let out: Vec<_> = fs::read_dir(base.join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(out, ["file"], "something was written outside");
    assert_eq!(fs::read(base.join("out/file")).unwrap(), b"outside");
    seen
}

fn reads(root: &Root) -> Option<Vec<u8>> {
    let shown = root.read(Path::new("d/file"), Range::Whole { limit: 100 }).ok()?;
    Some(shown.content.bytes().to_vec())
}

#[test]
fn ten_thousand_swaps_let_nobody_out_by_the_kernels_way() {
    let seen = race(|top| reads(&Root::open(top).unwrap()));
    assert!(seen.inside > 0 && seen.outside == 0, "{seen:?}");
}

#[test]
fn ten_thousand_swaps_let_nobody_out_by_the_walk() {
    let seen = race(|top| reads(&Root::on(|_, _, _| Err(rustix::io::Errno::NOSYS), top)));
    assert!(seen.inside > 0 && seen.outside == 0, "{seen:?}");
}

#[test]
fn ten_thousand_swaps_let_nobody_write_outside() {
    let hash = content_hash(b"inside");
    let seen = race(|top| {
        let root = Root::open(top).unwrap();
        let _ = root.write(Path::new("d/new"), b"x", Expected::Absent);
        let _ = root.remove(Path::new("d/new"));
        root.write(Path::new("d/file"), b"inside", Expected::Hash(&hash)).ok().map(|_| b"inside".to_vec())
    });
    assert!(seen.inside > 0, "{seen:?}");
}

#[test]
fn a_look_that_trusts_the_path_is_caught_by_this_battery() {
    // The positive control: what compares paths first and opens them afterwards escapes.
    let seen = race(|top| {
        let path = top.join("d/file");
        path.canonicalize().ok().filter(|real| real.starts_with(top))?;
        fs::read(path).ok()
    });
    assert!(seen.outside > 0, "{seen:?}");
}
