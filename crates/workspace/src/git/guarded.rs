//! Work trees of a repository that nobody vouches for. Its configuration, hooks and attributes may name programs; none of them
//! runs here. What the user's own configuration names (large-file filters and the like) still does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Git, RunError};

/// What a repository's own configuration may not decide: hooks, the file monitor, and whom git talks to.
const GUARDS: [(&str, &str); 3] =
    [("core.hooksPath", "/dev/null"), ("core.fsmonitor", "false"), ("protocol.allow", "never")];

/// What is said of a folder whose repository does not know it.
const GONE: &str = "it is no work tree any more";

/// What became of a work tree whose work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There was nothing in it that is not committed; it is gone.
    Removed {
        /// The branch that was checked out.
        branch: Option<OsString>,
        /// It held nothing of its own and is gone too.
        branch_removed: bool,
    },
    /// It is still there.
    Kept {
        /// The branch that is checked out.
        branch: Option<OsString>,
        /// Why: git's own words, or what was found.
        why: String,
    },
}

impl Git {
    /// The same git, which runs nothing that the repository's own configuration names.
    pub fn guarded(&self) -> Result<Git, RunError> {
        let mut settings: Vec<(OsString, OsString)> =
            GUARDS.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let bare = self.with_settings(&settings);
        // Filters that only this repository knows run programs for every file that is checked out or compared.
        let listed = bare.query(["config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\."])?;
        let mut words = listed.output.split(|byte| *byte == 0);
        while let (Some(scope), Some(name)) = (words.next(), words.next()) {
            let value = match name.rsplit(|byte| *byte == b'.').next() {
                Some(b"required") => "false",
                Some(b"smudge" | b"clean" | b"process") => "",
                _ => continue,
            };
            if matches!(scope, b"local" | b"worktree") {
                settings.push((OsStr::from_bytes(name).to_owned(), value.into()));
            }
        }
        Ok(self.with_settings(&settings))
    }

    /// Settings that are stronger than every file's, handed over in the environment, where programs that git starts find
    /// them too.
    fn with_settings(&self, settings: &[(OsString, OsString)]) -> Git {
        let mut git = self.clone();
        git.env.retain(|(name, _)| !name.as_bytes().starts_with(b"GIT_CONFIG"));
        git.env.push(("GIT_NO_LAZY_FETCH".into(), "1".into()));
        git.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (name, value)) in settings.iter().enumerate() {
            git.env.push((format!("GIT_CONFIG_KEY_{index}").into(), name.clone()));
            git.env.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.clone()));
        }
        git
    }

    /// Removes the work tree at `path` if everything in it is committed to a branch, and its branch if that holds nothing of
    /// its own and its name begins with `ours`. Asked about that work tree.
    pub fn leave_worktree(&self, path: &Path, ours: &str) -> Result<Left, RunError> {
        let branch = self
            .line(["symbolic-ref", "--quiet", "HEAD"])
            .and_then(|name| name.strip_prefix(b"refs/heads/").map(|name| OsString::from_vec(name.to_vec())));
        let Some(repository) = self.repository() else {
            return Ok(Left::Kept { branch, why: GONE.into() });
        };
        if let Some(why) = self.unsaved()? {
            return Ok(Left::Kept { branch, why: why.into() });
        }
        // Without force: git looks for changes and files that it does not know, and refuses.
        let args = ["worktree", "remove", "--"].map(OsStr::new);
        let ran = repository.change(args.into_iter().chain([path.as_os_str()]))?;
        if ran.success {
            let own = branch.as_deref().filter(|name| name.as_bytes().starts_with(ours.as_bytes()));
            // Without force here too: git deletes only what is merged.
            let branch_removed = own.is_some_and(|name| repository.delete_branch(name).unwrap_or(false));
            return Ok(Left::Removed { branch, branch_removed });
        }
        Ok(Left::Kept { branch, why: String::from_utf8_lossy(&ran.output).trim().to_owned() })
    }

    /// What would be lost with this work tree; `None` when all of it is on a branch. Asked about that work tree.
    pub fn unsaved(&self) -> Result<Option<&'static str>, RunError> {
        if self.repository().is_none() {
            return Ok(Some(GONE));
        }
        let changes = ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none"];
        if !self.query(changes)?.into_success("status")?.is_empty() {
            return Ok(Some("it holds changes that are not committed"));
        }
        if self.line(["symbolic-ref", "--quiet", "HEAD"]).is_some() {
            return Ok(None);
        }
        let stray = ["rev-list", "--max-count=1", "HEAD", "--not", "--branches", "--tags", "--remotes"];
        let stray = self.query(stray)?.into_success("rev-list")?;
        Ok((!stray.is_empty()).then_some("it holds commits that are on no branch"))
    }

    /// Removes the work tree at `path`, whatever is in it. False when git refused. Asked about that work tree.
    pub fn drop_worktree(&self, path: &Path) -> Result<bool, RunError> {
        self.repository().map_or(Ok(false), |repository| repository.remove_worktree(path.as_os_str()))
    }

    /// The repository itself: a work tree is not removed by who stands in it.
    fn repository(&self) -> Option<Git> {
        let common = self.line(["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Some(Git { dir: PathBuf::from(OsString::from_vec(common)), ..self.clone() })
    }

    fn delete_branch(&self, branch: &OsStr) -> Result<bool, RunError> {
        let args = ["branch", "-d", "--"].map(OsStr::new);
        Ok(self.change(args.into_iter().chain([branch]))?.success)
    }
}
