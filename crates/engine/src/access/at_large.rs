//! Who is at large: processes that were hosted, whose keeper was killed, and that no control group tells from a person.
//!
//! Two notes in the folder of each instance, both with the name of the boot in which they count. `hosting` is locked by the
//! keeper for as long as it lives, and emptied by it when it ends with nobody left; one that is neither locked nor empty says that its keeper was
//! killed. `at-large` is left by a daemon that saw it, until a person has shown to be one. Whoever is at large can decide
//! with any instance of the user, so all of their notes count. They are files: who was hosted can take them away, and
//! SECURITY.md says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::approval::named_boot;

const HOSTING: &str = "hosting";
const AT_LARGE: &str = "at-large";
/// A helper of a keeper that was killed ends with it, a moment later.
const LET_GO_WITHIN: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(5);
/// The name of a boot is shorter.
const NOTE_MAX: u64 = 256;

/// Notes that somebody is hosted here from now on; for the keeper, which holds it. Nothing where it is held already.
pub(crate) fn note_hosting(dir: &Path) -> io::Result<Option<File>> {
    let mut file = open(&dir.join(HOSTING))?;
    let until = Instant::now() + LET_GO_WITHIN;
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if Instant::now() > until {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    write(&mut file)?;
    Ok(Some(file))
}

/// Notes that somebody got away from here.
pub(crate) fn note(dir: &Path) -> io::Result<()> {
    write(&mut open(&dir.join(AT_LARGE))?)
}

/// Whether the keeper of this instance was killed in this boot, and nobody has seen it yet.
pub(crate) fn is_cut_off(dir: &Path) -> bool {
    let note = this_boots(&dir.join(HOSTING));
    note.is_some_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

/// Whether somebody is at large who was hosted by the instance in `dir`, or by one beside it.
pub(crate) fn is_anybody(dir: &Path) -> bool {
    all(dir).into_iter().any(|dir| this_boots(&dir.join(AT_LARGE)).is_some() || is_cut_off(&dir))
}

/// A person has shown to be one: they count as told from then on.
pub(crate) fn settle(dir: &Path) -> io::Result<()> {
    for dir in all(dir) {
        if is_cut_off(&dir) {
            open(&dir.join(HOSTING))?.set_len(0)?;
        }
        match std::fs::remove_file(dir.join(AT_LARGE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// This instance and those beside it.
fn all(dir: &Path) -> Vec<PathBuf> {
    let beside = dir.parent().and_then(|parent| std::fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    let beside = beside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    beside.filter(|beside| beside != dir).chain([dir.to_owned()]).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

fn write(file: &mut File) -> io::Result<()> {
    let boot = named_boot().unwrap_or_default();
    file.set_len(0)?;
    file.write_all(boot.as_bytes())
}

/// The note, if it is of this boot. Nobody waits for what is not a file.
fn this_boots(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    let read = is_file.then(|| (&file).take(NOTE_MAX).read_to_string(&mut text).ok()).flatten().is_some();
    (read && !text.is_empty() && named_boot().is_some_and(|boot| boot == text)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_was_killed_is_told_from_one_that_lives_and_one_that_ended() {
        let state = tempfile::tempdir().unwrap();
        let (own, other) = (state.path().join("main"), state.path().join("other"));
        std::fs::create_dir(&own).unwrap();
        std::fs::create_dir(&other).unwrap();
        assert!(!is_cut_off(&own) && !is_anybody(&own));
        let held = note_hosting(&own).unwrap().unwrap();
        assert!(!is_cut_off(&own), "it lives");
        assert!(note_hosting(&own).unwrap().is_none(), "it has it");
        drop(held);
        assert!(is_cut_off(&own) && is_anybody(&own), "it was killed");
        assert!(is_anybody(&other), "whoever got away is nobody's in particular");
        note_hosting(&own).unwrap().unwrap().set_len(0).unwrap();
        assert!(!is_cut_off(&own) && !is_anybody(&other), "it ended with nobody left");
        std::fs::write(own.join(HOSTING), "another boot").unwrap();
        assert!(!is_cut_off(&own), "nobody outlives the machine");
    }

    #[test]
    fn who_got_away_stays_noted_until_a_person_has_shown_to_be_one() {
        let state = tempfile::tempdir().unwrap();
        let (own, other) = (state.path().join("main"), state.path().join("other"));
        std::fs::create_dir(&own).unwrap();
        std::fs::create_dir(&other).unwrap();
        note(&other).unwrap();
        let _held = note_hosting(&other).unwrap();
        assert!(is_anybody(&own));
        settle(&own).unwrap();
        assert!(!is_anybody(&own) && !is_anybody(&other));
        assert!(!is_cut_off(&other) && other.join(HOSTING).metadata().unwrap().len() > 0, "what lives stays");
    }

    #[test]
    fn a_link_is_not_followed_and_nobody_waits_for_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join(HOSTING);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        assert!(!is_cut_off(dir.path()));
        std::os::unix::fs::symlink(dir.path().join("victim"), dir.path().join(AT_LARGE)).unwrap();
        assert!(note(dir.path()).is_err() && !dir.path().join("victim").exists());
    }
}
