//! Which workspace a request is about: the one that it names, or the only one that is served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_engine::access::device::Right;
use ostler_engine::workspace::beneath::{BeneathError, Root};
use ostler_engine::workspace::work::{GitError, WorkTree};
use ostler_engine::workspace::{Busy, Turn};
use ostler_engine::{MayWait, Origin, OutOfReach, Session};
use sha2::{Digest, Sha256};

use crate::error::{Code, Error};
use crate::method::Call;

/// Hex digits of a workspace's id: enough that no two folders of a machine share one.
const ID_DIGITS: usize = 16;

/// What clients call the workspace at this folder; the same for ever.
pub(crate) fn id_of(folder: &Path) -> String {
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).take(ID_DIGITS / 2).collect();
    format!("ws_{hex}")
}

/// The folder of a workspace's name for people.
pub(crate) fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned())
}

impl Call {
    /// Every workspace that this door serves.
    pub(crate) fn workspaces(&self) -> Vec<PathBuf> {
        match &self.state.settings.repo {
            Some(repo) => vec![repo.clone()],
            None => self.state.engine.workspaces(),
        }
    }

    /// The workspace that a request names, by its id or its path.
    pub(crate) fn folder(&self, named: Option<&str>) -> Result<PathBuf, Error> {
        let mut all = self.workspaces();
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return match (all.len(), all.pop()) {
                (1, Some(only)) => Ok(only),
                (0, _) => Err(Error::params("there is no workspace yet: workspace/add makes one")),
                _ => Err(Error::params("workspace_id is required: there are several, and workspace/list names them")),
            };
        };
        let is_it = |folder: &PathBuf| id_of(folder) == named || folder.as_path() == Path::new(named);
        all.into_iter().find(is_it).ok_or_else(|| {
            Error::new(Code::NotFound, format!("no workspace {named:?}: workspace/list names those there are"))
        })
    }

    /// The folder that a request may be limited to; nothing is all of them.
    pub(crate) fn within(&self, named: Option<&str>) -> Result<Option<PathBuf>, Error> {
        match (named.filter(|named| !named.is_empty()), self.state.settings.repo.is_some()) {
            (None, false) => Ok(None),
            (named, _) => self.folder(named).map(Some),
        }
    }

    /// Refuses a device that lacks this right.
    pub(crate) fn needs(&self, right: Right) -> Result<(), Error> {
        let refused =
            |error: ostler_engine::access::device::DeviceError| Error::new(Code::Forbidden, error.to_string());
        self.state.engine.guest_may(&self.guest, right).map_err(refused)
    }

    /// Refuses a folder that is for no device. The one of `cdev start --repo` a person named for all of them.
    pub(crate) fn reaches(&self, wait: &MayWait, folder: &Path) -> Result<(), Error> {
        if self.state.settings.repo.is_some() {
            return Ok(());
        }
        let origin = Origin::Device(Arc::clone(&self.guest));
        let refused = |error: OutOfReach| Error::new(Code::Forbidden, error.to_string());
        self.state.engine.may_look_into(wait, &origin, folder).map_err(refused)
    }

    /// The files of a workspace.
    pub(crate) fn root(&self, wait: &MayWait, folder: &Path) -> Result<Root, Error> {
        self.reaches(wait, folder)?;
        Ok(self.state.engine.root(wait, folder)?)
    }

    /// The git of a workspace.
    pub(crate) fn tree(&self, wait: &MayWait, folder: &Path) -> Result<WorkTree, Error> {
        let root = self.root(wait, folder)?;
        Ok(self.state.engine.work_tree(wait, root)?)
    }

    /// The right to change a repository.
    pub(crate) fn write_turn(&self, wait: &MayWait, tree: &WorkTree, what: &str) -> Result<Turn, Error> {
        self.state.engine.write_turn(wait, tree, what).map_err(|busy: Busy| {
            Error::new(Code::Git, format!("{busy}; try again when it is done")).with("operation", what.to_owned())
        })
    }

    /// The sessions of a workspace, or of all that this door serves.
    pub(crate) fn sessions_in(&self, folder: Option<&Path>) -> Vec<Session> {
        let mut all = self.state.engine.sessions().list();
        all.retain(|session| folder.is_none_or(|folder| session.view().workspace.starts_with(folder)));
        all
    }
}

/// Why a file was not shown.
impl From<BeneathError> for Error {
    fn from(error: BeneathError) -> Self {
        let (code, path) = match &error {
            BeneathError::Outside(path) | BeneathError::NotAbsolute(path) => (Code::PathTraversal, path),
            BeneathError::TooLarge { path, size, limit } => {
                let said = Self::new(Code::FileTooLarge, error.to_string()).with("path", shown(path));
                return said.with("size", *size).with("max_size", *limit);
            }
            BeneathError::TooMany { path, .. } => (Code::FileTooLarge, path),
            BeneathError::NotAFolder(path) => (Code::FolderNotFound, path),
            BeneathError::Missing(path) | BeneathError::Folder(path) | BeneathError::Special(path) => {
                (Code::FileNotFound, path)
            }
            BeneathError::Denied(path)
            | BeneathError::Git(path)
            | BeneathError::Link(path)
            | BeneathError::Exists(path)
            | BeneathError::Changed(path)
            | BeneathError::Io { path, .. } => (Code::FileUnreadable, path),
        };
        Self::new(code, error.to_string()).with("path", shown(path))
    }
}

/// Why git did not do it.
impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        let code = match error {
            GitError::File(error) => return error.into(),
            GitError::NotARepository(_) | GitError::Bare(_) => Code::NotARepository,
            GitError::Path(ref path) => {
                return Self::new(Code::PathTraversal, error.to_string()).with("path", shown(path));
            }
            _ => Code::Git,
        };
        Self::new(code, error.to_string())
    }
}

/// A path as clients know it.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_has_one_id_for_ever_and_a_name_for_people() {
        assert_eq!(id_of(Path::new("/home/a/project")), id_of(Path::new("/home/a/project")));
        assert_ne!(id_of(Path::new("/home/a/project")), id_of(Path::new("/home/a/project2")));
        assert!(id_of(Path::new("/")).starts_with("ws_") && id_of(Path::new("/")).len() == 3 + ID_DIGITS);
        assert_eq!(
            (name_of(Path::new("/home/a/project")).as_str(), name_of(Path::new("/")).as_str()),
            ("project", "/")
        );
    }

    #[test]
    fn what_leads_out_is_told_apart_from_what_is_not_there() {
        assert_eq!(Error::from(BeneathError::Outside("x".into())).code, Code::PathTraversal);
        assert_eq!(Error::from(BeneathError::Missing("x".into())).code, Code::FileNotFound);
        assert_eq!(Error::from(GitError::Path("../x".into())).code, Code::PathTraversal);
        assert_eq!(Error::from(GitError::Asked("nothing is staged")).code, Code::Git);
    }
}
