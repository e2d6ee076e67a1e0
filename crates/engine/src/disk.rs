//! Trouble with the disk that everything is kept on, in words: which folder, and what a person can do about it. "No space left
//! on device" says neither.

use std::io;
use std::path::Path;

use ostler_journal::HeldReason;

use crate::Engine;

/// What is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTrouble {
    /// Names the folder.
    pub message: String,
    /// The next step.
    pub hint: String,
}

impl DiskTrouble {
    /// Why nothing could be kept in this folder, where the disk is the reason.
    pub fn of(dir: &Path, error: &io::Error) -> Option<Self> {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let disk = matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem);
        (disk || error.raw_os_error() == Some(EIO)).then(|| trouble(dir, error))
    }
}

impl Engine {
    /// Why something could not be written or read in the instance's folder.
    pub fn disk_trouble(&self, error: &io::Error) -> DiskTrouble {
        trouble(&self.inner.config.dir, error)
    }
}

/// Why the output of a process of this instance waits, and what ends that.
pub(crate) fn held_back(dir: &Path, reason: HeldReason) -> String {
    let dir = dir.display();
    let (why, look) = match reason {
        HeldReason::Full => (format!("the disk is full ({dir})"), format!("df -h {dir}")),
        HeldReason::Quota => (format!("your disk quota is used up ({dir})"), "quota".to_owned()),
        HeldReason::Disk => return format!("the disk reports errors ({dir}); see `dmesg` and `ostler doctor`"),
        HeldReason::Floor => (
            format!("less than journal.keep_free is free ({dir}), and this process writes most"),
            format!("df -h {dir}"),
        ),
    };
    format!("{why}; free some space (`{look}`, `ostler prune`), then it goes on")
}

/// Of the instance in this folder.
pub(crate) fn trouble(dir: &Path, error: &io::Error) -> DiskTrouble {
    let dir = dir.display();
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull => (
            format!("the disk is full ({dir})"),
            format!("free some space (`df -h {dir}`, `ostler prune`), then try again"),
        ),
        io::ErrorKind::QuotaExceeded => (
            format!("your disk quota is used up ({dir})"),
            "free some space (`quota`, `ostler prune`), then try again".to_owned(),
        ),
        io::ErrorKind::ReadOnlyFilesystem => (
            format!("the disk is read-only ({dir})"),
            "a disk that fails is often made read-only: see `dmesg` and `ostler doctor`".to_owned(),
        ),
        _ if error.raw_os_error() == Some(EIO) => {
            (format!("the disk reports errors ({dir})"), "see `dmesg` and `ostler doctor`".to_owned())
        }
        _ => (format!("{error} ({dir})"), "see `ostler doctor` and `ostler logs --daemon`".to_owned()),
    };
    DiskTrouble { message, hint }
}

/// An input or output error, which has no kind of its own.
const EIO: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: i32) -> DiskTrouble {
        trouble(Path::new("/state/main"), &io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn every_trouble_names_the_folder_and_a_next_step() {
        let [full, quota, read_only, files] = [28, 122, 30, 24];
        for (errno, words) in [(full, "is full"), (quota, "quota"), (read_only, "read-only"), (EIO, "reports errors")] {
            let told = of(errno);
            assert!(told.message.contains(words) && told.message.contains("/state/main"), "{told:?}");
            assert!(told.hint.contains('`') && !told.message.contains("os error"), "{told:?}");
        }
        let (dir, error) = (Path::new("/state"), io::Error::from_raw_os_error);
        assert!(DiskTrouble::of(dir, &error(full)).is_some() && DiskTrouble::of(dir, &error(files)).is_none());
        let other = of(files);
        assert!(other.message.contains("Too many open files") && other.message.contains("/state/main"), "{other:?}");
    }
}
