//! From what was touched to what is so now: each touched name is looked at once, the index takes what is there, and what became
//! of it is kept until somebody is told. What a word of the kernel said is never believed, only where it said it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::fs::{AtFlags, OFlags, statat};

use super::changes::{CHANGES_MAX, Changes};
use super::git::{GitPlace, Means};
use super::inotify::{Half, Inotify, Watched, Word};
use super::pace::{Pace, Timing};
use crate::beneath::{BeneathError, FileKind, Root, Stated};
use crate::index::walk::{Gaps, Walk, Walked};
use crate::index::{ENTRIES_MAX, Index, Known, Layer, Names, Rules};

/// Touched names that are kept; beyond, everything is looked at again, and nobody is told one by one.
const TOUCHED_MAX: usize = CHANGES_MAX;
/// Moves that are told as such; beyond, one name is gone and another is new.
const MOVES_MAX: usize = 512;
/// What git keeps for itself.
const GIT: &str = ".git";

/// What is being worked on, by one at a time.
#[derive(Debug)]
pub(super) struct Work {
    /// The kernel's queue; nothing where it is polled.
    pub(super) inotify: Option<Arc<Inotify>>,
    pub(super) git: Option<GitPlace>,
    rules: Rules,
    layers: BTreeMap<PathBuf, Arc<Layer>>,
    pub(super) gaps: Gaps,
    touched: BTreeMap<PathBuf, BTreeSet<OsString>>,
    touched_names: usize,
    moves: Vec<(PathBuf, PathBuf)>,
    /// More was touched than is kept, or the kernel lost count.
    pub(super) lost: bool,
    /// Where git is must be asked again.
    pub(super) git_moved: bool,
    pub(super) changes: Changes,
    pub(super) files: Pace,
    pub(super) state: Pace,
    /// Grows with everything that may change what git says.
    pub(super) seen: u64,
    /// Grows whenever other rules may hold.
    pub(super) rules_seen: u64,
    /// What git has must be asked again.
    pub(super) tracked_stale: bool,
    /// Everything was looked at once.
    scanned: bool,
}

impl Work {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            inotify: None,
            git: None,
            rules: Rules::default(),
            layers: BTreeMap::new(),
            gaps: Gaps::default(),
            touched: BTreeMap::new(),
            touched_names: 0,
            moves: Vec::new(),
            lost: false,
            git_moved: false,
            changes: Changes::default(),
            files: Pace::new(timing),
            state: Pace::new(timing),
            seen: 0,
            rules_seen: 0,
            tracked_stale: true,
            scanned: false,
        }
    }

    /// Takes the kernel's words.
    pub(super) fn drain(&mut self) {
        let Some(inotify) = self.inotify.clone() else { return };
        let (now, mut halves) = (Instant::now(), HashMap::new());
        loop {
            let more = inotify.drain(|word| self.hear(&inotify, word, now, &mut halves));
            // Whoever is in a hurry takes the rest next time; what is lost needs no more words.
            if !more || !self.lost {
                break;
            }
        }
    }

    /// Whether something was touched and not looked at yet.
    pub(super) fn is_touched(&self) -> bool {
        !self.touched.is_empty() && !self.lost
    }

    fn hear(&mut self, inotify: &Inotify, word: Word, now: Instant, halves: &mut HashMap<u32, PathBuf>) {
        match word {
            Word::Lost => {
                self.lose();
                self.files.happened(now);
                self.state.happened(now);
            }
            // One that is gone was touched in its own folder too, and the root is looked at whenever anything happens.
            Word::Itself(Watched::Work(_)) => {}
            Word::Itself(Watched::Git(_)) => {
                self.git_moved = true;
                self.state.happened(now);
            }
            Word::Name { place: Watched::Git(folder), name, .. } => {
                let means = self.git.as_ref().map_or(Means::Nothing, |git| git.means(inotify, &folder, &name));
                if means == Means::Nothing {
                    return;
                }
                self.seen += 1;
                self.state.happened(now);
                self.tracked_stale |= means == Means::Index;
                if means == Means::Rules {
                    self.lose();
                    self.files.happened(now);
                }
            }
            Word::Name { place: Watched::Work(folder), name, moved } => {
                if folder.as_os_str().is_empty() && name == GIT {
                    self.git_moved = true;
                    self.state.happened(now);
                }
                let path = folder.join(&name);
                match moved {
                    Some((number, Half::From)) => drop(halves.insert(number, path)),
                    Some((number, Half::To)) => {
                        if let Some(from) = halves.remove(&number) {
                            self.moved(from, path);
                        }
                    }
                    None => {}
                }
                self.files.happened(now);
                self.touch(folder, name);
            }
        }
    }

    fn touch(&mut self, folder: PathBuf, name: OsString) {
        if !self.lost && self.touched.entry(folder).or_default().insert(name) {
            self.touched_names += 1;
            if self.touched_names > TOUCHED_MAX {
                self.lose();
            }
        }
    }

    /// Everything is looked at again, when it is quiet.
    pub(super) fn lose(&mut self) {
        self.forget_touched();
        self.lost = true;
        self.seen += 1;
        self.files.storm();
    }

    fn forget_touched(&mut self) {
        self.touched.clear();
        self.moves.clear();
        self.touched_names = 0;
    }

    /// A file that is moved twice was moved once, and further.
    fn moved(&mut self, from: PathBuf, to: PathBuf) {
        if let Some((_, last)) = self.moves.iter_mut().find(|(_, last)| *last == from) {
            *last = to;
        } else if self.moves.len() < MOVES_MAX {
            self.moves.push((from, to));
        }
    }

    /// Brings the index into line with what was touched. What was lost is left for [`Work::scan`].
    pub(super) fn apply(&mut self, root: &Root, index: &Index, stop: &AtomicBool) {
        if self.lost {
            return;
        }
        let (touched, moves) = (std::mem::take(&mut self.touched), std::mem::take(&mut self.moves));
        self.touched_names = 0;
        for (from, to) in moves {
            self.take_move(root, index, stop, &from, &to);
        }
        // In the order of paths: a folder before what is in it.
        for (folder, names) in touched {
            if names.iter().any(|name| crate::index::walk::changes_rules(name)) {
                self.rules_seen += 1;
                self.rescan(root, index, stop, &folder);
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            // One that is gone was touched in its own folder too.
            let Ok(open) = root.at(&folder, flags) else { continue };
            for name in names {
                let stat = statat(open.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW).ok();
                let linked = stat.is_some_and(|stat| stat.st_nlink > 1 && Stated::from(&stat).kind != FileKind::Folder);
                self.gaps.linked += u64::from(linked);
                self.look(root, index, stop, &folder.join(name), stat.map(|stat| Stated::from(&stat)));
            }
        }
    }

    /// One path: what the index knows of it, and what is there.
    fn look(&mut self, root: &Root, index: &Index, stop: &AtomicBool, path: &Path, stat: Option<Stated>) {
        if path.file_name().is_some_and(|name| name == GIT) {
            // What git keeps is not in the index; a repository in the repository changes without our seeing it.
            self.gaps.repositories += u64::from(stat.is_some() && path.parent() != Some(Path::new("")));
            return;
        }
        let known = index.read().get(path);
        match (known, stat) {
            (None, None) => {}
            (Some(known), None) => self.remove(index, path, known),
            (None, Some(stat)) => self.add(root, index, stop, path, &stat),
            (Some(known), Some(stat)) if known.is_folder() != (stat.kind == FileKind::Folder) => {
                self.remove(index, path, known);
                self.add(root, index, stop, path, &stat);
            }
            // It may be another folder of that name.
            (Some(known), Some(_)) if known.is_folder() => self.rescan(root, index, stop, path),
            (Some(known), Some(stat)) => {
                // Also where only its permissions are others, which git sees.
                self.seen += 1;
                let new = Known::of(path, &stat);
                if known.differs(new) {
                    index.write().insert(path, new);
                    self.changes.modified(path, known, new);
                }
            }
        }
    }

    fn add(&mut self, root: &Root, index: &Index, stop: &AtomicBool, path: &Path, stat: &Stated) {
        let is_folder = stat.kind == FileKind::Folder;
        let absolute = root.path().join(path);
        let layer = self.layer_around(path.parent().unwrap_or(Path::new("")));
        if self.rules.ignores(layer.as_deref(), &absolute, is_folder) {
            return;
        }
        self.seen += 1;
        if index.read().len() >= ENTRIES_MAX {
            self.gaps.cut = true;
            return;
        }
        let new = Known::of(path, stat);
        index.write().insert(path, new);
        if is_folder {
            self.rescan(root, index, stop, path);
        } else {
            self.changes.created(path, new);
        }
    }

    fn remove(&mut self, index: &Index, path: &Path, known: Known) {
        self.seen += 1;
        let mut names = index.write();
        names.remove(path);
        if !known.is_folder() {
            self.changes.deleted(path, known);
            return;
        }
        for (path, known) in names.remove_beneath(path) {
            if !known.is_folder() {
                self.changes.deleted(&path, known);
            }
        }
        self.left(path);
    }

    /// A folder is not there any more.
    fn left(&mut self, folder: &Path) {
        self.layers.retain(|path, _| !path.starts_with(folder));
        if let Some(inotify) = &self.inotify {
            inotify.remove(folder);
        }
    }

    /// A file or folder that is known, and was moved to where it is now. Anything else is for [`Work::look`].
    fn take_move(&mut self, root: &Root, index: &Index, stop: &AtomicBool, from: &Path, to: &Path) {
        let (Some(known), Ok(stat)) = (index.read().get(from), root.lstat(to)) else { return };
        let is_folder = stat.kind == FileKind::Folder;
        let layer = self.layer_around(to.parent().unwrap_or(Path::new("")));
        if known.is_folder() != is_folder || self.rules.ignores(layer.as_deref(), &root.path().join(to), is_folder) {
            return;
        }
        self.seen += 1;
        let mut names = index.write();
        names.remove(from);
        names.insert(to, Known::of(to, &stat));
        if !is_folder {
            self.changes.renamed(from, to, known, Some(stat.size));
            return;
        }
        // What is in it came along; what differs from what was known is told by the look at the new place.
        for (path, known) in names.remove_beneath(from) {
            if let Ok(below) = path.strip_prefix(from) {
                names.insert(&to.join(below), known.renamed(&to.join(below)));
            }
        }
        drop(names);
        self.left(from);
        self.changes.renamed(from, to, known, None);
        self.rescan(root, index, stop, to);
    }

    /// The rules that hold in a folder.
    fn layer_around(&self, folder: &Path) -> Option<Arc<Layer>> {
        let own = folder.ancestors().find_map(|folder| self.layers.get(folder));
        own.or(self.rules.around.as_ref()).cloned()
    }

    /// Walks a folder again, with new watches, and takes what differs.
    fn rescan(&mut self, root: &Root, index: &Index, stop: &AtomicBool, folder: &Path) {
        self.seen += 1;
        let around = folder.parent().and_then(|parent| self.layer_around(parent)).or_else(|| self.rules.around.clone());
        let walk = self.walk(root, stop, folder, around);
        let Ok(walked) = walk else { return };
        self.layers.retain(|path, _| !path.starts_with(folder));
        self.gaps.add(&walked.gaps);
        self.take(index, folder, walked);
    }

    fn walk(
        &self,
        root: &Root,
        stop: &AtomicBool,
        folder: &Path,
        around: Option<Arc<Layer>>,
    ) -> Result<Walked, BeneathError> {
        let enter: &dyn crate::index::walk::Enter = match &self.inotify {
            Some(inotify) => &**inotify,
            None => &(),
        };
        Walk { root, rules: &self.rules, enter, stop, most: ENTRIES_MAX }.beneath(folder, around)
    }

    /// Looks at everything, with rules as they are now. The first time nothing of it is a change.
    pub(super) fn scan(&mut self, root: &Root, index: &Index, stop: &AtomicBool) -> Result<(), BeneathError> {
        let git = self.git.as_ref().map(|git| (git.top.as_path(), git.common_dir.as_path()));
        self.rules = Rules::of(root.path(), git);
        self.forget_touched();
        self.lost = false;
        self.rules_seen += 1;
        self.layers.clear();
        let walked = self.walk(root, stop, Path::new(""), self.rules.around.clone())?;
        self.gaps = walked.gaps.clone();
        self.seen += 1;
        if !std::mem::replace(&mut self.scanned, true) {
            let Walked { paths, layers, .. } = walked;
            self.layers.extend(layers);
            *index.write() = paths.into_iter().collect::<Names>();
        } else {
            self.take(index, Path::new(""), walked);
        }
        Ok(())
    }

    /// Takes what a walk found beneath a folder, and what it did not find any more.
    fn take(&mut self, index: &Index, folder: &Path, walked: Walked) {
        self.layers.extend(walked.layers);
        let found: BTreeMap<Box<[u8]>, Known> = walked.paths.into_iter().collect();
        let mut names = index.write();
        let gone: Vec<(PathBuf, Known)> = names
            .beneath(folder)
            // What git has is kept although it is ignored.
            .filter(|(path, known)| !found.contains_key(*path) && !known.has(crate::index::Flag::Ignored))
            .map(|(path, known)| (PathBuf::from(OsStr::from_bytes(path)), known))
            .collect();
        for (path, known) in gone {
            names.remove(&path);
            if known.is_folder() {
                self.layers.remove(&path);
                if let Some(inotify) = &self.inotify {
                    inotify.remove(&path);
                }
            } else {
                self.changes.deleted(&path, known);
            }
        }
        for (path, new) in found {
            let path = Path::new(OsStr::from_bytes(&path));
            match names.get(path) {
                Some(old) if !old.differs(new) => {}
                Some(old) => {
                    names.insert(path, new);
                    if !new.is_folder() {
                        self.changes.modified(path, old, new);
                    }
                }
                None => {
                    names.insert(path, new);
                    if !new.is_folder() {
                        self.changes.created(path, new);
                    }
                }
            }
        }
    }
}
