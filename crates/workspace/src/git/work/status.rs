//! What differs in a work tree, by its place: staged, not staged, not known, in conflict.

use std::collections::HashMap;
use std::path::PathBuf;

use super::porcelain::{Branch, Change, Porcelain};
use super::{GitError, WorkTree};

/// How paths that git does not know are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untracked {
    /// Not at all.
    No,
    /// A folder of them as one, as `git status` does.
    Folders,
    /// Each file.
    All,
}

/// What git is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A merge.
    Merge,
    /// A rebase, or a mailbox that is applied.
    Rebase,
    /// A cherry-pick.
    CherryPick,
    /// A revert.
    Revert,
    /// A bisection.
    Bisect,
}

/// Files by which git remembers what it is in the middle of.
const OPERATIONS: [(&str, Operation); 6] = [
    ("rebase-merge", Operation::Rebase),
    ("rebase-apply", Operation::Rebase),
    ("MERGE_HEAD", Operation::Merge),
    ("CHERRY_PICK_HEAD", Operation::CherryPick),
    ("REVERT_HEAD", Operation::Revert),
    ("BISECT_LOG", Operation::Bisect),
];

/// How a work tree stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What is checked out.
    pub branch: Branch,
    /// What git is in the middle of.
    pub operation: Option<Operation>,
    /// Its history is cut off.
    pub shallow: bool,
    /// Tracked paths that differ from the last commit, in the index or in the work tree.
    pub changed: Vec<Change<PathBuf>>,
    /// Paths in conflict.
    pub conflicted: Vec<Change<PathBuf>>,
    /// Paths that git does not know; a folder of them ends with a slash.
    pub untracked: Vec<PathBuf>,
    /// Filters that the repository's own configuration names: they were not run, so a file that they would change may look
    /// changed, or not.
    pub filters_left_out: Vec<String>,
}

/// Lines that were added and removed; nothing for what is no text.
pub type LineCounts = HashMap<PathBuf, Option<(u64, u64)>>;

impl WorkTree {
    /// How it stands now. Submodules count by their commit: nothing is run in them.
    pub fn status(&self, untracked: Untracked) -> Result<Status, GitError> {
        let untracked = match untracked {
            Untracked::No => "--untracked-files=no",
            Untracked::Folders => "--untracked-files=normal",
            Untracked::All => "--untracked-files=all",
        };
        let args = ["status", "--porcelain=v2", "-z", "--branch", "--ahead-behind", "--find-renames"];
        let more = ["--ignore-submodules=dirty", "--ignored=no", untracked, "--"];
        let args: Vec<&str> = args.into_iter().chain(more).chain(self.here().iter().copied()).collect();
        let text = self.look("status", &args)?;
        let odd = || GitError::Failed { what: "status", said: "it printed what this program does not know".into() };
        let Porcelain { branch, changed, conflicted, untracked } = Porcelain::read(&text).ok_or_else(odd)?;
        let within =
            |changes: Vec<Change<Vec<u8>>>| changes.into_iter().filter_map(|change| self.within(change)).collect();
        Ok(Status {
            branch,
            operation: self.operation(),
            shallow: self.common_dir.join("shallow").exists(),
            changed: within(changed),
            conflicted: within(conflicted),
            untracked: untracked.iter().filter_map(|path| self.beneath_root(path)).collect(),
            filters_left_out: self.left_out.filters.clone(),
        })
    }

    /// What git is in the middle of, by the files that it keeps.
    pub fn operation(&self) -> Option<Operation> {
        let is_there = |(name, _): &&(&str, Operation)| self.git_dir.join(name).symlink_metadata().is_ok();
        OPERATIONS.iter().find(is_there).map(|(_, operation)| *operation)
    }

    /// How many lines were added and removed, in the index or in the work tree.
    pub fn line_counts(&self, staged: bool) -> Result<LineCounts, GitError> {
        let mut args = vec!["diff", "--numstat", "-z", "--find-renames", "--relative", "--no-textconv"];
        args.extend(super::diff::PLAIN);
        args.extend(staged.then_some("--cached"));
        args.push("--");
        Ok(counts(&self.look("diff", &args)?))
    }

    fn within(&self, change: Change<Vec<u8>>) -> Option<Change<PathBuf>> {
        let Change { path, from, index, work, submodule } = change;
        let (path, from) = (self.beneath_root(&path)?, from.and_then(|from| self.beneath_root(&from)));
        Some(Change { path, from, index, work, submodule })
    }
}

/// `ADDED\tREMOVED\tPATH\0`, or for a rename `ADDED\tREMOVED\t\0OLD\0NEW\0`; dashes for what is no text.
pub(super) fn counts(text: &[u8]) -> LineCounts {
    let mut counts = LineCounts::new();
    let mut records = text.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
        let lines = (number(), number());
        let Some(path) = fields.next() else { continue };
        let path = if path.is_empty() { records.nth(1).unwrap_or_default() } else { path };
        let lines = if let (Some(added), Some(removed)) = lines { Some((added, removed)) } else { None };
        counts.insert(super::path_of(path), lines);
    }
    counts
}
