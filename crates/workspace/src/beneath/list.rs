//! The names in one folder, a page at a time. A page is found in one pass that holds no more than the page, however many names
//! there are; each name of the page is looked at, and nothing is followed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, OFlags, readlinkat, statat};
use rustix::io::Errno;

use super::resolve::Resolver;
use super::{BeneathError, FileKind, Root};

/// Names of one page.
pub const LIST_MAX: usize = 1000;
/// Names that are looked through for a page: a million takes about a second.
const NAMES_MAX: usize = 5_000_000;
/// As far as the names in a folder of the page are counted.
const COUNT_MAX: u64 = 1000;

/// What the system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stated {
    /// What it is.
    pub kind: FileKind,
    /// Bytes, as it states them.
    pub size: u64,
    /// When its content changed, in nanoseconds of the Unix clock.
    pub modified_ns: i128,
    /// Permission bits.
    pub mode: u32,
}

/// How many names are in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// So many.
    Exactly(u64),
    /// More than anybody counts for a list.
    MoreThan(u64),
    /// It cannot be looked into.
    Unreadable,
}

/// One name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name alone.
    pub name: OsString,
    /// What it is; `None` where it was gone before we looked.
    pub stat: Option<Stated>,
    /// Where a link leads, as it says.
    pub target: Option<OsString>,
    /// How many names a folder has, where that was asked for.
    pub count: Option<Count>,
}

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPage {
    /// In the order of their bytes.
    pub entries: Vec<Listed>,
    /// Names in the whole folder.
    pub total: u64,
    /// There are more behind the last of these.
    pub more: bool,
}

impl Root {
    /// The names behind `after`, at most `limit` of them; with `counts` also how many each folder has.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&OsStr>,
        limit: usize,
        counts: bool,
    ) -> Result<ListedPage, BeneathError> {
        let folder = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
        let (names, total) = page(folder.as_fd(), after, limit.clamp(1, LIST_MAX)).map_err(|error| match error {
            Errno::MFILE => BeneathError::TooMany { path: path.to_owned(), limit: NAMES_MAX },
            error => BeneathError::of(path, error),
        })?;
        let more = names.len() > limit.clamp(1, LIST_MAX);
        let entries = names.into_iter().take(limit.clamp(1, LIST_MAX));
        let counts = counts.then_some(&self.resolver);
        let entries = entries.map(|name| look(folder.as_fd(), name, counts)).collect();
        Ok(ListedPage { entries, total, more })
    }
}

impl Root {
    /// What a path itself is: a link as a link.
    pub(crate) fn lstat(&self, path: &Path) -> Result<Stated, BeneathError> {
        self.one(path)?.stat.ok_or_else(|| BeneathError::Missing(path.to_owned()))
    }

    /// Where a link leads, as it says; nothing for what is no link.
    pub(crate) fn link(&self, path: &Path) -> Result<Option<OsString>, BeneathError> {
        let listed = self.one(path)?;
        match listed.stat {
            None => Err(BeneathError::Missing(path.to_owned())),
            Some(_) => Ok(listed.target),
        }
    }

    fn one(&self, path: &Path) -> Result<Listed, BeneathError> {
        let name = path.file_name().ok_or_else(|| BeneathError::Folder(path.to_owned()))?.to_owned();
        let folder = self.at(path.parent().unwrap_or(Path::new("")), OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(look(folder.as_fd(), name, None))
    }
}

/// The first so many names behind one, and one more if there is one; and how many there are of all.
fn page(folder: BorrowedFd<'_>, after: Option<&OsStr>, limit: usize) -> Result<(BTreeSet<OsString>, u64), Errno> {
    let (mut smallest, mut total) = (BTreeSet::new(), 0_u64);
    each_name(folder, |name| {
        total += 1;
        if total > NAMES_MAX as u64 {
            return Err(Errno::MFILE);
        }
        let name = OsStr::from_bytes(name);
        let beyond = smallest.len() > limit && smallest.last().is_some_and(|last: &OsString| name >= last.as_os_str());
        if !beyond && after.is_none_or(|after| name > after) {
            smallest.insert(name.to_owned());
            if smallest.len() > limit + 1 {
                smallest.pop_last();
            }
        }
        Ok(true)
    })?;
    Ok((smallest, total))
}

/// Every name but `.` and `..`, for as long as more are wanted.
pub(super) fn each_name(
    folder: BorrowedFd<'_>,
    mut take: impl FnMut(&[u8]) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !take(name)? {
            break;
        }
    }
    Ok(())
}

/// One name; with a resolver also how many names a folder has.
pub(super) fn look(folder: BorrowedFd<'_>, name: OsString, counts: Option<&Resolver>) -> Listed {
    let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Stated::from(&stat));
    let is = |kind| stat.is_some_and(|stat| stat.kind == kind);
    let target = is(FileKind::Link).then(|| readlinkat(folder, &name, Vec::new()).ok()).flatten();
    let target = target.map(|target| OsStr::from_bytes(target.as_bytes()).to_owned());
    let count = counts.filter(|_| is(FileKind::Folder)).map(|resolver| count(resolver, folder, &name));
    Listed { name, stat, target, count }
}

/// Not behind a mount: what answers there may be anybody.
fn count(resolver: &Resolver, folder: BorrowedFd<'_>, name: &OsStr) -> Count {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut names = 0;
    let counted = resolver.open(folder, Path::new(name), flags).and_then(|inner| {
        each_name(inner.as_fd(), |_| {
            names += 1;
            Ok(names <= COUNT_MAX)
        })
    });
    match counted {
        Err(_) => Count::Unreadable,
        Ok(()) if names > COUNT_MAX => Count::MoreThan(COUNT_MAX),
        Ok(()) => Count::Exactly(names),
    }
}
