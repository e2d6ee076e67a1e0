//! What changes a repository at once: the index, branches, what is put aside or thrown away. One at a time for each repository.

use std::ffi::OsStr;
use std::path::PathBuf;

use ostler_api::{
    Empty, FilePath, GitBranchCreateParams, GitBranchDeleteParams, GitDiscardParams, GitDiscarded, GitParams,
    GitPatchParams, GitPaths, GitPathsParams, GitRemoteAddParams, GitRemoteRemoveParams, GitRestoreParams,
    GitStashParams, GitStashTakeParams, RpcError,
};
use ostler_engine::MayWait;
use ostler_engine::workspace::work::{Discard, GitError, WorkTree};

use super::look::{kept_changes, paths};
use crate::call::Call;
use crate::place::{Placed, of_busy, of_git, owned};
use crate::words::Translate;

/// Does something in the repository's turn.
fn change<T>(
    wait: &MayWait,
    call: &Call,
    (params, what): (&impl Placed, &str),
    act: impl FnOnce(&WorkTree) -> Result<T, GitError>,
) -> Result<T, RpcError> {
    let tree = crate::place::tree(wait, call, owned(wait, call, params)?)?;
    let _turn = call.engine().write_turn(wait, &tree, what).map_err(|busy| of_busy(&busy))?;
    act(&tree).map_err(|error| of_git(call, error))
}

/// The same, once for each key: it leaves no trace by which it could be told that it was done.
fn once(
    wait: &MayWait,
    call: &Call,
    (params, what, key): (&impl Placed, &str, Option<&str>),
    act: impl FnOnce(&WorkTree) -> Result<(), GitError>,
) -> Result<Empty, RpcError> {
    let key = key.map(|key| format!("{what} {key}"));
    if key.as_deref().is_some_and(|key| call.engine().has_seen(wait, key)) {
        return Ok(Empty {});
    }
    change(wait, call, (params, what), act)?;
    // Only what was done counts: a refusal is said as often as it is asked for.
    key.iter().for_each(|key| _ = call.engine().first_use(wait, key));
    Ok(Empty {})
}

fn plain(paths: &[FilePath]) -> Vec<PathBuf> {
    paths.iter().map(|path| path.0.clone()).collect()
}

pub(crate) fn stage(wait: &MayWait, call: &Call, params: GitPathsParams) -> Result<Empty, RpcError> {
    change(wait, call, (&params, "git add"), |tree| tree.stage(&plain(&params.paths))).map(|()| Empty {})
}

pub(crate) fn unstage(wait: &MayWait, call: &Call, params: GitPathsParams) -> Result<Empty, RpcError> {
    change(wait, call, (&params, "git reset"), |tree| tree.unstage(&plain(&params.paths))).map(|()| Empty {})
}

pub(crate) fn stage_patch(wait: &MayWait, call: &Call, mut params: GitPatchParams) -> Result<Empty, RpcError> {
    let (patch, data) = (params.patch.take(), params.patch_data.take());
    let patch = crate::workspace::either(patch, data, "patch", "patch_data")?;
    let what = (&params, "git apply", params.key.as_deref());
    once(wait, call, what, |tree| tree.stage_patch(&patch, params.reverse))
}

pub(crate) fn discard(wait: &MayWait, call: &Call, params: GitDiscardParams) -> Result<GitDiscarded, RpcError> {
    let folder = call.engine().discarded_folder();
    let keep_in = (!params.without_keeping).then_some(folder.as_path());
    let chosen = plain(&params.paths);
    let discard = Discard { paths: &chosen, staged: params.staged, keep_in };
    let gone = change(wait, call, (&params, "git restore"), |tree| tree.discard(discard))?;
    Ok(GitDiscarded { paths: paths(&gone.paths), kept: gone.kept.as_ref().map(kept_changes) })
}

pub(crate) fn restore(wait: &MayWait, call: &Call, params: GitRestoreParams) -> Result<GitPaths, RpcError> {
    let folder = call.engine().discarded_folder();
    let back = change(wait, call, (&params, "git restore"), |tree| tree.restore_discarded(&folder, &params.id))?;
    Ok(GitPaths { paths: paths(&back) })
}

pub(crate) fn branch_create(wait: &MayWait, call: &Call, params: GitBranchCreateParams) -> Result<Empty, RpcError> {
    let start = params.start.as_deref().map(OsStr::new);
    change(wait, call, (&params, "git branch"), |tree| tree.create_branch(params.name.0.as_os_str(), start))?;
    Ok(Empty {})
}

pub(crate) fn branch_delete(wait: &MayWait, call: &Call, params: GitBranchDeleteParams) -> Result<Empty, RpcError> {
    let name = params.name.0.as_os_str();
    change(wait, call, (&params, "git branch"), |tree| tree.delete_branch(name, params.force)).map(|()| Empty {})
}

pub(crate) fn stash(wait: &MayWait, call: &Call, params: GitStashParams) -> Result<Empty, RpcError> {
    let what = (&params, "git stash", params.key.as_deref());
    once(wait, call, what, |tree| tree.stash(params.message.as_deref(), params.untracked))
}

pub(crate) fn stash_take(wait: &MayWait, call: &Call, params: GitStashTakeParams) -> Result<Empty, RpcError> {
    let what = (&params, "git stash", params.key.as_deref());
    once(wait, call, what, |tree| tree.take_stash(&params.commit, params.how.translated()))
}

pub(crate) fn merge_abort(wait: &MayWait, call: &Call, params: GitParams) -> Result<Empty, RpcError> {
    change(wait, call, (&params, "git merge"), WorkTree::abort_merge).map(|()| Empty {})
}

pub(crate) fn remote_add(wait: &MayWait, call: &Call, params: GitRemoteAddParams) -> Result<Empty, RpcError> {
    let (name, url) = (OsStr::new(&params.name), OsStr::new(&params.url));
    change(wait, call, (&params, "git remote"), |tree| tree.add_remote(name, url)).map(|()| Empty {})
}

pub(crate) fn remote_remove(wait: &MayWait, call: &Call, params: GitRemoteRemoveParams) -> Result<Empty, RpcError> {
    let name = params.name.0.as_os_str();
    change(wait, call, (&params, "git remote"), |tree| tree.remove_remote(name)).map(|()| Empty {})
}
