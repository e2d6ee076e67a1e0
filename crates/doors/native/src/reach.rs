//! What a client may touch, in the protocol's words. Who may is the engine's to say.

use ostler_api::{ErrorKind, ProcessInfo, RpcError, SessionInfo};
use ostler_engine::{OutOfReach, Process, Session, Target};

use crate::call::Call;
use crate::info::describe;
use crate::session::describe_session;

pub(crate) fn refusal(error: &OutOfReach) -> RpcError {
    let hint = match error {
        OutOfReach::Others { process: Some(id), .. } => {
            format!("to allow it, in a terminal of your own: ostler set {id} --access all")
        }
        // It says itself what to do.
        OutOfReach::NoWorkspace(_) => return RpcError::new(ErrorKind::Refused, error.to_string()),
        _ => "use a terminal of your own".to_owned(),
    };
    RpcError::new(ErrorKind::Refused, error.to_string()).hint(hint)
}

/// A process as this client may see it: of what is not its own, nothing that it says.
pub(crate) fn shown_process(call: &Call, process: &Process) -> ProcessInfo {
    let mut info = describe(process);
    if call.reaches(Target::Process(process)).is_err()
        && let Some(claim) = &mut info.claim
    {
        (claim.title, claim.message) = (None, None);
    }
    info
}

/// The same for a session.
pub(crate) fn shown_session(call: &Call, session: &Session) -> SessionInfo {
    let mut info = describe_session(session.view());
    if call.reaches(Target::Session(session)).is_err() {
        (info.why, info.agent_session) = (None, None);
    }
    info
}
