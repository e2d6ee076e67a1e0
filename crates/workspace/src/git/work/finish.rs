//! The end of a work tree's work: what it holds, its branch taken in or proposed by a hosted process, and everything that is not
//! committed put aside.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::hosted::message_of;
use super::{Discard, GitError, HostedGit, Merge, Untracked, WorkTree};

/// Stages everything, then commits.
const COMMIT: &str = r#""$0" --no-pager add --all && exec "$0" "$@""#;
/// Takes a branch in; what cannot be is taken back at once, so that it is never half done. A merge that somebody else began is
/// theirs.
const MERGE: &str = r#"if "$0" rev-parse --quiet --verify MERGE_HEAD >/dev/null; then
    echo "a merge is under way here already" >&2
    exit 1
fi
"$0" "$@" && exit
code=$?
"$0" merge --abort >/dev/null 2>&1
echo "the merge was taken back; nothing has changed" >&2
exit $code"#;
/// Sends a branch and proposes it with GitHub's own program, once.
const GITHUB: &str = r#"set -e
"$0" --no-pager push --porcelain --set-upstream -- "$2" "refs/heads/$3:refs/heads/$3"
open=$("$1" pr list --head="$3" --state=open --limit=1 --json=url "--jq=.[].url")
if [ -n "$open" ]; then
    echo "$open"
    exit
fi
exec "$1" pr create --head="$3" --base="$4" --fill"#;
/// The same with GitLab's.
const GITLAB: &str = r#"set -e
"$0" --no-pager push --porcelain --set-upstream -- "$2" "refs/heads/$3:refs/heads/$3"
"$1" mr create --source-branch="$3" --target-branch="$4" --fill --yes || exec "$1" mr view -- "$3""#;

/// Whose program makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forge {
    /// `gh`.
    GitHub,
    /// `glab`.
    GitLab,
}

impl Forge {
    /// The user's own program for it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::GitHub => "gh",
            Self::GitLab => "glab",
        }
    }
}

/// A branch to be proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal<'a> {
    /// Whose program, and where it is.
    pub forge: Forge,
    /// The file that is executed.
    pub program: &'a Path,
    /// The branch.
    pub branch: &'a OsStr,
    /// The branch that is to take it in.
    pub into: &'a OsStr,
}

impl WorkTree {
    /// The branch that is checked out, without `refs/heads/`.
    pub fn branch(&self) -> Result<Option<OsString>, GitError> {
        match self.current() {
            Ok(whole) => Ok(Some(super::refs::short(&whole))),
            Err(GitError::Asked(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is checked out; nothing before the first commit.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        match self.commit(OsStr::new("HEAD")) {
            Err(GitError::Missing { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Whether `whole` has everything that led to `part`; both are hashes.
    pub fn holds(&self, whole: &str, part: &str) -> Result<bool, GitError> {
        Ok(self.asks(&["merge-base", "--is-ancestor", part, whole])?.is_some())
    }

    /// Commits that led to `part` and not to `whole`; both are hashes.
    pub fn beyond(&self, whole: &str, part: &str) -> Result<u64, GitError> {
        let said = self.look("rev-list", &["rev-list", "--count", part, &format!("^{whole}"), "--"])?;
        Ok(String::from_utf8_lossy(&said).trim().parse().unwrap_or(0))
    }

    /// Every path that is not as in the last commit, new ones too.
    pub fn uncommitted(&self) -> Result<Vec<PathBuf>, GitError> {
        let status = self.status(Untracked::All)?;
        let changed = status.changed.into_iter().chain(status.conflicted);
        let mut paths: Vec<PathBuf> = changed.flat_map(|change| [Some(change.path), change.from]).flatten().collect();
        paths.extend(status.untracked);
        Ok(paths)
    }

    /// Throws away everything that is not committed, once it is kept under this name; what cannot be kept stops it. The tree is
    /// about to go: nothing that the repository names runs for it.
    pub fn discard_all(&self, keep_in: &Path, id: &str) -> Result<(), GitError> {
        let paths = self.uncommitted()?;
        if paths.is_empty() {
            return Ok(());
        }
        self.discard_as(Discard { paths: &paths, staged: true, keep_in: Some(keep_in) }, id, &self.looks).map(drop)
    }

    /// What the remote has of a branch, as far as is known here.
    pub fn sent(&self, branch: &OsStr) -> Result<Option<String>, GitError> {
        let mut name = OsString::from("refs/remotes/");
        name.push(self.usual_remote()?);
        name.push("/");
        name.push(branch);
        match self.commit(&name) {
            Err(GitError::Missing { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The forge by the address of the remote that a branch would be sent to.
    pub fn forge(&self) -> Result<Forge, GitError> {
        let remote = self.usual_remote()?;
        let url = self.remotes()?.into_iter().find(|known| known.name == remote).map(|known| known.url);
        Ok(if url.unwrap_or_default().contains("gitlab") { Forge::GitLab } else { Forge::GitHub })
    }

    /// Stages and commits everything.
    pub fn commit_all_command(&self, message: &str) -> Result<HostedGit, GitError> {
        self.whole()?;
        let message = message_of(message)?;
        Ok(script(COMMIT, self.hosted(vec!["commit".into(), message])?))
    }

    /// Takes a branch in, or changes nothing.
    pub fn merge_whole_command(&self, branch: &OsStr) -> Result<HostedGit, GitError> {
        let command = self.merge_command(&Merge { name: branch, fast_forward: None, message: None })?;
        Ok(script(MERGE, command))
    }

    /// Sends a branch and asks for it to be taken in.
    pub fn propose_command(&self, proposal: &Proposal<'_>) -> Result<HostedGit, GitError> {
        self.branch_ref(proposal.branch)?;
        self.free_branch(proposal.into)?;
        let text = match proposal.forge {
            Forge::GitHub => GITHUB,
            Forge::GitLab => GITLAB,
        };
        let mut command = self.hosted(Vec::new())?;
        let words = [proposal.program.as_os_str(), &self.usual_remote()?, proposal.branch, proposal.into];
        command.args = words.map(OsStr::to_owned).to_vec();
        // Nobody is there to be asked.
        command
            .env
            .extend([("GH_PROMPT_DISABLED", "1"), ("NO_PROMPT", "1")].map(|(name, value)| (name.into(), value.into())));
        Ok(script(text, command))
    }
}

/// The command as the words of a shell script: the program is `$0`, and nothing of them is part of its text.
fn script(text: &str, command: HostedGit) -> HostedGit {
    let words = ["-c".into(), text.into(), command.program.into_os_string()];
    HostedGit { program: "/bin/sh".into(), args: words.into_iter().chain(command.args).collect(), ..command }
}
