//! The kernel calls of this crate, in one place. No pointer is handled here: rustix wraps every call safely.
//!
//! A raw file must never be opened with O_APPEND (splice refuses it), and `in` must never be overwritten (its pages
//! are shared with the child's pipe).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{SpliceFlags, splice};

/// 4 KiB: the unit of page sharing and of hole punching. A larger page size only makes both coarser.
pub(crate) const PAGE: u64 = 4096;

/// Nanoseconds since the epoch.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

/// Moves up to `len` bytes from a pipe to `offset` of a file. When the caller is killed the bytes are in exactly one
/// of the two. `Ok(0)` = every writer has gone.
#[cfg(not(feature = "lossy-pump"))]
pub(crate) fn pipe_to_file(pipe: BorrowedFd<'_>, file: &File, offset: u64, len: usize) -> Result<usize, Errno> {
    if let Some(errno) = ostler_hooks::fault!("journal.splice") {
        return Err(Errno::from_raw_os_error(errno));
    }
    let mut at = offset;
    splice(pipe, None, file, Some(&mut at), len, SpliceFlags::NONBLOCK | SpliceFlags::MOVE)
}

/// The negative control: what a plain pump does, with its window in which a killed daemon loses bytes.
#[cfg(feature = "lossy-pump")]
pub(crate) fn pipe_to_file(pipe: BorrowedFd<'_>, file: &File, offset: u64, len: usize) -> Result<usize, Errno> {
    let mut bytes = vec![0; len];
    let n = rustix::io::read(pipe, &mut bytes)?;
    ostler_hooks::hook!("journal.lossy");
    bytes.truncate(n);
    write_all_at(file, &bytes, offset).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(n)
}

/// Moves up to `len` bytes from a file at the position of its description into a pipe; the kernel advances the
/// position in the same call.
pub(crate) fn file_to_pipe(file: BorrowedFd<'_>, pipe: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
    if let Some(errno) = ostler_hooks::fault!("stdin.splice") {
        return Err(Errno::from_raw_os_error(errno));
    }
    splice(file, None, pipe, None, len, SpliceFlags::NONBLOCK)
}

/// As [`file_to_pipe`] with a terminal at the end: `splice` wants a pipe on one side, `sendfile` brings its own and
/// also advances the position by exactly what was written.
pub(crate) fn file_to_terminal(file: BorrowedFd<'_>, master: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
    rustix::fs::sendfile(master, file, None, len)
}

/// Moves up to `len` bytes of a pipe or terminal into a relay pipe. EIO = the terminal has gone.
pub(crate) fn to_relay(from: BorrowedFd<'_>, relay: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
    splice(from, None, relay, None, len, SpliceFlags::NONBLOCK)
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Gives the space of whole pages inside `from..to` back; the length stays.
pub(crate) fn punch(file: &File, from: u64, to: u64) -> io::Result<()> {
    let start = from.next_multiple_of(PAGE);
    let end = to - to % PAGE;
    if end <= start {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, start, end - start) {
        // The space stays taken; what was cut is not read again either way.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other.map_err(Into::into),
    }
}

/// Where a file begins to hold bytes: what was punched out at its front is before that. 0 where nobody can tell.
pub(crate) fn first_data(file: &File) -> u64 {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0)
}

/// How a read may behave when the bytes are not in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Answer `Ok(false)` at once.
    Never,
    /// Wait for the disk.
    ForDisk,
}

/// Fills `bytes` from `offset`. `Ok(false)` = it would have to wait for the disk. A file that ends early is an error:
/// indexed bytes exist. `nowait` is cleared when the file system cannot promise not to wait (memory files cannot, and
/// do not); plain reads from then on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64, wait: Wait, nowait: &AtomicBool) -> io::Result<bool> {
    while wait == Wait::Never && nowait.load(Ordering::Relaxed) {
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT) {
            Ok(n) if n == bytes.len() => return Ok(true),
            // Partly in memory, or the file ends: the waiting read tells which.
            Ok(_) | Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => nowait.store(false, Ordering::Relaxed),
            Err(errno) => return Err(errno.into()),
        }
    }
    file.read_exact_at(bytes, offset).map(|()| true)
}
