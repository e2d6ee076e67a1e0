//! `session.finish` and `session.unfinish`: the end of a session's work tree, and the way back.

use std::sync::Arc;

use ostler_api::{
    ErrorKind, FilePath, FinishHow, FinishStanding, RpcError, SessionFinishParams, SessionFinished, SessionFinishing,
    SessionIdParams,
};
use ostler_engine::MayWait;
use ostler_engine::access::device::Right;
use ostler_engine::session::Session;
use ostler_engine::workspace::work::GitError;
use ostler_engine::workspace::{Finish, FinishError, FinishStep, FinishedTree, Standing, UndoError};
use ostler_story::words;

use crate::call::Call;
use crate::info::{describe, disk, of_session};
use crate::place::{of_busy, of_git, path};
use crate::session::{own, own_to_change};
use crate::words::Translate;

/// Answers with the next step.
pub(crate) async fn finish(call: Arc<Call>, params: SessionFinishParams) -> Result<SessionFinishing, RpcError> {
    // A merge changes a folder that is no session's, and a proposal runs the user's own program: also what starting a command
    // needs.
    if matches!(params.how, Some(FinishHow::Merge | FinishHow::PullRequest)) {
        call.needs(Right::TypeIntoTerminals)?;
    }
    let session = if params.how.is_some() { own_to_change(&call, &params.id) } else { own(&call, &params.id) }?;
    let finish = Finish {
        how: params.how.map(Translate::translated),
        into: params.into.map(|into| into.0.into_os_string()),
        message: params.message,
    };
    let owner = call.engine().owner_for(&call.origin);
    let step = call.engine().finish(&session, finish, owner).await;
    let mut answer = SessionFinishing { standing: None, process: None, done: None };
    match step.map_err(|error| refused(&call, &session, error))? {
        FinishStep::Looked(found) => answer.standing = Some(standing(&found)),
        FinishStep::Running(process) => answer.process = Some(describe(&process)),
        FinishStep::Done(tree) => answer.done = Some(finished(&tree)),
    }
    Ok(answer)
}

/// Puts back what was thrown away.
pub(crate) fn unfinish(wait: &MayWait, call: &Call, params: SessionIdParams) -> Result<SessionFinished, RpcError> {
    let session = own_to_change(call, &params.id)?;
    let back = call.engine().undo_discard(wait, &session);
    back.map(|tree| finished(&tree)).map_err(|error| match error {
        UndoError::Nothing | UndoError::NoTree => {
            RpcError::new(ErrorKind::NotFound, format!("{}: {error}", of_session(&session)))
        }
        UndoError::There(_) => RpcError::new(ErrorKind::Refused, format!("{}: {error}", of_session(&session))),
        UndoError::Taken(_) => RpcError::new(ErrorKind::Refused, error.to_string()),
        UndoError::Git(error) => of_git(call, error),
        UndoError::Io(error) => disk(call.engine(), "nothing was put back", &error),
    })
}

fn standing(found: &Standing) -> FinishStanding {
    let name = |branch: &std::ffi::OsString| path(branch.as_ref());
    FinishStanding {
        worktree: found.tree.display().to_string(),
        branch: found.branch.as_ref().map(name),
        into: found.into.as_ref().map(|(branch, _)| FilePath::from(branch.as_ref())),
        into_worktree: found.into.as_ref().map(|(_, place)| place.display().to_string()),
        ahead: found.ahead,
        uncommitted: found.uncommitted.len() as u64,
    }
}

fn finished(tree: &FinishedTree) -> SessionFinished {
    SessionFinished {
        worktree: tree.tree.display().to_string(),
        branch: tree.branch.clone(),
        commit: tree.commit.clone(),
        reference: tree.reference.clone(),
        commits_kept: tree.commits,
        uncommitted_kept: tree.kept.is_some(),
        until: tree.reference.as_ref().map(|_| tree.until().into()),
    }
}

fn refused(call: &Call, session: &Session, error: FinishError) -> RpcError {
    let name = of_session(session);
    let said = format!("{name} is not finished: {error}");
    let no = |hint: String| RpcError::new(ErrorKind::Refused, said.clone()).hint(hint);
    match error {
        FinishError::NoTree(_) => no(format!("commit there as usual, then: ostler close {name}")),
        FinishError::Gone(_) => no(format!("what was said: ostler export {name}")),
        FinishError::Waiting(request) => {
            no(format!("read and approve it: ostler approve {request}; or deny it: ostler deny {request}"))
        }
        FinishError::Working => no(format!("wait for it (ostler watch {name}), or stop it: ostler interrupt {name}")),
        FinishError::Operation(place) => no(format!("end or abort it first: git -C {} status", words::path(&place))),
        FinishError::Uncommitted(1) => no(format!("commit it with -m 'message', or see it: ostler diff {name}")),
        FinishError::Uncommitted(_) => no(format!("commit them with -m 'message', or see them: ostler diff {name}")),
        FinishError::NoBranch(place) => no(format!("make one: git -C {} switch -c NAME", words::path(&place))),
        FinishError::NoTarget(_) => no("say which with --into BRANCH, or check it out there: git switch".into()),
        FinishError::TargetDirty { tree, .. } => {
            no(format!("commit or stash them: git -C {} status", words::path(&tree)))
        }
        FinishError::NothingNew => no(format!("to let it go: ostler finish {name} --discard")),
        FinishError::NoForge(_) => no("install it and log in, then: ostler restart; or use --merge".into()),
        FinishError::Stays(_) => no("look there, then try again".into()),
        FinishError::NotDone(_) => no(format!("look at it: ostler diff {name}")),
        FinishError::Busy(busy) => of_busy(&busy),
        FinishError::Git(GitError::TooMuchToKeep { .. }) => {
            no("commit what is to be kept and remove the rest, then try again".into())
        }
        FinishError::Git(error) => of_git(call, error),
        FinishError::Spawn(error) => crate::process::refusal(call.engine(), &error, None),
        FinishError::Io(error) => disk(call.engine(), "not finished", &error),
    }
}
