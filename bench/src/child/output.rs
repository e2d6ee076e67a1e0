//! A coded stream on its way out of a child: counts what the kernel took, which is what "written" means here.

use anyhow::{Context as _, Result};
use rustix::fd::BorrowedFd;

use crate::code::Code;

/// The largest single write.
pub(crate) const MAX_WRITE: usize = 128 << 10;

pub(crate) struct Output {
    fd: BorrowedFd<'static>,
    code: Code,
    written: u64,
    buffer: Vec<u8>,
}

impl Output {
    pub(crate) fn new(fd: BorrowedFd<'static>, code: Code) -> Self {
        Self { fd, code, written: 0, buffer: vec![0; MAX_WRITE] }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes the next `length` bytes of the stream, each write as large as the kernel takes it.
    pub(crate) fn write(&mut self, length: usize) -> Result<()> {
        let block = self.buffer.get_mut(..length.min(MAX_WRITE)).unwrap_or_default();
        self.code.fill(self.written, block);
        let mut rest: &[u8] = block;
        while !rest.is_empty() {
            match rustix::io::write(self.fd, rest) {
                Ok(n) => {
                    self.written += n as u64;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("write"),
            }
        }
        Ok(())
    }
}
