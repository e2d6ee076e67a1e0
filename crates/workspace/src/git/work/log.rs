//! Commits, newest first, a page at a time.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::super::changes::Stood;
use super::path::checked;
use super::{GitError, WorkTree};

/// Commits of one page.
pub const LOG_MAX: usize = 500;
/// What is asked about each; they end with a NUL, which no part of a commit may hold.
const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%at%x00%ct%x00%s%x00%b";
const FIELDS: usize = 8;
/// Words of a commit that are given; a message is for reading.
const BODY_MAX: usize = 16 << 10;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its hash.
    pub commit: String,
    /// The commits before it.
    pub parents: Vec<String>,
    /// Who wrote it.
    pub author: String,
    /// Their address.
    pub email: String,
    /// When it was written, in seconds of the Unix clock.
    pub time: i64,
    /// When it became a commit.
    pub committed: i64,
    /// Its first line.
    pub subject: String,
    /// The rest of its message, up to a bound.
    pub body: String,
}

impl WorkTree {
    /// Commits that led to one, or to what is checked out; with a path only those that changed it. Nothing before the first.
    pub fn log(
        &self,
        from: Option<&OsStr>,
        path: Option<&Path>,
        skip: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, GitError> {
        let from = match from {
            Some(name) => self.commit(name)?,
            None => match self.commit(OsStr::new("HEAD")) {
                Err(GitError::Missing { .. }) => return Ok(Vec::new()),
                found => found?,
            },
        };
        self.commits(&from, path, skip, limit)
    }

    /// Where the work tree stood at a second of the Unix clock, as far back as git wrote that down and its history is still ours;
    /// `None` where that is not known. Before the first commit it stood at the tree without anything in it.
    pub fn stood_at(&self, second: u64) -> Result<Option<String>, GitError> {
        if self.asks(&["rev-parse", "--verify", "--quiet", "HEAD"])?.is_none() {
            return self.nothing().map(Some);
        }
        match self.looks.stood_at(second) {
            Stood::At(commit) => Ok(Some(commit)),
            Stood::Unborn => self.nothing().map(Some),
            Stood::Unknown => Ok(None),
        }
    }

    /// Commits that led to one and not to another, newest first.
    pub fn log_between(&self, old: &str, new: &str) -> Result<Vec<LogEntry>, GitError> {
        let range = match old == self.nothing()? {
            true => new.to_owned(),
            false => format!("{old}..{new}"),
        };
        self.commits(&range, None, 0, LOG_MAX)
    }

    /// How many commits led to what is checked out that no remote is known to have.
    pub fn unpushed(&self) -> Result<u64, GitError> {
        let said = self.asks(&["rev-list", "--count", "HEAD", "--not", "--remotes"])?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&said).trim().parse().unwrap_or(0))
    }

    fn commits(&self, range: &str, path: Option<&Path>, skip: u64, limit: usize) -> Result<Vec<LogEntry>, GitError> {
        let (skip, limit) = (format!("--skip={skip}"), format!("--max-count={}", limit.clamp(1, LOG_MAX)));
        let args = ["log", "-z", "--no-show-signature", "--no-color", "--encoding=UTF-8", FORMAT, &skip, &limit, range];
        let args: Vec<OsString> = args.iter().map(OsString::from).chain(["--".into()]).collect();
        let path = path.map(checked).transpose()?.map(|path| path.as_os_str().to_owned());
        let here = || self.here().iter().map(OsString::from);
        let paths: Vec<OsString> = path.map_or_else(|| here().collect(), |path| vec![path]);
        let listed = self.look("log", &args.into_iter().chain(paths).collect::<Vec<_>>())?;
        let fields: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
        Ok(fields.chunks_exact(FIELDS).filter_map(entry).collect())
    }
}

fn entry(fields: &[&[u8]]) -> Option<LogEntry> {
    let &[commit, parents, author, email, time, committed, subject, body] = fields else { return None };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    let body = body.get(..BODY_MAX).unwrap_or(body);
    Some(LogEntry {
        commit: text(commit),
        parents: text(parents).split_whitespace().map(str::to_owned).collect(),
        author: text(author),
        email: text(email),
        time: number(time)?,
        committed: number(committed)?,
        subject: text(subject),
        body: text(body).trim_end().to_owned(),
    })
}
