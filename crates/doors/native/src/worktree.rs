//! A git work tree for a session: made when the session is, beneath the instance's folder, and removed when it is closed if
//! everything in it is committed. The repository is not trusted: nothing that it names runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ostler_api::{ErrorKind, RpcError, WorktreeFate};
use ostler_workspace::git::{Git, Left, NewWorktree, WorktreeError};

use crate::Shared;

/// Branches that we named.
const OURS: &str = "ostler/";
/// Characters of a name that tells two work trees apart.
const TOKEN: usize = 6;
/// Letters and digits that nobody confuses.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// A work tree that was made.
pub(crate) struct Made {
    /// Its top.
    pub(crate) path: PathBuf,
    /// The folder in it that stands for the one that was asked for.
    pub(crate) workspace: PathBuf,
}

/// Makes one, on a branch of its own.
pub(crate) fn make(shared: &Shared, folder: &Path, name: Option<&str>, branch: Option<&str>) -> Result<Made, RpcError> {
    let failed = |message: String| RpcError::new(ErrorKind::Failed, message);
    let git = guarded(shared, folder).map_err(failed)?;
    let no_repository = || {
        RpcError::new(ErrorKind::BadParams, format!("{} is in no git repository", folder.display()))
            .hint("a work tree needs one: leave --worktree out, or begin with `git init` and a commit")
    };
    let root = git.info().ok_or_else(no_repository)?.root;
    let token = token().map_err(failed)?;
    let slug = name.map(slug).filter(|slug| !slug.is_empty());
    let own = slug.map_or_else(|| token.clone(), |slug| format!("{slug}-{token}"));
    let branch = branch.map_or_else(|| format!("{OURS}{own}"), str::to_owned);
    let parent = PathBuf::from(shared.instance.identity().state_dir).join("worktrees");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&parent)
        .map_err(|error| failed(format!("{}: {error}", parent.display())))?;
    let base = root.file_name().map(slug_of).filter(|name| !name.is_empty());
    let path = parent.join(format!("{}-{own}", base.as_deref().unwrap_or("tree")));
    let new = NewWorktree { branch: OsStr::new(&branch), path: path.as_os_str(), source: None };
    git.create_worktree(&new).map_err(|error| match error {
        WorktreeError::NotARepo => no_repository(),
        other => RpcError::new(ErrorKind::Failed, format!("git worktree: {other}")),
    })?;
    let inside = folder.canonicalize().ok().and_then(|folder| folder.strip_prefix(&root).map(Path::to_owned).ok());
    let workspace = inside.map(|inside| path.join(inside)).filter(|folder| folder.is_dir());
    Ok(Made { workspace: workspace.unwrap_or_else(|| path.clone()), path })
}

/// Nobody has worked in it: gone, with its branch.
pub(crate) fn discard(shared: &Shared, path: &Path) {
    let left = guarded(shared, path).and_then(|git| git.leave_worktree(path, OURS).map_err(|error| error.to_string()));
    if !matches!(left, Ok(Left::Removed { .. })) {
        tracing::warn!("{}: work tree not removed: {left:?}", path.display());
    }
}

/// The session is closed: what becomes of its work tree. `None` when it is gone already.
pub(crate) fn leave(shared: &Shared, path: &Path, ended: bool) -> Option<WorktreeFate> {
    if !path.exists() {
        return None;
    }
    let shown = path.display().to_string();
    let kept = |branch: String, why: String| {
        let kept_because = Some(why);
        WorktreeFate { path: shown.clone(), branch, removed: false, kept_because, branch_removed: false }
    };
    if !ended {
        return Some(kept(String::new(), "the agent's process has not ended yet".to_owned()));
    }
    let text = |branch: Option<std::ffi::OsString>| branch.unwrap_or_default().to_string_lossy().into_owned();
    let left = guarded(shared, path).and_then(|git| git.leave_worktree(path, OURS).map_err(|error| error.to_string()));
    Some(match left {
        Ok(Left::Removed { branch, branch_removed }) => {
            WorktreeFate { path: shown, branch: text(branch), removed: true, kept_because: None, branch_removed }
        }
        Ok(Left::Kept { branch, why }) => kept(text(branch), why),
        Err(why) => kept(String::new(), why),
    })
}

fn guarded(shared: &Shared, folder: &Path) -> Result<Git, String> {
    let environment = shared.engine.environment();
    let git = Git::new(folder, &environment.path(), &environment.snapshot());
    git.guarded().map_err(|error| format!("git: {error}"))
}

/// What of a name fits a branch and a folder everywhere.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(40).collect()
}

fn slug_of(name: &OsStr) -> String {
    slug(&name.to_string_lossy())
}

fn token() -> Result<String, String> {
    let mut random = [0; TOKEN];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map_or('a', char::from);
    Ok(random.iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_a_branch_may_be_called() {
        for (name, want) in
            [("fix it", "fix-it"), ("../../etc", "etc"), ("-D", "D"), ("日本", ""), ("a@{b}.lock", "a-b-lock")]
        {
            assert_eq!(slug(name), want);
        }
        assert_eq!(token().unwrap().len(), TOKEN);
    }
}
