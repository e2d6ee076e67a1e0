//! The roll: what was started, all processes of an instance in one file, and how those ended that never said or heard a word.
//! Such a process has nothing else on the disk: no folder, no files, one append when it starts and one when it ends.
//!
//! An entry is a head of 32 bytes (made like a `ctl` record; its words are the length of the body, the length of the id that
//! the body begins with, and the check of the body) and the body, filled up to a multiple of 32. Entries are only appended; a
//! later one about the same process replaces the earlier one of its kind. One that was cut short never became true, and one
//! that is damaged costs itself only: heads are found again at the next multiple of 32.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::index::check;
use crate::probe::FsKind;
use crate::raw::ctl::{RECORD, decode, encode};
use crate::raw::{EndOnRoll, OpenError};
use crate::sync::Sync;
use crate::{lock, sys};

/// The format this ostler writes, and the newest it reads.
const VERSION: u32 = 1;
/// "ostlerrl": the head of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"ostlerrl");

const HEAD: u16 = 32;
const STARTED: u16 = 33;
const ENDED: u16 = 34;
/// Was an entry of a process that is forgotten; its body is zeros.
const FORGOTTEN: u16 = 35;

/// More than a command line can have.
const BODY_MAX: u64 = 16 << 20;
/// What forgotten and replaced entries may take before the file is written anew, if they are also more than the others.
const DEAD_MAX: u64 = 1 << 20;

/// What the roll says about one process.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Whose.
    pub id: String,
    /// What was started, in the words of the owner; empty where it is lost.
    pub description: Vec<u8>,
    /// How it ended, if it never said or heard a word.
    pub end: Option<EndOnRoll>,
}

/// Where the entries about one process are: place and length.
type Places = Vec<(u64, u64)>;

struct State {
    file: File,
    end: u64,
    places: HashMap<String, Places>,
    /// Bytes that say nothing any more.
    dead: u64,
}

/// The roll of an instance.
pub struct Roll {
    path: PathBuf,
    remote: bool,
    state: Mutex<State>,
    dirty: AtomicBool,
    sync: OnceLock<Arc<Sync>>,
}

/// An entry of a file.
struct Entry<'a> {
    kind: u16,
    id: &'a str,
    rest: &'a [u8],
    place: u64,
    length: u64,
}

impl Roll {
    /// Opens or makes the roll at `path`; gives back what it says, oldest first. A newer format is refused and left as it is.
    pub fn open(path: &Path) -> Result<(Arc<Self>, Vec<Listed>), OpenError> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let bytes = whole(&file)?;
        let mut listed = List::default();
        let mut end = RECORD as u64;
        if bytes.len() < RECORD {
            sys::write_all_at(&file, &encode(HEAD, VERSION, [MAGIC, 0, 0], 0), 0)?;
        } else {
            end = walk(&bytes, |entry| listed.add(&entry))?;
        }
        // What was cut short never became true.
        if file.metadata()?.len() > end {
            file.set_len(end)?;
        }
        let live = listed.live();
        let mut dead = end.saturating_sub(RECORD as u64 + live);
        // A disk that has no room for it now may have some when the next one is forgotten.
        if dead > DEAD_MAX
            && dead > live
            && let Ok(fresh) = rewrite(path, &file, &mut listed.places)
        {
            (file, end) = fresh;
            dead = 0;
        }
        // Unknown is not remote: a file system without a number is this kernel's own.
        let remote = FsKind::of(&file).is_ok_and(|kind| kind.is_remote());
        let state = State { file, end, places: listed.places, dead };
        let (dirty, sync) = (AtomicBool::new(false), OnceLock::new());
        Ok((Arc::new(Self { path: path.to_owned(), remote, state: Mutex::new(state), dirty, sync }), listed.all))
    }

    /// What the roll at `path` says, for whoever does not hold the instance: nothing is changed.
    pub fn read(path: &Path) -> Result<Vec<Listed>, OpenError> {
        let mut listed = List::default();
        walk(&whole(&File::open(path)?)?, |entry| listed.add(&entry))?;
        Ok(listed.all)
    }

    /// Whether any use of it may wait for somebody else: it is on FUSE or a network file system.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// Bytes of its file.
    pub fn size(&self) -> u64 {
        lock(&self.state).end
    }

    /// Says what was started. Waits for the disk.
    pub fn describe(self: &Arc<Self>, id: &str, description: &[u8]) -> io::Result<()> {
        self.append(STARTED, id, description)
    }

    /// Says how a process ended that has nothing else on the disk.
    pub(crate) fn ended(self: &Arc<Self>, id: &str, record: &[u8; RECORD]) -> io::Result<()> {
        self.append(ENDED, id, record)
    }

    fn append(self: &Arc<Self>, kind: u16, id: &str, rest: &[u8]) -> io::Result<()> {
        if let Some(errno) = ostler_hooks::fault!("roll.append") {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let length = id.len() + rest.len();
        let mut bytes = Vec::with_capacity(RECORD + length.next_multiple_of(RECORD));
        bytes.extend_from_slice(&[0; RECORD]);
        bytes.extend_from_slice(id.as_bytes());
        bytes.extend_from_slice(rest);
        let sum = u64::from(check(bytes.get(RECORD..).unwrap_or_default(), 0));
        bytes.resize(bytes.len().next_multiple_of(RECORD), 0);
        let mut state = lock(&self.state);
        let place = state.end;
        let head = encode(kind, VERSION, [length as u64, id.len() as u64, sum], place / RECORD as u64);
        bytes.splice(..RECORD, head);
        // A failure leaves the end where it was: the next entry goes to the same place.
        sys::write_all_at(&state.file, &bytes, place)?;
        ostler_hooks::hook!("roll.appended");
        state.end = place + bytes.len() as u64;
        state.places.entry(id.to_owned()).or_default().push((place, bytes.len() as u64));
        drop(state);
        if !self.dirty.swap(true, Ordering::AcqRel)
            && let Some(sync) = self.sync.get()
        {
            sync.mark_roll(self);
        }
        Ok(())
    }

    /// Takes every word about a process out of the file, at once. Waits for the disk.
    pub fn forget(&self, id: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        for (place, length) in state.places.remove(id).unwrap_or_default() {
            let zeros = vec![0; usize::try_from(length).unwrap_or(RECORD)];
            sys::write_all_at(&state.file, zeros.get(RECORD..).unwrap_or_default(), place + RECORD as u64)?;
            let body = length - RECORD as u64;
            let head = encode(FORGOTTEN, VERSION, [body, 0, 0], place / RECORD as u64);
            sys::write_all_at(&state.file, &head, place)?;
            state.dead += length;
        }
        let live = state.end.saturating_sub(state.dead);
        if state.dead > DEAD_MAX && state.dead > live {
            let State { file, places, .. } = &mut *state;
            // It is forgotten all the same; the room is given back when the disk has some.
            if let Ok((fresh, end)) = rewrite(&self.path, file, places) {
                (state.file, state.end, state.dead) = (fresh, end, 0);
            }
        }
        Ok(())
    }

    /// Has it put on the disk together with the journals from now on.
    pub(crate) fn sync_with(self: &Arc<Self>, sync: &Arc<Sync>) {
        // Once, when the engine starts.
        let _ = self.sync.set(Arc::clone(sync));
    }

    /// Puts it on the disk.
    pub(crate) fn sync(self: &Arc<Self>, sync: &Sync) {
        self.dirty.store(false, Ordering::Release);
        let file = lock(&self.state).file.try_clone();
        // What can not be done now is done with the next pass.
        if file.and_then(|file| file.sync_data()).is_err() && !self.dirty.swap(true, Ordering::AcqRel) {
            sync.mark_roll(self);
        }
    }

    /// Nothing is put on the disk here.
    pub(crate) fn forgo_sync(&self) {
        self.dirty.store(false, Ordering::Release);
    }
}

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Visits every entry that is whole; gives back where the next one goes.
fn walk(bytes: &[u8], mut visit: impl FnMut(Entry<'_>)) -> Result<u64, OpenError> {
    match bytes.get(..RECORD).and_then(|head| decode(head, 0)) {
        Some((HEAD, VERSION, [MAGIC, ..])) => {}
        Some((HEAD, found, [MAGIC, ..])) => return Err(OpenError::Version { found, ours: VERSION }),
        _ => return Err(OpenError::Damaged { what: "the roll does not begin like one".into() }),
    }
    let (mut at, mut end) = (RECORD, RECORD);
    while let Some(head) = bytes.get(at..at + RECORD) {
        let Some((kind, _, [length, id, sum])) = decode(head, (at / RECORD) as u64).filter(|(kind, ..)| is_ours(*kind))
        else {
            at += RECORD;
            continue;
        };
        let length = usize::try_from(length.min(BODY_MAX)).unwrap_or(0);
        let body = bytes.get(at + RECORD..at + RECORD + length);
        let filled = RECORD + length.next_multiple_of(RECORD);
        let text = body.filter(|body| u64::from(check(body, 0)) == sum).and_then(|body| {
            let (id, rest) = body.split_at_checked(usize::try_from(id).ok()?)?;
            Some((std::str::from_utf8(id).ok()?, rest))
        });
        if let Some((id, rest)) = text
            && kind != FORGOTTEN
        {
            visit(Entry { kind, id, rest, place: at as u64, length: filled as u64 });
            end = at + filled;
        } else if kind == FORGOTTEN && body.is_some() {
            end = at + filled;
        }
        at += filled;
    }
    Ok((end as u64).min((bytes.len() as u64).next_multiple_of(RECORD as u64)))
}

fn is_ours(kind: u16) -> bool {
    matches!(kind, STARTED | ENDED | FORGOTTEN)
}

/// What the entries say together.
#[derive(Default)]
struct List {
    all: Vec<Listed>,
    by_id: HashMap<String, usize>,
    places: HashMap<String, Places>,
}

impl List {
    fn add(&mut self, entry: &Entry<'_>) {
        let index = *self.by_id.entry(entry.id.to_owned()).or_insert_with(|| {
            self.all.push(Listed { id: entry.id.to_owned(), ..Listed::default() });
            self.all.len() - 1
        });
        self.places.entry(entry.id.to_owned()).or_default().push((entry.place, entry.length));
        let Some(listed) = self.all.get_mut(index) else { return };
        match entry.kind {
            STARTED => listed.description = entry.rest.to_vec(),
            _ => listed.end = EndOnRoll::decode(entry.rest),
        }
    }

    fn live(&self) -> u64 {
        self.places.values().flatten().map(|(_, length)| length).sum()
    }
}

/// Writes what is not forgotten into a new file in the place of the old one. Where that fails, nothing has changed.
fn rewrite(path: &Path, old: &File, places: &mut HashMap<String, Places>) -> io::Result<(File, u64)> {
    let fresh = path.with_extension("new");
    write_anew(path, &fresh, old, places).inspect_err(|_| drop(std::fs::remove_file(&fresh)))
}

fn write_anew(path: &Path, fresh: &Path, old: &File, places: &mut HashMap<String, Places>) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(fresh)?;
    let mut bytes = encode(HEAD, VERSION, [MAGIC, 0, 0], 0).to_vec();
    let mut moved: HashMap<String, Places> = HashMap::with_capacity(places.len());
    let mut kept: Vec<(u64, u64, &String)> = places
        .iter()
        .flat_map(|(id, places)| places.iter().map(move |(place, length)| (*place, *length, id)))
        .collect();
    kept.sort_unstable();
    for (place, length, id) in kept {
        let mut entry = vec![0; usize::try_from(length).unwrap_or(0)];
        old.read_exact_at(&mut entry, place)?;
        let at = bytes.len() as u64;
        // A head says where it stands.
        let head = entry.get(..RECORD).and_then(|head| decode(head, place / RECORD as u64));
        let Some((kind, version, words)) = head else { continue };
        entry.splice(..RECORD, encode(kind, version, words, at / RECORD as u64));
        bytes.extend_from_slice(&entry);
        moved.entry(id.clone()).or_default().push((at, length));
    }
    sys::write_all_at(&file, &bytes, 0)?;
    file.sync_all()?;
    std::fs::rename(fresh, path)?;
    *places = moved;
    Ok((file, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::Exit;

    fn end(code: i32) -> [u8; RECORD] {
        EndOnRoll::of(Exit::Code(code), 7).encode()
    }

    fn said(roll: &Path) -> Vec<(String, String, bool)> {
        let listed = Roll::read(roll).unwrap();
        let text = |listed: Listed| (listed.id, String::from_utf8(listed.description).unwrap(), listed.end.is_some());
        listed.into_iter().map(text).collect()
    }

    fn filled(path: &Path) -> Arc<Roll> {
        let (roll, listed) = Roll::open(path).unwrap();
        assert_eq!(listed, []);
        roll.describe("p1", b"one").unwrap();
        roll.describe("p2", &[b'x'; 5000]).unwrap();
        roll.ended("p1", &end(3)).unwrap();
        roll.describe("p2", b"two").unwrap();
        roll
    }

    #[test]
    fn what_was_said_last_about_a_process_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        drop(filled(&path));
        assert_eq!(said(&path), [("p1".into(), "one".into(), true), ("p2".into(), "two".into(), false)]);
        let (_, listed) = Roll::open(&path).unwrap();
        assert_eq!(listed.first().unwrap().end.unwrap().encode(), end(3));
    }

    #[test]
    fn an_entry_cut_short_anywhere_never_became_true_and_the_next_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        let before = filled(&path).size();
        let (roll, _) = Roll::open(&path).unwrap();
        roll.describe("p3", b"a third one, of more than one record in length").unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in usize::try_from(before).unwrap()..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (roll, listed) = Roll::open(&path).unwrap();
            // Zeros that fill an entry up say nothing.
            let there = listed.len() == 3;
            assert!(there == (length >= before as usize + 32 + 48), "{length}: {}", listed.len());
            roll.describe("p4", b"four").unwrap();
            assert_eq!(said(&path).last().unwrap().1, "four", "{length}");
        }
    }

    #[test]
    fn a_damaged_entry_costs_itself_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        drop(filled(&path));
        let whole = std::fs::read(&path).unwrap();
        // The head of the first entry, then its body.
        for at in [RECORD + 9, 2 * RECORD + 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let said = said(&path);
            assert!(said.contains(&("p2".into(), "two".into(), false)), "{at}: {said:?}");
            assert!(said.contains(&("p1".into(), String::new(), true)), "{at}: {said:?}");
        }
    }

    #[test]
    fn nothing_of_a_forgotten_process_is_left_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        let roll = filled(&path);
        roll.describe("p3", b"--password=hunter2").unwrap();
        roll.forget("p3").unwrap();
        roll.forget("p3").unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"));
        roll.describe("p4", b"four").unwrap();
        drop(roll);
        let ids: Vec<String> = said(&path).into_iter().map(|(id, ..)| id).collect();
        assert_eq!(ids, ["p1", "p2", "p4"]);
    }

    #[test]
    fn a_roll_of_mostly_forgotten_processes_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        let roll = filled(&path);
        let long = vec![b'y'; 64 << 10];
        for number in 0..40 {
            roll.describe(&format!("long{number}"), &long).unwrap();
            roll.forget(&format!("long{number}")).unwrap();
        }
        assert!(roll.size() < 2 * DEAD_MAX, "{}", roll.size());
        roll.describe("p5", b"five").unwrap();
        drop(roll);
        let (_, listed) = Roll::open(&path).unwrap();
        let ids: Vec<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
        assert_eq!(ids, ["p1", "p2", "p5"]);
    }

    #[test]
    fn a_roll_that_can_not_be_written_anew_goes_on_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        let roll = filled(&path);
        // Where the new one would be made.
        std::fs::create_dir(dir.path().join("roll.new")).unwrap();
        let long = vec![b'y'; 64 << 10];
        for number in 0..40 {
            roll.describe(&format!("long{number}"), &long).unwrap();
            roll.forget(&format!("long{number}")).unwrap();
        }
        drop(roll);
        let (roll, listed) = Roll::open(&path).unwrap();
        assert_eq!(listed.len(), 2);
        roll.describe("p5", b"five").unwrap();
        drop(roll);
        std::fs::remove_dir(dir.path().join("roll.new")).unwrap();
        let (roll, listed) = Roll::open(&path).unwrap();
        assert_eq!(listed.len(), 3);
        assert!(roll.size() < DEAD_MAX, "now there was room: {}", roll.size());
    }

    #[test]
    fn a_newer_roll_is_refused_by_name_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roll");
        std::fs::write(&path, encode(HEAD, VERSION + 1, [MAGIC, 0, 0], 0)).unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(Roll::open(&path), Err(OpenError::Version { found: 2, ours: 1 })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
