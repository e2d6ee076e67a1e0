//! What a directory's file system can do for journals; asked by people who wonder, never on the way of a byte.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Mode, OFlags, fstatfs};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// Which file system it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// A local disk file system, by name.
    Local(&'static str),
    /// In memory: gone with the machine.
    Memory,
    /// On another machine: a stalled server would stall the pump.
    Network(&'static str),
    /// Served by a program: a stalled program would stall the pump.
    Fuse,
    /// Unknown to us, by its magic number.
    Other(u64),
}

impl FsKind {
    /// The file system that an open file is on.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from_magic(magic(file)?))
    }

    /// Somebody other than this kernel can make it stall.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Network(_) | Self::Fuse)
    }

    fn from_magic(magic: u64) -> Self {
        match magic {
            0xef53 => Self::Local("ext4"),
            0x5846_5342 => Self::Local("xfs"),
            0x9123_683e => Self::Local("btrfs"),
            0x794c_7630 => Self::Local("overlayfs"),
            0xf2f5_2010 => Self::Local("f2fs"),
            0x2fc1_2fc1 => Self::Local("zfs"),
            0xca45_1a4e => Self::Local("bcachefs"),
            0x0102_1994 | 0x8584_58f6 => Self::Memory,
            0x6969 => Self::Network("nfs"),
            0xff53_4d42 | 0xfe53_4d42 | 0x517b => Self::Network("smb"),
            0x0102_1997 => Self::Network("9p"),
            0x00c3_6400 => Self::Network("ceph"),
            0x5346_414f => Self::Network("afs"),
            0x6573_5546 => Self::Fuse,
            other => Self::Other(other),
        }
    }
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// A pipe can be spliced into a file here; without it there can be no journal.
    pub splice_ok: bool,
    /// Reads can be asked not to wait for the disk.
    pub nowait_ok: bool,
    /// Space inside a file can be given back, so retention and input punching work.
    pub punch_ok: bool,
    /// Which file system it is.
    pub fs_kind: FsKind,
    /// Microseconds that a small fdatasync took.
    pub fdatasync_us: u64,
}

/// Tries it out with an unnamed file in `dir`; leaves nothing behind. May block on the disk.
pub fn probe(dir: &Path) -> io::Result<Probe> {
    let file = scratch(dir)?;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let page = [b'o'; 4096];
    rustix::io::write(&write, &page)?;
    let mut at = 0;
    let spliced = splice(&read, None, &file, Some(&mut at), page.len(), SpliceFlags::NONBLOCK);
    if spliced.is_err() {
        crate::sys::write_all_at(&file, &page, 0)?;
    }
    let start = Instant::now();
    file.sync_data()?;
    let fdatasync_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut back = [0; 4096];
    let nowait = preadv2(file.as_fd(), &mut [IoSliceMut::new(&mut back)], 0, ReadWriteFlags::NOWAIT);
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(Probe {
        splice_ok: spliced == Ok(page.len()),
        nowait_ok: nowait == Ok(page.len()) && back == page,
        punch_ok: rustix::fs::fallocate(&file, flags, 0, 4096).is_ok(),
        fs_kind: FsKind::of(&file)?,
        fdatasync_us,
    })
}

/// The kernel's number of a file system. Its type has 32 bits of meaning and a sign on some machines.
fn magic(file: &File) -> io::Result<u64> {
    Ok(fstatfs(file)?.f_type.cast_unsigned() & 0xffff_ffff)
}

fn scratch(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(file.into());
    }
    let path = dir.join(format!(".ostler-probe-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_tells_what_works_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let found = probe(dir.path()).unwrap();
        assert!(found.splice_ok, "{found:?}");
        assert!(!found.fs_kind.is_remote(), "{found:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn network_and_fuse_are_told_apart_from_disks() {
        assert!(FsKind::from_magic(0x6969).is_remote());
        assert!(FsKind::from_magic(0x6573_5546).is_remote());
        assert!(!FsKind::from_magic(0xef53).is_remote());
    }
}
