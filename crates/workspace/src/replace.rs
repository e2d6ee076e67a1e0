//! Replacing a file in one step: readers see the old one or the new one, never a part, and it is for its user alone from its
//! first byte.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a power loss may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Take the new file, or leave it empty: it can be made again.
    No,
    /// Leave the old one or the new one.
    Yes,
}

/// Writes `bytes` to `beside`, in the same folder, which then takes the place of `path`. Whoever may write at the same time as
/// another gives a name of its own. Nothing stays beside it when that fails.
pub fn replace(path: &Path, beside: &Path, bytes: &[u8], durable: Durable) -> io::Result<()> {
    let write = || {
        // Not what somebody else left there: it may be a link, or open to others.
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
        file.write_all(bytes)?;
        if durable == Durable::Yes {
            file.sync_all()?;
        }
        fs::rename(beside, path)
    };
    write().inspect_err(|_| {
        // Half a file helps nobody. Gone or not, the first error is the one to tell.
        let _ = fs::remove_file(beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_replaced_whole_and_private_and_nothing_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, beside, other) = (dir.path().join("note"), dir.path().join("note.new"), dir.path().join("other"));
        fs::write(&path, "old").unwrap();
        fs::write(&other, "mine").unwrap();
        symlink(&other, &beside).unwrap();
        replace(&path, &beside, b"new", Durable::Yes).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"mine".to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!beside.exists());
    }

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, beside) = (dir.path().join("folder"), dir.path().join("beside"));
        fs::create_dir_all(folder.join("inside")).unwrap();
        assert!(replace(&folder, &beside, b"new", Durable::No).is_err());
        assert!(folder.join("inside").is_dir() && !beside.exists());
    }
}
