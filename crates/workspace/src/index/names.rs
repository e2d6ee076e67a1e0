//! Paths in the order of their bytes, each with what is known of it. What is in a folder is one range, because its paths begin
//! alike; a file costs its path and about ninety bytes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{IndexedFile, Totals, binary, fuzzy, sensitive};
use crate::beneath::{FileKind, Stated};

/// What a path costs besides its bytes and [`Known`]: its pointer, its share of a node and of the allocator's bookkeeping.
const PATH_COSTS: u64 = 48;

/// What may be said of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Folder = 1,
    Link = 2,
    Special = 4,
    Tracked = 8,
    Ignored = 16,
    Sensitive = 32,
    /// It is known whether it is binary.
    Sniffed = 64,
    Binary = 128,
}

/// What is known of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) size: u64,
    pub(crate) modified_ns: i64,
    /// Which letters its path has: a query with another one needs no look at the path.
    pub(crate) letters: u64,
    flags: u8,
}

impl Known {
    pub(crate) fn of(path: &Path, stat: &Stated) -> Self {
        let bytes = path.as_os_str().as_bytes();
        let modified_ns = i64::try_from(stat.modified_ns).unwrap_or(if stat.modified_ns < 0 { 0 } else { i64::MAX });
        let mut known = Self { size: stat.size, modified_ns, letters: fuzzy::letters(bytes), flags: 0 };
        match stat.kind {
            FileKind::File => {}
            FileKind::Folder => return Self::folder(),
            FileKind::Link => known.set(Flag::Link),
            FileKind::Special => known.set(Flag::Special),
        }
        let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
        if sensitive::is_sensitive(name) {
            known.set(Flag::Sensitive);
        }
        if let Some(is) = binary::by_name(name, stat.kind) {
            known.sniffed(is);
        }
        known
    }

    /// A folder: what is in it is told by what is in it.
    pub(crate) fn folder() -> Self {
        Self { size: 0, modified_ns: 0, letters: 0, flags: Flag::Folder as u8 }
    }

    /// The same file under another name.
    pub(crate) fn renamed(self, path: &Path) -> Self {
        let letters = if self.is_folder() { 0 } else { fuzzy::letters(path.as_os_str().as_bytes()) };
        Self { letters, ..self }
    }

    pub(crate) fn has(self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    pub(crate) fn set(&mut self, flag: Flag) {
        self.flags |= flag as u8;
    }

    pub(crate) fn unset(&mut self, flag: Flag) {
        self.flags &= !(flag as u8);
    }

    pub(crate) fn sniffed(&mut self, is_binary: bool) {
        self.set(Flag::Sniffed);
        if is_binary {
            self.set(Flag::Binary);
        }
    }

    pub(crate) fn is_folder(self) -> bool {
        self.has(Flag::Folder)
    }

    /// Whether the content may be another one.
    pub(crate) fn differs(self, new: Self) -> bool {
        const KIND: u8 = Flag::Folder as u8 | Flag::Link as u8 | Flag::Special as u8;
        let what = |known: Self| (known.size, known.modified_ns, known.flags & KIND);
        what(self) != what(new)
    }

    fn kind(self) -> FileKind {
        match () {
            () if self.has(Flag::Folder) => FileKind::Folder,
            () if self.has(Flag::Link) => FileKind::Link,
            () if self.has(Flag::Special) => FileKind::Special,
            () => FileKind::File,
        }
    }
}

/// The paths of a root.
#[derive(Debug, Default)]
pub(crate) struct Names {
    paths: BTreeMap<Box<[u8]>, Known>,
    totals: Totals,
}

impl FromIterator<(Box<[u8]>, Known)> for Names {
    fn from_iter<I: IntoIterator<Item = (Box<[u8]>, Known)>>(paths: I) -> Self {
        let mut names = Self { paths: paths.into_iter().collect(), totals: Totals::default() };
        for (path, known) in &names.paths {
            count(&mut names.totals, path, *known, u64::wrapping_add);
        }
        names
    }
}

fn count(totals: &mut Totals, path: &[u8], known: Known, add: fn(u64, u64) -> u64) {
    let costs = path.len() as u64 + PATH_COSTS + size_of::<Known>() as u64;
    totals.memory = add(totals.memory, costs);
    if known.is_folder() {
        totals.folders = add(totals.folders, 1);
    } else {
        totals.files = add(totals.files, 1);
        totals.bytes = add(totals.bytes, known.size);
    }
}

/// What a file looks like from outside.
pub(super) fn file(path: &[u8], known: Known, score: Option<u32>) -> IndexedFile {
    IndexedFile {
        path: PathBuf::from(OsStr::from_bytes(path)),
        kind: known.kind(),
        size: known.size,
        modified_ns: known.modified_ns,
        tracked: known.has(Flag::Tracked),
        ignored: known.has(Flag::Ignored),
        binary: known.has(Flag::Binary),
        sensitive: known.has(Flag::Sensitive),
        score,
    }
}

impl Names {
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn get(&self, path: &Path) -> Option<Known> {
        self.paths.get(path.as_os_str().as_bytes()).copied()
    }

    /// Every path with what is known of it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Known)> {
        self.paths.iter().map(|(path, known)| (&**path, *known))
    }

    /// What is beneath a folder, at any depth; everything for the empty path.
    pub(crate) fn beneath(&self, folder: &Path) -> impl Iterator<Item = (&[u8], Known)> {
        let (from, to) = range(folder.as_os_str().as_bytes());
        let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.paths.range::<[u8], _>((Bound::Included(from.as_slice()), to));
        range.map(|(path, known)| (&**path, *known))
    }

    /// What is behind a path, at any depth.
    pub(super) fn from(&self, path: &[u8]) -> impl Iterator<Item = (&[u8], Known)> {
        let range = self.paths.range::<[u8], _>((Bound::Included(path), Bound::Unbounded));
        range.map(|(path, known)| (&**path, *known))
    }

    /// Regular files in a folder, behind a path.
    pub(super) fn files_after(&self, after: Option<&Path>, folder: &Path) -> impl Iterator<Item = (&[u8], Known)> {
        let (from, to) = range(folder.as_os_str().as_bytes());
        let from = match after.map(|path| path.as_os_str().as_bytes()) {
            Some(after) if after >= from.as_slice() => Bound::Excluded(after.to_vec()),
            _ => Bound::Included(from),
        };
        let from = from.as_ref().map(Vec::as_slice);
        let range = self.paths.range::<[u8], _>((from, Bound::Unbounded));
        let within = move |path: &[u8]| to.as_deref().is_none_or(|to| path < to);
        let files = range.map(|(path, known)| (&**path, *known)).take_while(move |(path, _)| within(path));
        files.filter(|(_, known)| known.kind() == FileKind::File)
    }

    /// Puts a path in; gives back what was known of it. What git and the first bytes said stays while the content does.
    pub(crate) fn insert(&mut self, path: &Path, mut known: Known) -> Option<Known> {
        let path = path.as_os_str().as_bytes();
        match self.paths.entry(path.into()) {
            Entry::Vacant(vacant) => {
                count(&mut self.totals, path, known, u64::wrapping_add);
                vacant.insert(known);
                None
            }
            Entry::Occupied(mut occupied) => {
                let old = *occupied.get();
                for flag in [Flag::Tracked, Flag::Ignored] {
                    if old.has(flag) {
                        known.set(flag);
                    }
                }
                if old.has(Flag::Sniffed) && !old.differs(known) {
                    known.sniffed(old.has(Flag::Binary));
                }
                count(&mut self.totals, path, old, u64::wrapping_sub);
                count(&mut self.totals, path, known, u64::wrapping_add);
                occupied.insert(known);
                Some(old)
            }
        }
    }

    /// Takes one path out.
    pub(crate) fn remove(&mut self, path: &Path) -> Option<Known> {
        let path = path.as_os_str().as_bytes();
        let known = self.paths.remove(path)?;
        count(&mut self.totals, path, known, u64::wrapping_sub);
        Some(known)
    }

    /// Takes everything beneath a folder out, not the folder itself.
    pub(crate) fn remove_beneath(&mut self, folder: &Path) -> Vec<(PathBuf, Known)> {
        let gone: Vec<(PathBuf, Known)> =
            self.beneath(folder).map(|(path, known)| (PathBuf::from(OsStr::from_bytes(path)), known)).collect();
        for (path, _) in &gone {
            self.remove(path);
        }
        gone
    }

    /// Nothing has this flag any more.
    pub(super) fn clear(&mut self, flag: Flag) {
        self.paths.values_mut().for_each(|known| known.unset(flag));
    }

    /// Says it of a path; `false` if there is none.
    pub(super) fn flag(&mut self, path: &Path, flag: Flag) -> bool {
        let known = self.paths.get_mut(path.as_os_str().as_bytes());
        known.map(|known| known.set(flag)).is_some()
    }

    /// What was found in the first bytes of a file, unless it has changed meanwhile.
    pub(super) fn set_binary(&mut self, path: &Path, seen: Known, is_binary: bool) {
        if let Some(known) = self.paths.get_mut(path.as_os_str().as_bytes())
            && !known.differs(seen)
        {
            known.sniffed(is_binary);
        }
    }
}

/// From where to where what is beneath a folder lies: from `folder/` up to, not including, the first path that does not begin so.
fn range(folder: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    if folder.is_empty() {
        return (Vec::new(), None);
    }
    let from = [folder, b"/"].concat();
    // The byte after a slash.
    let to = [folder, b"0"].concat();
    (from, Some(to))
}
