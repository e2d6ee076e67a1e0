//! The branch that a folder is on, as git has written it down: no program is started for it, and nothing is waited for.

use std::path::{Path, PathBuf};

use crate::read_small;

/// A line with the name of a branch, or with the path of a work tree's folder.
const LINE_MAX: u64 = 8192;
/// Folders above that are looked into: deeper than anybody works.
const ABOVE_MAX: usize = 64;

/// The branch of the repository that `folder` is in; nothing outside of one, or where no branch is checked out.
pub fn branch(folder: &Path) -> Option<String> {
    let head = folder
        .ancestors()
        .take(ABOVE_MAX)
        .find_map(|above| read_small(&git_folder(above)?.join("HEAD"), LINE_MAX).ok())?;
    head.trim_end().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    // A work tree of its own has a file there, which says where the rest is.
    let text = read_small(&git, LINE_MAX).ok()?;
    Some(folder.join(text.trim_end().strip_prefix("gitdir: ")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_found_from_a_folder_within_and_in_a_work_tree_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("repo/.git/worktrees/w")).unwrap();
        fs::create_dir_all(at("repo/src/deep")).unwrap();
        fs::create_dir_all(at("tree")).unwrap();
        fs::write(at("repo/.git/HEAD"), "ref: refs/heads/topic/one\n").unwrap();
        fs::write(at("repo/.git/worktrees/w/HEAD"), "ref: refs/heads/two\n").unwrap();
        fs::write(at("tree/.git"), format!("gitdir: {}\n", at("repo/.git/worktrees/w").display())).unwrap();
        assert_eq!(branch(&at("repo/src/deep")).as_deref(), Some("topic/one"));
        assert_eq!(branch(&at("tree")).as_deref(), Some("two"));
        fs::write(at("repo/.git/HEAD"), "0123456789012345678901234567890123456789\n").unwrap();
        assert_eq!(branch(&at("repo")), None, "no branch is checked out");
    }
}
