//! How a work tree stands, without running git where nothing can have changed since it ran last: a watch has seen everything
//! since, and nothing outside of it that git reads is another one. Where any of that is not certain, git runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_story::FilePath;

use super::beneath::Root;
use super::watches::Watched;
use super::work::{GitError, Status, Untracked, WorkTree};
use crate::feed::GitStands;
use crate::{Engine, MayWait};

/// How a work tree stands.
#[derive(Debug)]
pub struct TreeStatus {
    /// The top of the whole work tree.
    pub top: PathBuf,
    /// What git says.
    pub status: Status,
}

/// Files that are named with where git stands: more than a screen shows.
const FILES_TOLD: usize = 500;
/// As much of a commit as people name it by.
const SHORT: usize = 7;

/// What git's environment is made of.
type Variables = Arc<Vec<(OsString, OsString)>>;

/// What tells one file from another under the same name: its number, size, and two times.
type Print = Option<(u64, u64, (i64, i64), (i64, i64))>;

/// What is remembered with a watch.
#[derive(Default)]
pub(crate) struct Known {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What git reads besides the watched folders, and for which index that holds.
    checked: Option<Arc<Checked>>,
    /// Somebody is finding that out.
    checking: bool,
    last: Vec<Remembered>,
}

/// What git says depends on nothing but what is watched and these files.
struct Checked {
    files: Vec<PathBuf>,
    index: PathBuf,
    prints: Vec<Print>,
    /// Rules of the work tree were these.
    rules: u64,
    environment: Variables,
}

struct Remembered {
    untracked: Untracked,
    seen: (u64, u64),
    checked: Arc<Checked>,
    status: Arc<TreeStatus>,
}

fn print(path: &Path) -> Print {
    let stat = path.metadata().ok()?;
    Some((stat.ino(), stat.size(), (stat.mtime(), stat.mtime_nsec()), (stat.ctime(), stat.ctime_nsec())))
}

impl Checked {
    fn prints(files: &[PathBuf], index: &Path) -> Vec<Print> {
        files.iter().map(PathBuf::as_path).chain([index]).map(print).collect()
    }

    fn holds(&self, environment: &Variables, rules: u64) -> bool {
        self.rules == rules && self.environment == *environment && self.prints == Self::prints(&self.files, &self.index)
    }
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where git stands, in the figures that the feed tells: who says it after a change and who watches say the same once.
pub fn stands(tree: &WorkTree) -> Result<GitStands, GitError> {
    let Status { branch, changed, conflicted, untracked, .. } = tree.status(Untracked::All)?;
    let (ahead, behind) = branch.ahead_behind.unwrap_or_default();
    let all = changed.iter().chain(&conflicted).map(|change| &change.path).chain(&untracked);
    let mut files: Vec<FilePath> = all.map(|path| path.as_path().into()).take(FILES_TOLD).collect();
    files.dedup();
    let name = branch.name.as_deref().map(|name| Path::new(OsStr::from_bytes(name)).into());
    let short = || branch.commit.as_deref().map(|commit| FilePath(commit.get(..SHORT).unwrap_or(commit).into()));
    Ok(GitStands {
        branch: name.or_else(short).unwrap_or_default(),
        commit: branch.commit.clone(),
        ahead,
        behind,
        staged: changed.iter().filter(|change| change.index != b'.').count() as u64,
        unstaged: changed.iter().filter(|change| change.work != b'.').count() as u64,
        untracked: untracked.len() as u64,
        conflicts: !conflicted.is_empty(),
        files,
    })
}

impl Engine {
    /// How the work tree around a folder stands. Only a watch that is there already is made use of.
    pub fn git_status(&self, wait: &MayWait, root: Root, untracked: Untracked) -> Result<Arc<TreeStatus>, GitError> {
        let watched = self.inner.watches.get(root.path());
        let environment = self.environment().snapshot();
        let before = watched.as_ref().and_then(|watched| watched.watch.unchanged());
        let mut checked = None;
        if let (Some(watched), Some(seen)) = (&watched, before) {
            let state = watched.known.state();
            let same = |known: &&Remembered| known.untracked == untracked && known.seen == seen;
            let holds = |known: &&Remembered| known.checked.holds(&environment, seen.1);
            if let Some(known) = state.last.iter().find(same).filter(holds) {
                return Ok(Arc::clone(&known.status));
            }
            checked = state.checked.clone().filter(|checked| checked.holds(&environment, seen.1));
        }
        let path = root.path().to_owned();
        let tree = self.work_tree(wait, root)?;
        let status = Arc::new(TreeStatus { top: tree.top().to_owned(), status: tree.status(untracked)? });
        if let (Some(watched), Some(seen)) = (watched, before) {
            match checked {
                // Nothing happened while git ran: what it said is of this moment.
                Some(checked) if watched.watch.unchanged() == before && checked.holds(&environment, seen.1) => {
                    let mut state = watched.known.state();
                    state.last.retain(|known| known.untracked != untracked);
                    state.last.push(Remembered { untracked, seen, checked, status: Arc::clone(&status) });
                }
                Some(_) => {}
                None => self.check(watched, path, environment, seen.1),
            }
        }
        Ok(status)
    }

    /// Finds out, beside everything else, what git reads besides the watched folders; the next answer may be remembered then.
    fn check(&self, watched: Watched, root: PathBuf, environment: Variables, rules: u64) {
        if std::mem::replace(&mut watched.known.state().checking, true) {
            return;
        }
        let engine = self.clone();
        let known = Arc::clone(&watched.known);
        let find = move |wait: &MayWait| {
            let found = engine.find_checked(wait, &root, environment, rules);
            let mut state = watched.known.state();
            state.checking = false;
            state.checked = found.map(Arc::new);
        };
        if MayWait::thread("git check", find).is_err() {
            known.state().checking = false;
        }
    }

    fn find_checked(&self, wait: &MayWait, root: &Path, environment: Variables, rules: u64) -> Option<Checked> {
        let tree = self.work_tree(wait, Root::open(root).ok()?).ok()?;
        let (files, index) = (tree.settings_files().ok()?, tree.place().git_dir.join("index"));
        let prints = Checked::prints(&files, &index);
        // What is ignored is not watched; what git has there changes unseen.
        let seen = !tree.has_ignored().ok()? && prints == Checked::prints(&files, &index);
        seen.then_some(Checked { files, index, prints, rules, environment })
    }
}
