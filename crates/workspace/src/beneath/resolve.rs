//! One path, resolved beneath an open directory: by the kernel (`openat2`), or where that is missing or forbidden by a walk.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;

use super::walk;

/// A neighbour that renames folders makes the kernel give up and say so; after so many times we walk.
const AGAIN: usize = 16;

/// How paths of one root are resolved.
#[derive(Debug)]
pub(super) struct Resolver {
    /// The kernel is asked first.
    pub(super) kernel: Kernel,
    /// The mount that is not left.
    mount: Mount,
}

/// The kernel's own way, or what a kernel without it would say.
pub(super) type Kernel = fn(BorrowedFd<'_>, &Path, OFlags) -> Result<OwnedFd, Errno>;

fn kernel(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    openat2(root, path, flags, Mode::empty(), beneath)
}

/// A mount, by its number; by its device where the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mount {
    Id(u64),
    Device(u32, u32),
}

impl Mount {
    pub(super) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
        let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
        Ok(if told { Self::Id(stat.stx_mnt_id) } else { Self::Device(stat.stx_dev_major, stat.stx_dev_minor) })
    }
}

impl Resolver {
    pub(super) fn of(root: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self { kernel, mount: Mount::of(root)? })
    }

    /// What a path leads to beneath the root; the empty one is the root itself.
    pub(super) fn open(&self, root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = checked(path)?;
        for _ in 0..AGAIN {
            match (self.kernel)(root, path, flags) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // An old kernel, or a filter of system calls that does not know it. What is denied is denied to a walk too.
                Err(Errno::NOSYS | Errno::PERM) => break,
                other => return other,
            }
        }
        walk::open(root, path, flags, self.mount)
    }

    /// The directory of a path to be written, walked down to: its real names are known then.
    pub(super) fn walk<'a>(&self, root: BorrowedFd<'a>, path: &Path) -> Result<walk::Walk<'a>, Errno> {
        walk::Walk::down(root, checked(path)?, self.mount)
    }
}

fn checked(path: &Path) -> Result<&Path, Errno> {
    let bytes = path.as_os_str().as_bytes();
    match bytes {
        [] => Ok(Path::new(".")),
        [b'/', ..] => Err(Errno::XDEV),
        _ if bytes.contains(&0) => Err(Errno::INVAL),
        _ => Ok(path),
    }
}
