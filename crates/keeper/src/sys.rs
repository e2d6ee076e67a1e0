//! Every raw system call of this crate: what rustix does not wrap, and the child's side of a fork.
//! Nothing outside this module is unsafe.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A private, read-only mapping of a sealed file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes. The caller has checked that the file is sealed against
    /// shrinking and writing.
    pub(crate) fn new(file: impl AsFd, length: usize) -> Result<Mapping, Errno> {
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                file,
                0,
            )?
        };
        Ok(Mapping { start, length })
    }
}

impl std::ops::Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping covers `length` readable bytes until drop; the seals keep the file
        // from shrinking or changing underneath.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`, unmapped only here.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
