//! What is checked out, read from the repository's own files: for those who ask again and again. Nothing is run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Head;
use crate::files;

/// A commit by the short form of its name.
const SHORT: usize = 7;
/// Longer than any name of a branch; what is longer is no such file.
const FILE_MAX: u64 = 64 * 1024;

/// The branch or commit of the repository around a folder; `None` where there is none.
pub fn checked_out(dir: &Path) -> Option<Head> {
    let text = files::read(&git_dir(dir)?.join("HEAD"), FILE_MAX).ok()?;
    let text = text.trim_ascii_end();
    match text.strip_prefix(b"ref: ") {
        // Written for those who do not know how this repository keeps its branches.
        Some(b"refs/heads/.invalid") => None,
        Some(name) => {
            Some(Head::Branch(OsStr::from_bytes(name.strip_prefix(b"refs/heads/").unwrap_or(name)).to_owned()))
        }
        None => {
            let commit = text.get(..SHORT).filter(|commit| commit.iter().all(u8::is_ascii_hexdigit))?;
            Some(Head::Detached(OsString::from(OsStr::from_bytes(commit))))
        }
    }
}

/// The folder with the repository's files: `.git` here or above, or where that file says.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    dir.ancestors().find_map(|folder| {
        let git = folder.join(".git");
        if git.is_dir() {
            return Some(git);
        }
        let text = files::read(&git, FILE_MAX).ok()?;
        let place = text.trim_ascii_end().strip_prefix(b"gitdir: ")?;
        Some(folder.join(OsStr::from_bytes(place)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) {
        let config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
        let done = Command::new("git").current_dir(dir).args(config).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn a_branch_a_commit_and_a_work_tree_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir_all(repo.join("deep")).unwrap();
        assert_eq!(checked_out(&repo), None);
        git(&repo, &["init", "-q"]);
        assert_eq!(checked_out(&repo.join("deep")), Some(Head::Branch("main".into())));
        git(&repo, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&repo, &["worktree", "add", "-q", "-b", "side/branch", "../tree"]);
        assert_eq!(checked_out(&dir.path().join("tree")), Some(Head::Branch("side/branch".into())));
        git(&repo, &["checkout", "-q", "--detach"]);
        assert!(matches!(checked_out(&repo), Some(Head::Detached(commit)) if commit.len() == SHORT));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        let head = dir.path().join(".git/HEAD");
        assert!(Command::new("mkfifo").arg(&head).status().unwrap().success());
        assert_eq!(checked_out(dir.path()), None);
    }
}
