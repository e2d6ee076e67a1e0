//! What became of a finished session's work tree: a note in the instance's folder, written before anything is removed. By it a
//! daemon that takes over goes on where another was killed, and what was thrown away is put back within a day.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ostler_workspace::git::{Git, NewWorktree, RunError, WorktreeError};
use ostler_workspace::{Durable, replace};
use serde::{Deserialize, Serialize};

use super::work::{GitError, KEEP_FOR};
use crate::{Engine, MayWait, Session};

/// Where an instance keeps such notes.
const FINISHED: &str = "finished";
/// The format; a newer one is not read.
const VERSION: u32 = 1;
/// A note has a few paths.
const NOTE_MAX: u64 = 64 << 10;

/// A work tree that is gone, or about to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedTree {
    version: u32,
    /// The repository's own folder.
    pub repository: PathBuf,
    /// Where the work tree was.
    pub tree: PathBuf,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// Its last commit.
    pub commit: Option<String>,
    /// The reference of ours that holds that commit, if it was thrown away.
    pub reference: Option<String>,
    /// It was thrown away with commits that the branch it would have gone to does not have.
    #[serde(default)]
    pub commits: bool,
    /// What was not committed, as `git.restore` names it.
    pub kept: Option<String>,
    /// When, in seconds since 1970.
    pub time: u64,
}

/// Why nothing was put back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing of it is kept.
    #[error("nothing of it is kept; what is discarded is kept for a day")]
    Nothing,
    /// It never had a work tree.
    #[error("it has no worktree of its own")]
    NoTree,
    /// It was not discarded.
    #[error("nothing of it is discarded; its worktree is there: {}", .0.display())]
    There(PathBuf),
    /// Something else has its place.
    #[error("{}", .0)]
    Taken(String),
    /// Git said no.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The note could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<RunError> for UndoError {
    fn from(error: RunError) -> Self {
        Self::Git(error.into())
    }
}

impl FinishedTree {
    pub(super) fn new(repository: &Path, tree: &Path, branch: Option<String>, commit: Option<String>) -> Self {
        let (repository, tree, time) = (repository.to_owned(), tree.to_owned(), seconds(SystemTime::now()));
        Self { version: VERSION, repository, tree, branch, commit, reference: None, commits: false, kept: None, time }
    }

    /// Until when it can be put back.
    pub fn until(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.time) + KEEP_FOR
    }

    fn read(path: &Path) -> io::Result<Self> {
        let meta = fs::symlink_metadata(path)?;
        let odd = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
        if !meta.is_file() || meta.len() > NOTE_MAX {
            return Err(odd("not a note of a work tree"));
        }
        let note: Self = serde_json::from_slice(&fs::read(path)?).map_err(|_| odd("not a note of a work tree"))?;
        if note.version == VERSION { Ok(note) } else { Err(odd("written by a newer ostler")) }
    }
}

impl Engine {
    fn finished_note(&self, session: &str) -> PathBuf {
        self.inner.config.dir.join(FINISHED).join(format!("{session}.json"))
    }

    /// Notes what is about to go; durable, because removing follows.
    pub(super) fn note_finished(&self, _wait: &MayWait, session: &str, tree: &FinishedTree) -> io::Result<()> {
        let path = self.finished_note(session);
        let folder = path.parent().unwrap_or(&path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        replace(&path, &path.with_extension("new"), &serde_json::to_vec(tree)?, Durable::Yes)?;
        fs::File::open(folder)?.sync_all()
    }

    /// It does not go after all.
    pub(super) fn unnote_finished(&self, _wait: &MayWait, session: &str) {
        let path = self.finished_note(session);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("{}: {error}", path.display());
        }
    }

    /// What was noted of a session's work tree.
    pub fn finished(&self, _wait: &MayWait, session: &str) -> io::Result<Option<FinishedTree>> {
        match FinishedTree::read(&self.finished_note(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Git in the repository itself: the work tree may be gone.
    pub(super) fn repository_git(&self, folder: &Path) -> Git {
        let environment = self.environment();
        Git::new(folder, &environment.path(), &environment.snapshot(), std::sync::Arc::new(self.forker()))
    }

    /// Puts back a work tree that was discarded: its branch, its commits, and what was not committed. Done again after a crash it
    /// goes on where it was.
    pub fn undo_discard(&self, wait: &MayWait, session: &Session) -> Result<FinishedTree, UndoError> {
        let nothing = || UndoError::Nothing;
        let noted = self.finished(wait, session.id())?.filter(|note| note.reference.is_some());
        let Some(note) = noted else {
            let path = session.view().worktree.ok_or(UndoError::NoTree)?;
            return Err(if path.exists() { UndoError::There(path) } else { UndoError::Nothing });
        };
        let git = self.repository_git(&note.repository);
        let commit = git.kept_commit(session.id()).ok_or_else(nothing)?;
        if !note.tree.exists() {
            self.add_tree(&git, &note, &commit)?;
        }
        if let Some(kept) = &note.kept {
            let tree = self.work_tree(wait, self.root(wait, &note.tree).map_err(GitError::from)?)?;
            let mine = |known: &super::work::KeptChanges| known.id == *kept;
            // Already put back if it is not there.
            if self.discarded(wait)?.iter().any(mine) {
                tree.restore_discarded(&self.discarded_folder(), kept)?;
            }
        }
        git.forget_commit(session.id())?;
        fs::remove_file(self.finished_note(session.id()))?;
        Ok(note)
    }

    fn add_tree(&self, git: &Git, note: &FinishedTree, commit: &str) -> Result<(), UndoError> {
        let Some(branch) = note.branch.as_deref() else {
            let how = format!("no branch was checked out; its commits: git worktree add --detach PATH {commit}");
            return Err(UndoError::Taken(how));
        };
        let new = NewWorktree { branch: branch.as_ref(), path: note.tree.as_os_str(), source: Some(commit.as_ref()) };
        // Where the branch is still there, or there again, it must be what it was.
        let removed = git.remove_branch(branch.as_ref(), commit)?;
        if !removed {
            let taken = format!("there is another branch {branch} by now; its commits: git branch NAME {commit}");
            return Err(UndoError::Taken(taken));
        }
        git.restore_worktree(&new).map_err(|error| match error {
            WorktreeError::Run(error) => error.into(),
            other => UndoError::Taken(other.to_string()),
        })
    }

    /// Lets go of what was kept for longer than a day.
    pub(crate) fn prune_finished(&self, _wait: &MayWait) -> io::Result<()> {
        let entries = match fs::read_dir(self.inner.config.dir.join(FINISHED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Ok(note) = FinishedTree::read(&path) else { continue };
            if note.until() > SystemTime::now() {
                continue;
            }
            if note.reference.is_some() && note.repository.exists() {
                let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                self.repository_git(&note.repository).forget_commit(&id).map_err(io::Error::other)?;
            }
            fs::remove_file(&path)?;
        }
        Ok(())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
