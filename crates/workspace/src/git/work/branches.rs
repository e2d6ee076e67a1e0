//! Branches: which there are, made and deleted. Which one is checked out changes files, and is not done here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{GitError, WorkTree};

/// What is asked about each branch; each ends with a NUL, because the last may hold a line end.
const FORMAT: &str = "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(upstream)%00%(upstream:track,nobracket)%00\
                      %(committerdate:unix)%00%(worktreepath)%00";
const FIELDS: usize = 7;

/// A branch, here or of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchInfo {
    /// Without `refs/heads/` or `refs/remotes/`.
    pub name: OsString,
    /// It is a remote's.
    pub remote: bool,
    /// It is checked out here.
    pub current: bool,
    /// Its newest commit.
    pub commit: String,
    /// The branch that it follows, without `refs/remotes/`.
    pub upstream: Option<OsString>,
    /// Commits that the other does not have, and that only the other has; nothing where it follows none that there is.
    pub ahead_behind: Option<(u64, u64)>,
    /// When its newest commit was made, in seconds of the Unix clock.
    pub time: Option<i64>,
    /// The work tree that has it checked out.
    pub worktree: Option<PathBuf>,
}

impl WorkTree {
    /// Every branch, those of remotes behind ours.
    pub fn branches(&self) -> Result<Vec<BranchInfo>, GitError> {
        let listed = self.look("for-each-ref", &["for-each-ref", FORMAT, "refs/heads/", "refs/remotes/"])?;
        let mut rest = listed.as_slice();
        let mut branches = Vec::new();
        while let Some((fields, behind)) = record(rest) {
            branches.extend(branch(&fields));
            rest = behind;
        }
        Ok(branches)
    }

    /// Makes a branch at a commit, or at what is checked out; it is not checked out.
    pub fn create_branch(&self, name: &OsStr, start: Option<&OsStr>) -> Result<(), GitError> {
        self.free_branch(name)?;
        let start = self.commit(start.unwrap_or(OsStr::new("HEAD")))?;
        let args = ["branch", "--no-track", "--"].map(OsStr::new);
        let args: Vec<&OsStr> = args.into_iter().chain([name, OsStr::new(&start)]).collect();
        self.act("branch", &args, Vec::new()).map(drop)
    }

    /// Deletes a branch; one that holds commits of its own only with `force`.
    pub fn delete_branch(&self, name: &OsStr, force: bool) -> Result<(), GitError> {
        self.branch_ref(name)?;
        let args = ["branch", if force { "-D" } else { "-d" }, "--"].map(OsStr::new);
        let args: Vec<&OsStr> = args.into_iter().chain([name]).collect();
        self.act("branch", &args, Vec::new()).map(drop)
    }
}

/// The fields of the first record, and what is behind its line end.
fn record(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut rest = text;
    let mut fields = Vec::new();
    for _ in 0..FIELDS {
        let end = rest.iter().position(|byte| *byte == 0)?;
        fields.push(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
    }
    Some((fields, rest.strip_prefix(b"\n").unwrap_or(rest)))
}

fn branch(fields: &[&[u8]]) -> Option<BranchInfo> {
    let &[whole, commit, head, upstream, track, time, worktree] = fields else { return None };
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let (name, remote) = match (whole.strip_prefix(b"refs/heads/"), whole.strip_prefix(b"refs/remotes/")) {
        (Some(name), _) => (name, false),
        (None, Some(name)) if !name.ends_with(b"/HEAD") => (name, true),
        _ => return None,
    };
    let places: [&[u8]; 2] = [b"refs/remotes/", b"refs/heads/"];
    let follows = places.iter().find_map(|place| upstream.strip_prefix(*place));
    Some(BranchInfo {
        name: text(name),
        remote,
        current: head == b"*",
        commit: String::from_utf8_lossy(commit).into_owned(),
        upstream: follows.map(text),
        ahead_behind: follows.and_then(|_| tracked(track)),
        time: std::str::from_utf8(time).ok().and_then(|time| time.parse().ok()),
        worktree: (!worktree.is_empty()).then(|| super::path_of(worktree)),
    })
}

/// `ahead 1, behind 2`, one of both, or nothing; `gone` where there is no such branch any more.
fn tracked(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |word: &str| text.split(", ").find_map(|part| part.strip_prefix(word)?.parse().ok()).unwrap_or(0);
    (text != "gone").then(|| (number("ahead "), number("behind ")))
}
