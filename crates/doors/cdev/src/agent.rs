//! `agent/*`: the current session of a repository, as clients that know one agent see it.

use ostler_engine::session::Status;
use schemars::JsonSchema;
use serde::Serialize;

use crate::DoorState;

/// What the agent does, in the document's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClaudeState {
    /// Nothing runs.
    Idle,
    /// A turn runs.
    Running,
    /// It waits for somebody's answer.
    Waiting,
    /// The last turn was stopped.
    Stopped,
    /// The last turn failed.
    Error,
}

/// What the agent of the repository does. Never waits.
pub(crate) fn claude_state(state: &DoorState) -> ClaudeState {
    let repo = state.settings.repo.as_deref();
    let views = state.engine.sessions().list().into_iter().map(|session| session.view());
    let own = views.filter(|view| view.status != Status::Closed && repo.is_none_or(|repo| view.workspace == repo));
    match own.last().map(|view| view.status) {
        None | Some(Status::Idle | Status::Closed) => ClaudeState::Idle,
        Some(Status::Running) => ClaudeState::Running,
        Some(Status::Waiting) => ClaudeState::Waiting,
        Some(Status::Interrupted) => ClaudeState::Stopped,
        Some(Status::Failed) => ClaudeState::Error,
    }
}
