//! Changes that were put aside.

use super::{GitError, WorkTree};

/// What is asked about each.
const FORMAT: &str = "--format=%H%x00%ct%x00%gs";

/// Changes that were put aside; the newest has number 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StashEntry {
    /// Its number now: it changes when others are taken.
    pub number: u64,
    /// Its commit: names it for ever.
    pub commit: String,
    /// When, in seconds of the Unix clock.
    pub time: i64,
    /// What was said of it.
    pub message: String,
}

/// What to do with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StashTake {
    /// Put it back and forget it.
    Pop,
    /// Put it back and keep it.
    Apply,
    /// Forget it.
    Drop,
}

impl WorkTree {
    /// What was put aside, newest first.
    pub fn stashes(&self) -> Result<Vec<StashEntry>, GitError> {
        if self.asks(&["rev-parse", "--verify", "--quiet", "refs/stash"])?.is_none() {
            return Ok(Vec::new());
        }
        let args = ["log", "-z", "--walk-reflogs", "--no-show-signature", "--no-color", FORMAT, "refs/stash", "--"];
        let listed = self.look("log", &args)?;
        let fields: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entry = |(number, fields): (usize, &[&[u8]])| {
            let &[commit, time, message] = fields else { return None };
            let time = text(time).parse().ok()?;
            Some(StashEntry { number: number as u64, commit: text(commit), time, message: text(message) })
        };
        Ok(fields.chunks_exact(3).enumerate().filter_map(entry).collect())
    }

    /// Puts all changes aside; with `untracked` also files that git does not know.
    pub fn stash(&self, message: Option<&str>, untracked: bool) -> Result<(), GitError> {
        self.whole()?;
        let mut args = vec!["stash".to_owned(), "push".to_owned()];
        args.extend(untracked.then(|| "--include-untracked".to_owned()));
        args.extend(message.map(|message| format!("--message={message}")));
        self.act_on_all("stash", &args).map(drop)
    }

    /// Puts one back, or forgets it. Named by its commit: a number may mean another one by now.
    pub fn take_stash(&self, commit: &str, how: StashTake) -> Result<(), GitError> {
        self.whole()?;
        let found = self.stashes()?.into_iter().find(|entry| entry.commit == commit);
        let found = found.ok_or_else(|| GitError::Missing { what: "stash", name: commit.to_owned() })?;
        let name = format!("stash@{{{}}}", found.number);
        let verb = match how {
            StashTake::Pop => "pop",
            StashTake::Apply => "apply",
            StashTake::Drop => "drop",
        };
        self.act_on_all("stash", &["stash", verb, &name]).map(drop)
    }

    /// Refuses what is about the whole repository where only a part of it is ours.
    pub(super) fn whole(&self) -> Result<(), GitError> {
        match self.prefix.is_empty() {
            true => Ok(()),
            false => Err(GitError::Asked("this is about the whole repository, and the workspace is a part of it")),
        }
    }
}
