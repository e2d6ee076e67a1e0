//! A mark: how much of a journal's files is known to be on the disk, and in which boot of the machine that was said.
//!
//! A killed daemon loses nothing that is in a file, so within one boot everything there is good. After a power loss it is
//! not: a file system may have kept the length of bytes whose content never reached the disk, and they read as zeros. Who
//! opens a journal in another boot therefore trusts the mark and cuts what is beyond it. The file has one record of 32
//! bytes, written in place: a sector has it or the one before.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

use super::ctl::{RECORD, decode, encode};
use crate::sys;

const MARK: u16 = 16;
const VERSION: u32 = 1;

/// Lengths of the two raw files; of an event journal: of its data and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) out: u64,
    pub(crate) err: u64,
}

/// What of a journal's files may be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// All of it: nobody but this boot has written here, or nobody ever synced.
    All,
    /// What an earlier boot has synced.
    Only(Mark),
}

impl Mark {
    /// Puts it on the disk.
    pub(crate) fn write(self, path: &Path) -> io::Result<()> {
        self.put(path, boot()).and_then(|file| file.sync_data())
    }

    /// What was cut to this mark now belongs to this boot. Not forced to disk: if that is lost, so is what comes after.
    pub(crate) fn renew(self, path: &Path) -> io::Result<()> {
        self.put(path, boot()).map(drop)
    }

    fn put(self, path: &Path, boot: u64) -> io::Result<std::fs::File> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        sys::write_all_at(&file, &encode(MARK, VERSION, [self.out, self.err, boot], 0), 0)?;
        Ok(file)
    }

    /// Nothing is promised about power loss any more, so nothing is cut after one.
    pub(crate) fn remove(path: &Path) {
        // Mostly there is none.
        let _ = std::fs::remove_file(path);
    }
}

/// What the mark at `path` says. One that makes no sense says nothing.
pub(crate) fn trust(path: &Path) -> Trust {
    // A test reboots by saying so.
    let rebooted = ostler_hooks::fault!("mark.boot").map(|number| u64::from(number.unsigned_abs()));
    trust_in(path, rebooted.unwrap_or_else(boot))
}

fn trust_in(path: &Path, boot: u64) -> Trust {
    let mut bytes = [0; RECORD];
    let read = OpenOptions::new().read(true).open(path).and_then(|file| file.read_exact_at(&mut bytes, 0));
    match read.ok().and_then(|()| decode(&bytes, 0)) {
        Some((MARK, VERSION, [out, err, of])) if of != boot && of != 0 && boot != 0 => Trust::Only(Mark { out, err }),
        _ => Trust::All,
    }
}

/// A number of this boot of the machine; 0 where the kernel does not tell.
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_in_another_boot_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        assert_eq!(trust(&path), Trust::All, "no mark");
        let mark = Mark { out: 7, err: 9 };
        mark.write(&path).unwrap();
        assert_eq!(trust(&path), Trust::All, "this boot");
        assert_eq!(trust_in(&path, 42), Trust::Only(mark));
        assert_eq!(trust_in(&path, 0), Trust::All, "a kernel that does not tell");
        std::fs::write(&path, [7; RECORD]).unwrap();
        assert_eq!(trust_in(&path, 42), Trust::All, "nonsense");
    }
}
