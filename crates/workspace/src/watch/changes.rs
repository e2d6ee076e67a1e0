//! What became of files since somebody was told last: however often one was written, made or moved, it is one change, and what
//! came and went is none. Bounded: beyond, all that is known is that one must look again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::index::{Flag, Known};

/// What is told file by file at once; whoever is told of more looks faster for themselves.
pub const CHANGES_MAX: usize = 1000;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// It is new.
    Created,
    /// Its content, or what it is, is another one.
    Modified,
    /// It is gone.
    Deleted,
    /// It was there under this name. A folder that was renamed is one change, with all that is in it.
    Renamed(PathBuf),
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// From the root on.
    pub path: PathBuf,
    /// What became of it.
    pub became: Became,
    /// How large it is now; nothing for what is gone, and for folders.
    pub size: Option<u64>,
    /// Git has it, as far as git was asked.
    pub tracked: bool,
}

/// Changes that nobody was told of yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by_path: BTreeMap<PathBuf, (Became, Option<u64>, bool)>,
    /// There were more than are kept.
    too_many: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty() && !self.too_many
    }

    /// One by one nobody wants to know all of it.
    pub(super) fn overflow(&mut self) {
        self.by_path.clear();
        self.too_many = true;
    }

    pub(super) fn created(&mut self, path: &Path, new: Known) {
        let became = match self.by_path.get(path) {
            Some((Became::Deleted, ..)) => Became::Modified,
            Some((known, ..)) => known.clone(),
            None => Became::Created,
        };
        let tracked = self.by_path.get(path).is_some_and(|(_, _, tracked)| *tracked);
        self.put(path.to_owned(), became, Some(new.size), tracked);
    }

    pub(super) fn modified(&mut self, path: &Path, old: Known, new: Known) {
        let became = match self.by_path.get(path) {
            Some((known @ (Became::Created | Became::Renamed(_)), ..)) => known.clone(),
            _ => Became::Modified,
        };
        self.put(path.to_owned(), became, Some(new.size), old.has(Flag::Tracked));
    }

    pub(super) fn deleted(&mut self, path: &Path, old: Known) {
        let tracked = old.has(Flag::Tracked);
        match self.by_path.remove(path) {
            Some((Became::Created, ..)) => {}
            Some((Became::Renamed(from), _, was)) => self.put(from, Became::Deleted, None, was || tracked),
            _ => self.put(path.to_owned(), Became::Deleted, None, tracked),
        }
    }

    /// A folder has no size.
    pub(super) fn renamed(&mut self, from: &Path, to: &Path, old: Known, size: Option<u64>) {
        let became = match self.by_path.remove(from) {
            Some((Became::Created, ..)) => Became::Created,
            Some((Became::Renamed(first), ..)) if first == to => Became::Modified,
            Some((Became::Renamed(first), ..)) => Became::Renamed(first),
            _ => Became::Renamed(from.to_owned()),
        };
        self.put(to.to_owned(), became, size, old.has(Flag::Tracked));
    }

    fn put(&mut self, path: PathBuf, became: Became, size: Option<u64>, tracked: bool) {
        if self.too_many {
            return;
        }
        self.by_path.insert(path, (became, size, tracked));
        if self.by_path.len() > CHANGES_MAX {
            self.overflow();
        }
    }

    /// All of them, in the order of their paths; nothing where there were too many. From here on it counts anew.
    pub(super) fn take(&mut self) -> Option<Vec<FileChange>> {
        let Self { by_path, too_many } = std::mem::take(self);
        let change = |(path, (became, size, tracked))| FileChange { path, became, size, tracked };
        (!too_many).then(|| by_path.into_iter().map(change).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Known {
        let stat = crate::beneath::Stated { kind: crate::beneath::FileKind::File, size: 1, modified_ns: 0, mode: 0 };
        Known::of(Path::new("x"), &stat)
    }

    fn told(with: impl FnOnce(&mut Changes)) -> Vec<(String, Became)> {
        let mut changes = Changes::default();
        with(&mut changes);
        let taken = changes.take().unwrap();
        taken.into_iter().map(|change| (change.path.display().to_string(), change.became)).collect()
    }

    #[test]
    fn a_file_has_one_change_whatever_happened_to_it() {
        let [a, b, c] = ["a", "b", "c"].map(Path::new);
        let one = |path: &Path, became| vec![(path.display().to_string(), became)];
        assert_eq!(
            told(|all| {
                all.created(a, file());
                all.modified(a, file(), file())
            }),
            one(a, Became::Created)
        );
        assert_eq!(
            told(|all| {
                all.created(a, file());
                all.deleted(a, file())
            }),
            []
        );
        assert_eq!(
            told(|all| {
                all.deleted(a, file());
                all.created(a, file())
            }),
            one(a, Became::Modified)
        );
        assert_eq!(
            told(|all| {
                all.modified(a, file(), file());
                all.deleted(a, file())
            }),
            one(a, Became::Deleted)
        );
        assert_eq!(
            told(|all| {
                all.renamed(a, b, file(), None);
                all.renamed(b, c, file(), None)
            }),
            one(c, Became::Renamed(a.into()))
        );
        assert_eq!(
            told(|all| {
                all.renamed(a, b, file(), None);
                all.modified(b, file(), file())
            }),
            one(b, Became::Renamed(a.into()))
        );
        assert_eq!(
            told(|all| {
                all.renamed(a, b, file(), None);
                all.deleted(b, file())
            }),
            one(a, Became::Deleted)
        );
        assert_eq!(
            told(|all| {
                all.renamed(a, b, file(), None);
                all.renamed(b, a, file(), None)
            }),
            one(a, Became::Modified)
        );
        assert_eq!(
            told(|all| {
                all.created(a, file());
                all.renamed(a, b, file(), Some(1))
            }),
            one(b, Became::Created)
        );
    }

    #[test]
    fn more_than_anybody_reads_is_kept_as_one_word() {
        let mut changes = Changes::default();
        for number in 0..50_000 {
            changes.created(Path::new(&number.to_string()), file());
            assert!(changes.by_path.len() <= CHANGES_MAX);
        }
        assert!(!changes.is_empty() && changes.take().is_none() && changes.is_empty());
    }
}
