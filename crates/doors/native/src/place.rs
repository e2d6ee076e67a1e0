//! Which workspace a request means, whether its caller may look at it or change it, and what went wrong there in the
//! protocol's words.

use std::path::Path;

use ostler_api::{ErrorKind, FilePath, RpcError, Timestamp};
use ostler_engine::MayWait;
use ostler_engine::workspace::Busy;
use ostler_engine::workspace::beneath::{BeneathError, Root};
use ostler_engine::workspace::work::{GitError, WorkTree};

use crate::call::Call;
use crate::info::disk;
use crate::reach::refusal;

/// A request about a workspace.
pub(crate) trait Placed {
    /// Its absolute path, or the session that works in it.
    fn place(&self) -> (Option<&Path>, Option<&str>);
}

macro_rules! placed {
    ($($type:ident),* $(,)?) => {
        $(impl Placed for ostler_api::$type {
            fn place(&self) -> (Option<&Path>, Option<&str>) {
                (self.root.as_ref().map(|FilePath(root)| root.as_path()), self.session.as_deref())
            }
        })*
    };
}

placed!(
    GitBranchCreateParams,
    GitBranchDeleteParams,
    GitCommitParams,
    GitDiffParams,
    GitDiscardParams,
    GitFetchParams,
    GitLogParams,
    GitMergeParams,
    GitParams,
    GitPatchParams,
    GitPathsParams,
    GitPullParams,
    GitPushParams,
    GitRemoteAddParams,
    GitRemoteRemoveParams,
    GitRestoreParams,
    GitStashParams,
    GitStashTakeParams,
    GitStatusParams,
    GitSwitchParams,
    SearchContentParams,
    SearchNamesParams,
    SearchParams,
    WorkspaceListParams,
    WorkspaceReadParams,
    WorkspaceTreeParams,
    WorkspaceWatchParams,
    WorkspaceWriteParams,
);

/// The folder, for who may look into it.
pub(crate) fn seen(wait: &MayWait, call: &Call, request: &impl Placed) -> Result<Root, RpcError> {
    let path = match request.place() {
        (Some(root), None) => root.into(),
        (None, Some(id)) => crate::session::find(call, id)?.view().workspace,
        _ => return Err(bad("give either `root` or `session`")),
    };
    let root = call.engine().root(wait, &path);
    // Asked in any case: who may not look is not told what is there.
    let real = root.as_ref().map_or(path.as_path(), Root::path);
    call.engine().may_look_into(wait, &call.origin, real).map_err(|error| refusal(&error))?;
    root.map_err(|error| of_file(&error))
}

/// The folder, for who may change it.
pub(crate) fn owned(wait: &MayWait, call: &Call, request: &impl Placed) -> Result<Root, RpcError> {
    let root = seen(wait, call, request)?;
    call.engine().may_change(&call.origin, root.path()).map_err(|error| refusal(&error))?;
    Ok(root)
}

pub(crate) fn tree(wait: &MayWait, call: &Call, root: Root) -> Result<WorkTree, RpcError> {
    call.engine().work_tree(wait, root).map_err(|error| of_git(call, error))
}

pub(crate) fn bad(message: impl Into<String>) -> RpcError {
    RpcError::new(ErrorKind::BadParams, message)
}

pub(crate) fn of_file(error: &BeneathError) -> RpcError {
    let kind = match error {
        BeneathError::Missing(_) => ErrorKind::NotFound,
        BeneathError::NotAbsolute(_)
        | BeneathError::NotAFolder(_)
        | BeneathError::Folder(_)
        | BeneathError::Special(_) => ErrorKind::BadParams,
        BeneathError::Io { .. } => ErrorKind::Failed,
        _ => ErrorKind::Refused,
    };
    let said = RpcError::new(kind, error.to_string());
    match error {
        BeneathError::TooLarge { .. } => said.hint("read it in parts, with offset and length"),
        BeneathError::Changed(_) => said.hint("read it again"),
        _ => said,
    }
}

pub(crate) fn of_git(call: &Call, error: GitError) -> RpcError {
    let kind = match &error {
        GitError::File(error) => return of_file(error),
        GitError::Keeping { path, source } => return disk(call.engine(), &path.display().to_string(), source),
        GitError::NotARepository(_) | GitError::Missing { .. } => ErrorKind::NotFound,
        GitError::Path(_) | GitError::Name { .. } | GitError::Asked(_) => ErrorKind::BadParams,
        GitError::Bare(_) | GitError::Owner(_) | GitError::Locked(_) | GitError::TooMuchToKeep { .. } => {
            ErrorKind::Refused
        }
        GitError::Failed { .. } | GitError::Run(_) => ErrorKind::Failed,
    };
    let said = RpcError::new(kind, error.to_string());
    match &error {
        GitError::Owner(path) => {
            said.hint(format!("if you trust it: git config --global --add safe.directory {}", path.display()))
        }
        GitError::Locked(path) => said.hint(format!("wait for it; if no git runs any more: rm {}", path.display())),
        GitError::TooMuchToKeep { .. } => said.hint("discard fewer files, or say that nothing need be kept"),
        _ => said,
    }
}

pub(crate) fn of_busy(busy: &Busy) -> RpcError {
    let said = RpcError::new(ErrorKind::Refused, busy.to_string());
    match &busy.process {
        Some(id) => said.hint(format!("watch it: ostler logs -f {id}; stop it: ostler kill {id}")),
        None => said.hint("try again"),
    }
}

pub(crate) fn path(path: &Path) -> FilePath {
    FilePath::from(path)
}

/// A moment of the Unix clock; what was before 1970 was then.
pub(crate) fn second(second: i64) -> Timestamp {
    Timestamp::from_secs(u64::try_from(second).unwrap_or(0))
}
