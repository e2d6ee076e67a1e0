//! `session.setup` and `session.run`: a work tree made ready as its repository says, once a person has said yes.

use ostler_api::{ErrorKind, ProcessInfo, RpcError, SessionIdParams, SessionSetup, SessionSetupParams, SetupFile};
use ostler_engine::MayWait;
use ostler_engine::access::device::Right;
use ostler_engine::session::{PrepareError, Readiness, Session};

use crate::call::Call;
use crate::info::{describe, disk, of_session};
use crate::place::{of_git, path};
use crate::session::{own, own_to_change};

pub(crate) fn setup(wait: &MayWait, call: &Call, params: SessionSetupParams) -> Result<SessionSetup, RpcError> {
    if params.trust.is_none() && !params.again {
        // Only looked at: what somebody said yes to before was done when the work tree was made.
        let session = own(call, &params.id)?;
        return session.readiness(wait).map(|ready| told(&ready)).map_err(|error| refused(call, &session, error));
    }
    call.needs(Right::TypeIntoTerminals)?;
    let session = own_to_change(call, &params.id)?;
    if let Some(hash) = &params.trust {
        let by = call.person(wait, "settings", &format!("set {} --setup", of_session(&session)))?;
        session.trust_ready(wait, hash, by).map_err(|error| refused(call, &session, error))?;
    }
    let ready = session.make_ready(wait, params.again).map_err(|error| refused(call, &session, error))?;
    Ok(told(&ready))
}

pub(crate) fn run(wait: &MayWait, call: &Call, params: SessionIdParams) -> Result<ProcessInfo, RpcError> {
    let session = own_to_change(call, &params.id)?;
    session.run_ready(wait).map(|process| describe(&process)).map_err(|error| refused(call, &session, error))
}

fn told(ready: &Readiness) -> SessionSetup {
    let note = ready.note.as_ref();
    SessionSetup {
        file: ready.file.as_ref().map(|file| SetupFile {
            text: file.text.clone(),
            hash: file.hash.clone(),
            trusted: ready.trusted,
            setup: file.ready.setup.clone(),
            run: file.ready.run.clone(),
            copy: file.ready.copy.iter().map(|name| path(name)).collect(),
            ports: file.ready.ports,
        }),
        copied: note.map(|note| note.copied.iter().map(|name| path(name)).collect()).unwrap_or_default(),
        not_copied: note.map(|note| note.left.clone()).unwrap_or_default(),
        port: note.and_then(|note| note.ports).map(|(first, _)| first),
        port_last: note.and_then(|note| note.ports).map(|(_, last)| last),
        process: ready.process.as_ref().map(describe),
    }
}

fn refused(call: &Call, session: &Session, error: PrepareError) -> RpcError {
    let (name, said) = (of_session(session), error.to_string());
    let no = |kind, hint: String| RpcError::new(kind, said.clone()).hint(hint);
    match error {
        PrepareError::NoTree(_) => no(ErrorKind::Refused, "start the session with --worktree".into()),
        PrepareError::NothingSaid => no(ErrorKind::NotFound, "write one: see docs/workspace.md".into()),
        PrepareError::NotTrusted => no(ErrorKind::Refused, format!("read it and say yes: ostler set {name} --setup")),
        PrepareError::Changed => no(ErrorKind::Refused, "read it again".into()),
        PrepareError::File(_) => no(ErrorKind::Refused, "correct it and commit it".into()),
        PrepareError::Record(_) => RpcError::new(ErrorKind::Failed, said),
        PrepareError::Git(error) => of_git(call, error),
        PrepareError::Spawn(error) => crate::process::refusal(call.engine(), &error, None),
        PrepareError::Io(error) => disk(call.engine(), "not made ready", &error),
    }
}
