//! The names of a workspace, for whoever may look into it: what a door answers from. Asking begins the index, and keeps it.

use std::path::Path;
use std::time::Duration;

use ostler_workspace::index::{FoundNames, Index, IndexStats, ListQuery, ListedFolder, NameQuery, Totals, TreeNode};
use ostler_workspace::search::{ContentQuery, FoundContent, PatternError};
use ostler_workspace::watch::WatchStatus;

use super::beneath::Root;
use super::watches::{WatchError, Watched};
use super::work::{GitError, WorkTree};
use crate::{Engine, MayWait};

/// How long the first walk is waited for: a million files on a cold disk. What is there by then is answered from.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(60);

/// The names of one workspace.
pub struct WorkspaceIndex<'a> {
    engine: &'a Engine,
    watched: Watched,
}

/// How an index stands.
#[derive(Debug, Clone)]
pub struct IndexStatus {
    /// How far it is, and how it is kept.
    pub watch: WatchStatus,
    /// How much is in it.
    pub totals: Totals,
}

impl Engine {
    /// The names beneath a folder; the first to ask has them read.
    pub fn index(&self, wait: &MayWait, root: Root) -> Result<WorkspaceIndex<'_>, WatchError> {
        Ok(WorkspaceIndex { engine: self, watched: self.watched(wait, root)? })
    }
}

impl WorkspaceIndex<'_> {
    /// The folder.
    pub fn root(&self) -> &Root {
        self.watched.watch.root()
    }

    /// How it stands, now; does not wait for the first walk.
    pub fn status(&self) -> IndexStatus {
        let totals = self.watched.watch.names(Duration::ZERO).totals();
        IndexStatus { watch: self.watched.watch.status(), totals }
    }

    /// Has everything looked at again; does not wait for it.
    pub fn rebuild(&self) {
        self.watched.watch.rebuild();
    }

    /// Files by name.
    pub fn search(&self, wait: &MayWait, query: &NameQuery) -> FoundNames {
        self.index(wait).search(self.root(), query)
    }

    /// A folder; nothing if there is none of that name.
    pub fn list(&self, wait: &MayWait, query: &ListQuery) -> Option<ListedFolder> {
        self.index(wait).list(query)
    }

    /// A folder as a tree; nothing if there is none of that name.
    pub fn tree(&self, wait: &MayWait, folder: &Path, depth: usize) -> Option<TreeNode> {
        self.index(wait).tree(folder, depth)
    }

    /// Figures about all of it, and how many names git ignores, a folder as one; nothing of that where there is no git.
    pub fn stats(&self, wait: &MayWait) -> (IndexStats, Option<u64>) {
        let stats = self.index(wait).stats(self.root());
        (stats, self.git(wait).ok().and_then(|tree| tree.ignored().ok()))
    }

    /// Lines of files that match. `gone` says when nobody waits for the answer any more.
    pub fn content(
        &self,
        wait: &MayWait,
        query: &ContentQuery,
        gone: &dyn Fn() -> bool,
    ) -> Result<FoundContent, PatternError> {
        ostler_workspace::search::search(self.root(), self.index(wait), query, gone)
    }

    /// The names as they are now, and which of them git has.
    fn index(&self, _wait: &MayWait) -> &Index {
        self.watched.watch.names(READY_WITHIN)
    }

    fn git(&self, wait: &MayWait) -> Result<WorkTree, GitError> {
        self.engine.work_tree(wait, Root::open(self.root().path())?)
    }
}
