//! Where a session works: what a client may write, and the folder that it means.

use std::path::{Path, PathBuf};

use ostler_door_rpc::RpcError;

use crate::envelope::failed;

/// Where bare names live, below the home folder.
const PROJECTS: &str = "Projects";

/// The folder that was meant: `~` is the home folder, and what is neither absolute nor begins with `~` a project.
pub(crate) fn expand(given: &str, home: &Path) -> PathBuf {
    match given.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(below) => home.join(below.trim_start_matches('/')),
            // `~somebody` is nobody's folder here.
            None => PathBuf::from(given),
        },
        None if given.starts_with('/') => PathBuf::from(given),
        None => home.join(PROJECTS).join(given),
    }
}

/// The folder, which must be there. Looks at the disk.
pub(crate) fn folder(given: &str, home: &Path) -> Result<PathBuf, RpcError> {
    let path = expand(given, home);
    let shown = path.display();
    match path.metadata() {
        Ok(found) if found.is_dir() && path.is_absolute() => Ok(path),
        Ok(_) => Err(failed(format!("Path is not a directory: {shown} (resolved from: {given})"))),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(failed(format!("Path cannot be looked at: {shown} (resolved from: {given}): {error}")))
        }
        Err(_) => Err(failed(format!("Path does not exist on remote machine: {shown} (resolved from: {given})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_projects_and_a_tilde_is_home() {
        let home = Path::new("/h");
        for (given, meant) in [
            ("/abs/x", "/abs/x"),
            ("~", "/h"),
            ("~/x", "/h/x"),
            ("~//x", "/h/x"),
            ("x", "/h/Projects/x"),
            ("a/b", "/h/Projects/a/b"),
            ("./x", "/h/Projects/./x"),
            ("~user", "~user"),
        ] {
            assert_eq!(expand(given, home), Path::new(meant), "{given}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_named_as_meant_and_as_given() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let error = folder("nope", home).unwrap_err();
        let meant = home.join("Projects/nope");
        assert_eq!(
            error.message,
            format!("Path does not exist on remote machine: {} (resolved from: nope)", meant.display())
        );
        assert_eq!(error.code, -32000);
        assert!(!meant.exists());
    }

    #[test]
    fn a_plain_file_is_no_place_to_work_in() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("f"), "").unwrap();
        let error = folder("~/f", home.path()).unwrap_err();
        assert!(error.message.starts_with("Path is not a directory: "), "{error:?}");
        assert_eq!(folder("~", home.path()).unwrap(), home.path());
    }
}
