//! `git.*`: the repository around a directory, and its work trees.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ostler_door_rpc::RpcError;
use ostler_workspace::git::{Git, Head, NewWorktree, RunError, WorktreeError};

use crate::env::Env;
use crate::gojson::{Object, push_bytes_lossy, push_string};

/// The params of every method here, read as one: a field that a method has no use for must still
/// have the right type.
struct Params<'a> {
    path: Cow<'a, str>,
    base_repo: Cow<'a, str>,
    branch_name: Cow<'a, str>,
    worktree_path: Cow<'a, str>,
    source_branch: Cow<'a, str>,
}

impl<'a> Params<'a> {
    fn read(params: &Object<'a>) -> Result<Self, RpcError> {
        let text = |name| params.string(name).map(Option::unwrap_or_default);
        Ok(Self {
            path: text("path")?,
            base_repo: text("baseRepo")?,
            branch_name: text("branchName")?,
            worktree_path: text("worktreePath")?,
            source_branch: text("sourceBranch")?,
        })
    }

    /// The repository that is looked at.
    fn seen(&self, env: &Env) -> Git {
        git(&self.path, env)
    }

    /// The repository whose work trees change.
    fn base(&self, env: &Env) -> Git {
        git(&self.base_repo, env)
    }
}

/// Git about a directory; about where the daemon is for an empty one.
fn git(dir: &str, env: &Env) -> Git {
    let place = match (dir, &env.folder) {
        ("", Some(folder)) => folder.into(),
        _ => env.place(Path::new(dir)),
    };
    Git::new(&place, &env.path, &env.vars, Arc::new(env.forker.clone()))
}

/// Runs `git.METHOD` and writes its result; `None` for a method that does not exist.
pub(crate) fn call(method: &str, params: &Object<'_>, env: &Env, out: &mut Vec<u8>) -> Option<Result<(), RpcError>> {
    let run: fn(&Params<'_>, &Env, &mut Vec<u8>) -> Result<(), RpcError> = match method {
        "info" => info,
        "status" => status,
        "list_branches" => list_branches,
        "worktree_create" => worktree_create,
        "worktree_remove" => worktree_remove,
        _ => return None,
    };
    Some(Params::read(params).and_then(|params| run(&params, env, out)))
}

fn info(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let Some(info) = params.seen(env).info() else {
        out.extend_from_slice(br#"{"isRepo":false,"repoSlug":"","defaultBranch":""}"#);
        return Ok(());
    };
    let branch = match &info.head {
        Head::Branch(name) => name.as_bytes().to_vec(),
        Head::Detached(commit) => [b"detached:", commit.as_bytes()].concat(),
    };
    let text = |field: &Option<std::ffi::OsString>| field.as_deref().unwrap_or_default().as_bytes().to_vec();
    out.extend_from_slice(br#"{"isRepo":true"#);
    for (name, value) in [
        (r#","repo":"#, info.name().as_bytes()),
        (r#","branch":"#, &branch),
        (r#","root":"#, info.root.as_os_str().as_bytes()),
        (r#","repoSlug":"#, &text(&info.slug)),
        (r#","defaultBranch":"#, &text(&info.default_branch)),
    ] {
        out.extend_from_slice(name.as_bytes());
        push_bytes_lossy(out, value);
    }
    out.push(b'}');
    Ok(())
}

fn status(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    match params.seen(env).status().map_err(|error| internal(&error))? {
        None => out.extend_from_slice(br#"{"isRepo":false,"clean":false}"#),
        Some(changes) if changes.is_empty() => out.extend_from_slice(br#"{"isRepo":true,"clean":true}"#),
        Some(changes) => {
            out.extend_from_slice(br#"{"isRepo":true,"clean":false,"changes":"#);
            push_list(out, changes.iter().map(Vec::as_slice));
            out.push(b'}');
        }
    }
    Ok(())
}

fn list_branches(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    match params.seen(env).branches().map_err(|error| internal(&error))? {
        None => out.extend_from_slice(br#"{"isRepo":false,"branches":[]}"#),
        Some(branches) => {
            out.extend_from_slice(br#"{"isRepo":true,"branches":"#);
            push_list(out, branches.iter().map(|name| name.as_bytes()));
            out.push(b'}');
        }
    }
    Ok(())
}

fn worktree_create(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    if params.branch_name.is_empty() {
        return Err(RpcError::params("branchName is required"));
    }
    let source = params.source_branch.as_ref();
    let new = NewWorktree {
        branch: OsStr::new(params.branch_name.as_ref()),
        path: OsStr::new(params.worktree_path.as_ref()),
        source: (!source.is_empty()).then_some(OsStr::new(source)),
    };
    let said = match params.base(env).create_worktree(&new) {
        Ok(created) => {
            out.extend_from_slice(br#"{"success":true,"path":"#);
            push_string(out, &params.worktree_path);
            if let Some(source) = created.source {
                out.extend_from_slice(br#","sourceBranch":"#);
                push_bytes_lossy(out, source.as_bytes());
            }
            out.push(b'}');
            return Ok(());
        }
        Err(WorktreeError::NotARepo) => {
            out.extend_from_slice(br#"{"success":false,"error":"not a git repository","errorCode":"not_a_repo"}"#);
            return Ok(());
        }
        Err(WorktreeError::Refused(said)) => said,
        Err(error) => error.to_string().into_bytes(),
    };
    out.extend_from_slice(br#"{"success":false,"error":"#);
    push_bytes_lossy(out, &[b"git worktree add failed: ", said.as_slice()].concat());
    out.extend_from_slice(br#","errorCode":"worktree_add_failed"}"#);
    Ok(())
}

/// Lenient by contract: whatever git makes of it, the answer is success.
fn worktree_remove(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    if let Err(error) = params.base(env).remove_worktree(OsStr::new(params.worktree_path.as_ref())) {
        tracing::warn!("git worktree remove: {error}");
    }
    out.extend_from_slice(br#"{"success":true}"#);
    Ok(())
}

fn internal(error: &RunError) -> RpcError {
    RpcError::internal(format!("git: {error}"))
}

fn push_list<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = &'a [u8]>) {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_bytes_lossy(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests;
