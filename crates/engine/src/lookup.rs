//! Where a bare command name leads: the daemon's PATH, never the caller's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Access, AtFlags, CWD};

/// No executable of that name in PATH.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotInPath(pub(crate) OsString);

/// The file to execute for `program`. A name with a slash is taken as it is (relative ones resolve in the child's
/// folder); relative PATH entries are passed over, so that nobody's current folder can plant a command.
pub(crate) fn executable(program: &OsStr, path: &OsStr) -> Result<PathBuf, NotInPath> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| {
            file.metadata().is_ok_and(|meta| meta.is_file())
                && rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
        })
        .ok_or_else(|| NotInPath(program.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_found_in_the_given_path_only() {
        assert_eq!(executable("sh".as_ref(), "/nowhere:/bin".as_ref()), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(executable("sh".as_ref(), "/nowhere".as_ref()), Err(NotInPath("sh".into())));
        assert_eq!(executable("./sh".as_ref(), "/bin".as_ref()), Ok(PathBuf::from("./sh")));
    }

    #[test]
    fn relative_folders_and_plain_files_never_match() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tool"), "x").unwrap();
        assert!(executable("tool".as_ref(), dir.path().as_os_str()).is_err());
        assert!(executable("sh".as_ref(), ".:../../../../bin".as_ref()).is_err());
    }
}
