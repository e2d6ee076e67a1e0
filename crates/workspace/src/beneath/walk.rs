//! A walk of descriptors: one name at a time, each opened in a directory that is held, no link followed but by hand. `..` goes
//! back to the directory that we came from, never to where a folder may have been moved to meanwhile.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::resolve::Mount;

/// Links that one path may lead through, as the kernel allows.
const LINKS_MAX: usize = 40;
/// Names that a path may come to with its links: many times the longest path.
const NAMES_MAX: usize = 8192;
/// Directories that are held at once.
const DEPTH_MAX: usize = 512;

/// Where a walk is: the directories from the root down to here.
pub(super) struct Walk<'a> {
    root: BorrowedFd<'a>,
    below: Vec<(OsString, OwnedFd)>,
    mount: Mount,
}

/// Names still to be gone through, and the links that were followed.
struct Way {
    names: VecDeque<OsString>,
    links: usize,
}

impl Way {
    fn of(path: &Path) -> Self {
        Self { names: names(path.as_os_str().as_bytes()).collect(), links: 0 }
    }

    /// A link stands in the place of its name.
    fn follow(&mut self, target: &[u8]) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS_MAX || self.names.len() > NAMES_MAX {
            return Err(Errno::LOOP);
        }
        if target.first() == Some(&b'/') {
            return Err(Errno::XDEV);
        }
        for name in names(target).collect::<Vec<_>>().into_iter().rev() {
            self.names.push_front(name);
        }
        Ok(())
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = OsString> {
    // A slash at the end asks for a directory: a name of its own says that.
    let last = path.ends_with(b"/").then(|| OsString::from("."));
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.map(|part| OsStr::from_bytes(part).to_owned()).chain(last)
}

/// What a path leads to, opened with these flags.
pub(super) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags, mount: Mount) -> Result<OwnedFd, Errno> {
    let mut walk = Walk { root, below: Vec::new(), mount };
    let mut way = Way::of(path);
    while let Some(name) = way.names.pop_front() {
        let last = way.names.is_empty();
        match name.as_bytes() {
            b"." => {}
            b".." => walk.up()?,
            _ if !last => walk.enter(&name, &mut way)?,
            _ => {
                if let Some(file) = walk.last(&name, flags, &mut way)? {
                    return Ok(file);
                }
            }
        }
    }
    // The path ended with a directory.
    let file = openat(walk.here(), ".", flags, Mode::empty())?;
    Ok(file)
}

impl<'a> Walk<'a> {
    /// Down to the directory that a path leads to.
    pub(super) fn down(root: BorrowedFd<'a>, path: &Path, mount: Mount) -> Result<Self, Errno> {
        let mut walk = Self { root, below: Vec::new(), mount };
        let mut way = Way::of(path);
        while let Some(name) = way.names.pop_front() {
            match name.as_bytes() {
                b"." => {}
                b".." => walk.up()?,
                _ => walk.enter(&name, &mut way)?,
            }
        }
        Ok(walk)
    }

    /// The directory where it began.
    pub(super) fn top(&self) -> BorrowedFd<'_> {
        self.root
    }

    /// The directory where it is.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.below.last().map_or(self.root, |(_, dir)| dir.as_fd())
    }

    /// Every directory on the way with the one above it and its name there, the root first.
    pub(super) fn steps(&self) -> impl Iterator<Item = (BorrowedFd<'_>, &OsStr, BorrowedFd<'_>)> {
        let above = std::iter::once(self.root).chain(self.below.iter().map(|(_, dir)| dir.as_fd()));
        above.zip(&self.below).map(|(above, (name, dir))| (above, name.as_os_str(), dir.as_fd()))
    }

    fn up(&mut self) -> Result<(), Errno> {
        self.below.pop().map(drop).ok_or(Errno::XDEV)
    }

    /// Into a directory, or on with what a link says.
    fn enter(&mut self, name: &OsStr, way: &mut Way) -> Result<(), Errno> {
        let step = openat(self.here(), name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let kind = kind_of(step.as_fd())?;
        if kind == FileType::Symlink {
            return way.follow(&target_of(step.as_fd())?);
        }
        if kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        self.same_mount(step.as_fd())?;
        if self.below.len() >= DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        self.below.push((name.to_owned(), step));
        Ok(())
    }

    /// The last name: what it is, or nothing where it is a link and its target has become the rest of the way.
    fn last(&self, name: &OsStr, flags: OFlags, way: &mut Way) -> Result<Option<OwnedFd>, Errno> {
        let step = openat(self.here(), name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if kind_of(step.as_fd())? == FileType::Symlink && !flags.contains(OFlags::NOFOLLOW) {
            return way.follow(&target_of(step.as_fd())?).map(|()| None);
        }
        self.same_mount(step.as_fd())?;
        if flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY) {
            return Ok(Some(step));
        }
        // By its name once more: what was put there meanwhile is not followed if it is a link, and looked at if it is not.
        let file = match openat(self.here(), name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) if !flags.contains(OFlags::NOFOLLOW) => {
                let link = openat(self.here(), name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
                return way.follow(&target_of(link.as_fd())?).map(|()| None);
            }
            other => other?,
        };
        self.same_mount(file.as_fd())?;
        Ok(Some(file))
    }

    fn same_mount(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if Mount::of(file)? == self.mount { Ok(()) } else { Err(Errno::XDEV) }
    }
}

fn kind_of(file: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(statat(file, "", AtFlags::EMPTY_PATH)?.st_mode))
}

fn target_of(link: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let target = OsString::from_vec(readlinkat(link, "", Vec::new())?.into_bytes()).into_vec();
    if target.is_empty() { Err(Errno::NOENT) } else { Ok(target) }
}
