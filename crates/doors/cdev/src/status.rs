//! `status/get` and what clients are told when they come and when the server ends.

use ostler_engine::MayWait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DoorState;
use crate::agent::{self, ClaudeState};
use crate::error::Error;
use crate::method::Call;

/// A method without parameters.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// How the server is doing.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    claude_state: ClaudeState,
    connected_clients: usize,
    repo_path: String,
    repo_name: String,
    uptime_seconds: u64,
    agent_version: String,
    /// The same as `agent_version`.
    version: String,
    /// What this run of the server is called.
    agent_session_id: String,
    watcher_enabled: bool,
    git_enabled: bool,
    /// The same as `git_enabled`.
    is_git_repo: bool,
}

pub(crate) fn get(_: &MayWait, call: &Call, _: Nothing) -> Result<Status, Error> {
    let state = &call.state;
    let (repo_path, repo_name) = state.repo_shown();
    // A worktree has a file there.
    let is_git = state.repo().is_some_and(|repo| repo.join(".git").exists());
    Ok(Status {
        claude_state: agent::claude_state(state),
        connected_clients: state.clients.count(),
        repo_path,
        repo_name,
        uptime_seconds: state.started.elapsed().as_secs(),
        agent_version: state.settings.version.clone(),
        version: state.settings.version.clone(),
        agent_session_id: state.id.clone(),
        watcher_enabled: true,
        git_enabled: is_git,
        is_git_repo: is_git,
    })
}

/// `session_start`, on connect.
#[derive(Debug, Serialize)]
pub(crate) struct SessionStart {
    session_id: String,
    repo_path: String,
    repo_name: String,
    agent_version: String,
}

impl SessionStart {
    pub(crate) const EVENT: &'static str = "session_start";

    pub(crate) fn of(state: &DoorState) -> Self {
        let (repo_path, repo_name) = state.repo_shown();
        let agent_version = state.settings.version.clone();
        Self { session_id: state.id.clone(), repo_path, repo_name, agent_version }
    }
}

/// `session_end`, before the server goes.
#[derive(Debug, Serialize)]
pub(crate) struct SessionEnd {
    session_id: String,
    reason: &'static str,
}

impl SessionEnd {
    pub(crate) const EVENT: &'static str = "session_end";

    pub(crate) fn of(state: &DoorState) -> Self {
        Self { session_id: state.id.clone(), reason: "shutdown" }
    }
}
