//! What the state folder's disk can do: it holds every journal.

use std::fs::File;
use std::io::{self, IoSliceMut, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{StatFs, statfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::pipe::{SpliceFlags, splice};

use super::Check;
use crate::config::show_size;
use crate::output::DiskTrouble;
use crate::paths::{Paths, ensure_private_dir};

/// What a power loss may take by default; a disk slower than this breaks that promise.
const SYNC_PROMISE: Duration = Duration::from_millis(200);
const SYNC_TRIES: usize = 5;
/// What disks write at once.
const BLOCK: usize = 4096;
/// Each process takes about five files: with fewer inodes than this the next hundred are not sure to start.
const INODES_MIN: u64 = 500;

/// File systems by the number the kernel gives them.
const KNOWN: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
];

pub(super) fn checks(paths: &Paths, keep_free: Option<u64>) -> Vec<Check> {
    let dir = paths.state_dir();
    if let Err(error) = ensure_private_dir(dir) {
        return vec![Check::broken("state folder", format!("{error}; set OSTLER_STATE to a folder of yours"))];
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let checks = probe_with(dir, &probe, keep_free);
    // Made by us a moment ago.
    let _ = std::fs::remove_file(&probe);
    checks
}

fn probe_with(dir: &Path, probe: &Path, keep_free: Option<u64>) -> Vec<Check> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(probe).and_then(with_room);
    // Whatever else is tried on a full disk fails as well, and says nothing of what the disk can do.
    let full = file.as_ref().err().and_then(|error| DiskTrouble::of(dir, error));
    let full = full.map(|trouble| Check::broken("space", format!("{}; {}", trouble.message, trouble.hint)));
    let is_full = full.is_some();
    let mut checks = match statfs(dir) {
        Ok(found) => {
            vec![file_system(dir, &found), full.unwrap_or_else(|| space(&found, keep_free)), inodes(&found)]
        }
        Err(error) => vec![Check::broken("file system", format!("{}: {error}", dir.display()))],
    };
    match file {
        Ok(mut file) => checks.extend([splices(&file), reads_without_waiting(&file), sync(&mut file)]),
        Err(_) if is_full => {}
        Err(error) => checks.push(Check::broken("state folder", format!("cannot write in {}: {error}", dir.display()))),
    }
    checks
}

/// The file, empty, on a disk that has room for what is tried with it.
fn with_room(mut file: File) -> io::Result<File> {
    file.write_all(&[0; BLOCK * (SYNC_TRIES + 1)])?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

fn file_system(dir: &Path, found: &StatFs) -> Check {
    // The kernel's type is signed on some machines; the number is what counts.
    let kind = found.f_type as u64 & 0xffff_ffff;
    let name = KNOWN.iter().find(|(number, _)| *number == kind).map_or("unknown", |(_, name)| *name);
    let at = format!("{} is on {name}", dir.display());
    match name {
        "tmpfs" => Check::weak("file system", format!("{at}: output is lost at a reboot")),
        "overlayfs" => {
            Check::weak("file system", format!("{at}: output is lost with the container; put OSTLER_STATE on a volume"))
        }
        "nfs" | "cifs" | "smb" | "9p" | "fuse" => Check::weak(
            "file system",
            format!("{at}: a slow server slows down output; put OSTLER_STATE on a local disk"),
        ),
        "unknown" => Check::weak("file system", format!("{at} ({kind:#x}): not tested with ostler")),
        _ => Check::good("file system", at),
    }
}

fn space(found: &StatFs, keep_free: Option<u64>) -> Check {
    let block = u64::try_from(found.f_bsize).unwrap_or(4096);
    let (free, all) = (found.f_bavail.saturating_mul(block), found.f_blocks.saturating_mul(block));
    let least = keep_free.unwrap_or_else(|| (all / 20).min(1 << 30));
    let text = format!("{} of {} free", show_size(free), show_size(all));
    if free < least {
        Check::weak(
            "space",
            format!(
                "{text}, less than {} (journal.keep_free): the process that writes most is paused until there is room",
                show_size(least)
            ),
        )
    } else {
        Check::good("space", text)
    }
}

/// A disk with room for bytes and none for files is full as well. Some file systems make inodes as they go, and tell none.
fn inodes(found: &StatFs) -> Check {
    let (free, all) = (found.f_ffree, found.f_files);
    match (free, all) {
        (_, 0) => Check::good("inodes", "made as needed here"),
        (..INODES_MIN, _) => {
            Check::weak("inodes", format!("{free} of {all} free: delete files, or run `ostler prune`"))
        }
        _ => Check::good("inodes", format!("{free} of {all} free")),
    }
}

/// Output moves from pipe to journal inside the kernel, so that no moment exists in which only the daemon has it.
fn splices(file: &File) -> Check {
    let try_it = || -> Result<usize, Errno> {
        let (reader, writer) = rustix::pipe::pipe()?;
        rustix::io::write(&writer, b"probe")?;
        let mut at = 0;
        splice(&reader, None, file, Some(&mut at), 5, SpliceFlags::NONBLOCK)
    };
    match try_it() {
        Ok(5) => Check::good("output", "works: nothing is lost when ostler is killed"),
        Ok(count) => {
            Check::broken("output", format!("moved {count} of 5 bytes: output may be lost when ostler is killed"))
        }
        Err(error) => {
            Check::broken("output", format!("{error}: output may be lost when ostler is killed; use another disk"))
        }
    }
}

fn reads_without_waiting(file: &File) -> Check {
    let mut buffer = [0; 5];
    match preadv2(file, &mut [IoSliceMut::new(&mut buffer)], 0, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => Check::good("reading", "works"),
        Err(error) => Check::weak("reading", format!("{error}: reading old output may delay others for a moment")),
    }
}

fn sync(file: &mut File) -> Check {
    let mut once = || -> io::Result<Duration> {
        file.write_all(&[0; BLOCK])?;
        let began = Instant::now();
        file.sync_data()?;
        Ok(began.elapsed())
    };
    let mut times = Vec::new();
    for _ in 0..SYNC_TRIES {
        match once() {
            Ok(time) => times.push(time),
            Err(error) => return Check::broken("sync", format!("{error}: nothing survives a power loss")),
        }
    }
    times.sort();
    let median = times.get(SYNC_TRIES / 2).copied().unwrap_or_default();
    let text = format!("{:.1} ms", median.as_secs_f64() * 1000.0);
    if median > SYNC_PROMISE {
        Check::weak("sync", format!("{text}: a power loss may lose more than the last {} ms", SYNC_PROMISE.as_millis()))
    } else {
        Check::good("sync", format!("{text}: a power loss loses at most the last moments (journal.sync_every)"))
    }
}
