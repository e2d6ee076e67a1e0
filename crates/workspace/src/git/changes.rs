//! What happened in a work tree since some moment: the commits, and everything that it holds now and did not hold then, as a
//! difference to read. Where a work tree stood at that moment is what git itself wrote down about it (the reflog); where that
//! does not reach back, only what is not committed is known, and said to be all that is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Git, RunError};

/// The empty tree: what a repository without a commit is compared with.
const NOTHING: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// New files that are shown whole; of the rest, nobody reads more than the name.
const NEW_FILES: usize = 50;
/// Commits that are listed; nobody reads more of them in one go.
const COMMITS: usize = 200;
/// How far the reflog is read back: an agent that moved HEAD more often than that is not followed.
const MOVES: &str = "2000";
/// No program that anybody named draws it, nothing runs in another repository, and no colours are in it.
const PLAIN: [&str; 5] = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=dirty"];
/// The same for lists of commits: no signature is checked, which would run a program.
const LIST: [&str; 4] = ["log", "--no-show-signature", "--no-color", "--no-decorate"];

/// What happened since some moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// The commits since then, newest first: a short hash, who and what. `None`: where the work tree stood then is not known.
    pub commits: Option<Vec<Vec<u8>>>,
    /// There were more of them than anybody reads.
    pub more_commits: bool,
    /// Everything since then, or since the last commit where `commits` are not known; new files included, in git's own form,
    /// the paths from the directory on.
    pub diff: Vec<u8>,
}

/// Where the work tree stood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stood {
    At(String),
    /// There was no commit yet.
    Unborn,
    Unknown,
}

impl Git {
    /// What happened since that second of the Unix clock; `None` outside a repository.
    pub fn changes_since(&self, second: u64) -> Result<Option<Changes>, RunError> {
        if !self.is_repo() {
            return Ok(None);
        }
        let born = self.line(["rev-parse", "--verify", "--quiet", "HEAD"]).is_some();
        let last = if born { "HEAD" } else { NOTHING };
        let stood = if born { self.stood_at(second) } else { Stood::Unborn };
        let (since, range) = match &stood {
            Stood::At(commit) => (commit.as_str(), Some(format!("{commit}..HEAD"))),
            Stood::Unborn if born => (NOTHING, Some("HEAD".to_owned())),
            Stood::Unborn => (NOTHING, None),
            Stood::Unknown => (last, None),
        };
        let mut commits = range.map_or(Ok(Vec::new()), |range| self.commits(&range))?;
        let more_commits = commits.len() > COMMITS;
        commits.truncate(COMMITS);
        let commits = (stood != Stood::Unknown).then_some(commits);
        Ok(Some(Changes { commits, more_commits, diff: self.diff(since)? }))
    }

    /// The newest place of HEAD that is not younger than that. What has another history than HEAD has now (another branch, a
    /// rebase) is not a place that anything can be counted from.
    pub(super) fn stood_at(&self, second: u64) -> Stood {
        let reflog = ["--walk-reflogs", "--date=unix", "-n", MOVES, "--format=%gd%x09%H%x09%gs", "HEAD", "--"];
        let Ok(ran) = self.query(LIST.into_iter().chain(reflog)) else { return Stood::Unknown };
        let text = String::from_utf8_lossy(&ran.output);
        let moves = || text.lines().filter_map(Move::read);
        let stood = match (moves().find(|moved| moved.second <= second), moves().next_back()) {
            (Some(then), _) => then.commit,
            // Nothing was here before: a clone, or a work tree that was only just made.
            (None, Some(first)) if first.is_a_beginning() => first.commit,
            (None, Some(first)) if first.why.starts_with("commit (initial)") => return Stood::Unborn,
            _ => return Stood::Unknown,
        };
        match self.query(["merge-base", "--is-ancestor", &stood, "HEAD"]) {
            Ok(ran) if ran.success => Stood::At(stood),
            _ => Stood::Unknown,
        }
    }

    fn commits(&self, range: &str) -> Result<Vec<Vec<u8>>, RunError> {
        let count = (COMMITS + 1).to_string();
        let args = LIST.into_iter().chain(["--format=%h %an: %s", "-n", &count, range, "--", "."]);
        let listed = self.query(args)?.into_success("log")?;
        Ok(listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn diff(&self, since: &str) -> Result<Vec<u8>, RunError> {
        let args = ["diff"].into_iter().chain(PLAIN).chain(["--relative", since]);
        let mut whole = self.query(args)?.into_success("diff")?;
        let listed = self.query(["ls-files", "--others", "--exclude-standard", "-z"])?.into_success("ls-files")?;
        let mut new = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        for name in new.by_ref().take(NEW_FILES) {
            let args = ["diff", "--no-index"].into_iter().chain(PLAIN).chain(["--", "/dev/null"]);
            // A file can be called `-`, which means another thing.
            let path = if name == b"-" { b"./-".as_slice() } else { name };
            // Two files that differ are no success for git.
            let ran = self.query(args.map(OsStr::new).chain([OsStr::from_bytes(path)]))?;
            whole.extend_from_slice(&ran.output);
        }
        for name in new {
            whole.extend_from_slice(b"new file ");
            whole.extend_from_slice(name);
            whole.push(b'\n');
        }
        Ok(whole)
    }
}

/// One line of the reflog: when HEAD came to which commit, and why.
struct Move {
    second: u64,
    commit: String,
    why: String,
}

impl Move {
    fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, '\t');
        let second = parts.next()?.strip_prefix("HEAD@{")?.strip_suffix('}')?.parse().ok()?;
        let commit = parts.next()?.to_owned();
        Some(Self { second, commit, why: parts.next().unwrap_or_default().to_owned() })
    }

    /// What git writes down for a clone, and for a work tree that it adds.
    fn is_a_beginning(&self) -> bool {
        self.why.is_empty() || ["clone:", "reset: moving to HEAD"].iter().any(|why| self.why.starts_with(why))
    }
}
