//! What changes a repository at once: the index, branches, what is put aside or thrown away. One at a time for each repository.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ostler_engine::MayWait;
use ostler_engine::feed::GitDone;
use ostler_engine::workspace::beneath::FileKind;
use ostler_engine::workspace::work::{Change, Discard, GitError, StashTake, Untracked, WorkTree};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{opened, paths, told};
use crate::error::Error;
use crate::method::Call;
use crate::place::shown;
use crate::workspace::WhichParams;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct PathsParams {
    /// From the repository's folder on; each means itself, whatever signs it has.
    pub(crate) paths: Vec<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct DiscardParams {
    #[serde(flatten)]
    pub(crate) paths: PathsParams,
    /// Nothing need be kept. Left out, everything is kept for a day, and more than 64 MiB is refused.
    #[serde(default)]
    pub(crate) without_keeping: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Staged {
    pub(crate) success: bool,
    pub(crate) staged: Vec<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Unstaged {
    pub(crate) success: bool,
    pub(crate) unstaged: Vec<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Discarded {
    pub(crate) success: bool,
    pub(crate) discarded: Vec<String>,
    /// Under this name what was discarded is kept for a day: `git/restore` puts it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
}

/// Does something in the repository's turn, and tells everybody. `failed` is the number of files where it failed: none, or
/// nothing that is counted.
fn change<T>(
    wait: &MayWait,
    call: &Call,
    workspace: Option<&str>,
    (operation, failed): (&'static str, Option<usize>),
    act: impl FnOnce(&WorkTree) -> Result<(T, Option<usize>), GitError>,
) -> Result<T, Error> {
    let (folder, tree) = opened(wait, call, workspace)?;
    let turn = call.write_turn(wait, &tree, operation)?;
    let acted = act(&tree).map_err(|error| Error::from(error).with("operation", operation).with("success", false));
    drop(turn);
    let files = acted.as_ref().map_or(failed, |(_, files)| *files);
    let done = GitDone {
        operation: operation.to_owned(),
        error: acted.as_ref().err().map(|error| error.message.clone()),
        message: match files {
            Some(1) => format!("{operation}: 1 file"),
            Some(count) => format!("{operation}: {count} files"),
            None => operation.to_owned(),
        },
        files: files.map(|count| count as u64),
        ..GitDone::default()
    };
    told(call, &folder, &tree, done);
    acted.map(|(done, _)| done)
}

/// The same with paths that a client named.
fn change_paths<T>(
    wait: &MayWait,
    call: &Call,
    params: &PathsParams,
    (operation, method): (&'static str, &str),
    act: impl FnOnce(&WorkTree, &[PathBuf]) -> Result<(T, usize), GitError>,
) -> Result<T, Error> {
    let chosen = paths(&params.paths, method)?;
    change(wait, call, params.workspace_id.as_deref(), (operation, Some(0)), |tree| {
        act(tree, &chosen).map(|(done, files)| (done, Some(files)))
    })
}

/// How many files these paths are: a folder is those in it that are changed so, and that git does not know where they are `new`.
fn files_of(
    tree: &WorkTree,
    chosen: &[PathBuf],
    changed: impl Fn(&Change<PathBuf>) -> bool,
    new: bool,
) -> Result<usize, GitError> {
    let is_folder = |path: &&PathBuf| tree.root().stat(path).is_ok_and(|found| found.kind == FileKind::Folder);
    let folders: Vec<&PathBuf> = chosen.iter().filter(is_folder).collect();
    if folders.is_empty() {
        return Ok(chosen.len());
    }
    let status = tree.status(Untracked::All)?;
    let known = status.changed.iter().filter(|change| changed(change)).chain(&status.conflicted);
    let unknown = status.untracked.iter().filter(|_| new);
    let paths: Vec<&PathBuf> = known.map(|change| &change.path).chain(unknown).collect();
    let beneath = |folder: &&PathBuf| {
        let whole = folder.as_path() == Path::new(".");
        paths.iter().filter(|path| whole || path.starts_with(folder)).count()
    };
    Ok(chosen.len() - folders.len() + folders.iter().map(beneath).sum::<usize>())
}

pub(crate) fn stage(wait: &MayWait, call: &Call, params: PathsParams) -> Result<Staged, Error> {
    change_paths(wait, call, &params, ("stage", "git/stage"), |tree, chosen| {
        let files = files_of(tree, chosen, |change| change.work != b'.', true)?;
        Ok((tree.stage(chosen)?, files))
    })?;
    Ok(Staged { success: true, staged: params.paths })
}

pub(crate) fn unstage(wait: &MayWait, call: &Call, params: PathsParams) -> Result<Unstaged, Error> {
    change_paths(wait, call, &params, ("unstage", "git/unstage"), |tree, chosen| {
        let files = files_of(tree, chosen, |change| change.index != b'.', false)?;
        Ok((tree.unstage(chosen)?, files))
    })?;
    Ok(Unstaged { success: true, unstaged: params.paths })
}

pub(crate) fn discard(wait: &MayWait, call: &Call, params: DiscardParams) -> Result<Discarded, Error> {
    let folder = call.state.engine.discarded_folder();
    let keep_in = (!params.without_keeping).then_some(folder.as_path());
    let gone = change_paths(wait, call, &params.paths, ("discard", "git/discard"), |tree, chosen| {
        let gone = tree.discard(Discard { paths: chosen, staged: true, keep_in })?;
        let count = gone.paths.len();
        Ok((gone, count))
    })?;
    let discarded = gone.paths.iter().map(|path| shown(path)).collect();
    Ok(Discarded { success: true, discarded, kept: gone.kept.map(|kept| kept.id) })
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct RestoreParams {
    /// `kept`, as `git/discard` gave it.
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Restored {
    pub(crate) success: bool,
    pub(crate) restored: Vec<String>,
}

pub(crate) fn restore(wait: &MayWait, call: &Call, params: RestoreParams) -> Result<Restored, Error> {
    let folder = call.state.engine.discarded_folder();
    let back = change(wait, call, params.workspace_id.as_deref(), ("restore", Some(0)), |tree| {
        let back = tree.restore_discarded(&folder, &params.id)?;
        let count = back.len();
        Ok((back, Some(count)))
    })?;
    Ok(Restored { success: true, restored: back.iter().map(|path| shown(path)).collect() })
}

/// That it was done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) success: bool,
    pub(crate) message: String,
}

fn done(message: impl Into<String>) -> Done {
    Done { success: true, message: message.into() }
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StashParams {
    pub(crate) message: Option<String>,
    /// Files that git does not know, too.
    pub(crate) include_untracked: bool,
    pub(crate) workspace_id: Option<String>,
}

pub(crate) fn stash(wait: &MayWait, call: &Call, params: StashParams) -> Result<Done, Error> {
    change(wait, call, params.workspace_id.as_deref(), ("stash", None), |tree| {
        Ok((tree.stash(params.message.as_deref(), params.include_untracked)?, None))
    })?;
    Ok(done("changes were put aside"))
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StashTakeParams {
    /// Its number; the newest when left out.
    pub(crate) index: u64,
    pub(crate) workspace_id: Option<String>,
}

fn take(
    wait: &MayWait,
    call: &Call,
    params: &StashTakeParams,
    how: StashTake,
    what: &'static str,
) -> Result<Done, Error> {
    let (_, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let commit = super::look::stash_commit(&tree, params.index)?;
    change(wait, call, params.workspace_id.as_deref(), (what, None), |tree| {
        Ok((tree.take_stash(&commit, how)?, None))
    })?;
    Ok(done(what.replace('_', " ")))
}

pub(crate) fn stash_pop(wait: &MayWait, call: &Call, params: StashTakeParams) -> Result<Done, Error> {
    take(wait, call, &params, StashTake::Pop, "stash_pop")
}

pub(crate) fn stash_apply(wait: &MayWait, call: &Call, params: StashTakeParams) -> Result<Done, Error> {
    take(wait, call, &params, StashTake::Apply, "stash_apply")
}

pub(crate) fn stash_drop(wait: &MayWait, call: &Call, params: StashTakeParams) -> Result<Done, Error> {
    take(wait, call, &params, StashTake::Drop, "stash_drop")
}

pub(crate) fn merge_abort(wait: &MayWait, call: &Call, params: WhichParams) -> Result<Done, Error> {
    change(wait, call, params.workspace_id.as_deref(), ("merge_abort", None), |tree| Ok((tree.abort_merge()?, None)))?;
    Ok(done("the merge was given up"))
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct BranchDeleteParams {
    pub(crate) branch: String,
    /// Also when its commits are nowhere else.
    #[serde(default)]
    pub(crate) force: bool,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

pub(crate) fn branch_delete(wait: &MayWait, call: &Call, params: BranchDeleteParams) -> Result<Done, Error> {
    if params.branch.is_empty() {
        return Err(Error::params("git/branch/delete: `branch` is empty"));
    }
    change(wait, call, params.workspace_id.as_deref(), ("branch_delete", None), |tree| {
        Ok((tree.delete_branch(OsStr::new(&params.branch), params.force)?, None))
    })?;
    Ok(done(format!("deleted {}", params.branch)))
}
