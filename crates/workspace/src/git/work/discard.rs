//! Changes that are thrown away. They are copied first, and nothing is thrown away that could not be.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::kept::{self, Keeping, KeptChanges};
use super::path::{FROM_INPUT, checked, input};
use super::porcelain::Porcelain;
use super::{Git, GitError, WorkTree};

/// What to throw away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discard<'a> {
    /// Changed files, and files that git does not know; a folder stands for all in it.
    pub paths: &'a [PathBuf],
    /// Also what is staged of them: they are as in the last commit then.
    pub staged: bool,
    /// Where to keep them; nothing: they need not be kept.
    pub keep_in: Option<&'a Path>,
}

/// What was thrown away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// Each path.
    pub paths: Vec<PathBuf>,
    /// How to get it back.
    pub kept: Option<KeptChanges>,
}

/// What becomes of which path.
#[derive(Debug, Default)]
struct Plan {
    /// They are in the index or in the last commit, and come from there.
    restored: Vec<PathBuf>,
    /// Nothing knows them.
    removed: Vec<PathBuf>,
}

impl WorkTree {
    /// Throws changes away. A path without changes is passed over.
    pub fn discard(&self, discard: Discard<'_>) -> Result<Discarded, GitError> {
        let id = discard.keep_in.map(KeptChanges::new_id).transpose()?;
        self.discard_as(discard, id.as_deref().unwrap_or_default(), &self.acts)
    }

    /// The same by this git, kept under a name that was given before.
    pub(super) fn discard_as(&self, discard: Discard<'_>, id: &str, git: &Git) -> Result<Discarded, GitError> {
        let plan = self.plan(discard.paths, discard.staged)?;
        let all: Vec<PathBuf> = plan.restored.iter().chain(&plan.removed).cloned().collect();
        if all.is_empty() {
            return Ok(Discarded { paths: all, kept: None });
        }
        let kept = match discard.keep_in {
            None => None,
            Some(folder) => {
                let index = if discard.staged { self.index_lines(&plan.restored)? } else { Vec::new() };
                Some(kept::keep(&Keeping { folder, id, root: self.root(), paths: &all, index })?)
            }
        };
        if !plan.restored.is_empty() {
            let mut args = vec!["restore".to_owned(), "--worktree".to_owned()];
            if discard.staged {
                let source = match self.commit("HEAD".as_ref()) {
                    Err(GitError::Missing { .. }) => self.nothing()?,
                    found => found?,
                };
                args.extend(["--staged".to_owned(), format!("--source={source}")]);
            }
            args.extend(FROM_INPUT.map(str::to_owned));
            super::act(git, "restore", &args, input(&plan.restored)?)?;
        }
        for path in &plan.removed {
            self.root().remove(path)?;
        }
        Ok(Discarded { paths: all, kept })
    }

    fn plan(&self, paths: &[PathBuf], staged: bool) -> Result<Plan, GitError> {
        if paths.is_empty() {
            return Err(GitError::Asked("no paths were given"));
        }
        for path in paths {
            checked(path)?;
        }
        let args =
            ["status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"];
        let text = self.look("status", &args)?;
        let odd = || GitError::Failed { what: "status", said: "it printed what this program does not know".into() };
        let status = Porcelain::read(&text).ok_or_else(odd)?;
        let wanted = |path: &[u8]| {
            let path = self.beneath_root(path)?;
            // `.` is all of it, as git has it.
            paths.iter().any(|chosen| chosen == Path::new(".") || path.starts_with(chosen)).then_some(path)
        };
        let mut plan = Plan::default();
        for change in &status.conflicted {
            let Some(path) = wanted(&change.path) else { continue };
            if !staged {
                return Err(GitError::Asked("a file in conflict has no version to go back to but the last commit's"));
            }
            plan.restored.push(path);
        }
        for change in &status.changed {
            let Some(path) = wanted(&change.path) else { continue };
            if change.submodule {
                return Err(GitError::Asked("changes of a submodule are discarded in the submodule"));
            }
            // Only meant to be added: the index has nothing of it yet.
            let intended = (change.index, change.work) == (b'.', b'A');
            match () {
                () if intended => {
                    return Err(GitError::Asked("a file that is only meant to be added: unstage it first"));
                }
                () if staged || change.work != b'.' => plan.restored.push(path),
                () => {}
            }
        }
        let restored: HashSet<&PathBuf> = plan.restored.iter().collect();
        for path in &status.untracked {
            if path.ends_with(b"/") && wanted(path).is_some() {
                return Err(GitError::Asked("a repository of its own in the workspace is not discarded"));
            }
            // One that was taken out of the index and is there again is listed twice; the commit's comes back in its place.
            plan.removed.extend(wanted(path).filter(|path| !restored.contains(path)));
        }
        Ok(plan)
    }
}
