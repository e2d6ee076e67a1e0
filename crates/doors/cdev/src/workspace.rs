//! `workspace/*`: the folders that are served. With `cdev start --repo` it is one; else those of sessions, and those that were
//! added by a device that may start commands anyway.

use std::path::{Path, PathBuf};

use ostler_engine::MayWait;
use ostler_engine::access::device::Right;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{self, state_of};
use crate::error::{Code, Error};
use crate::method::Call;
use crate::permission::Success;
use crate::place::{id_of, name_of, shown};
use crate::status::Nothing;

/// A folder that is served.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Workspace {
    pub(crate) id: String,
    /// The same as `id`.
    pub(crate) workspace_id: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) is_git_repo: bool,
    /// What its current session is at.
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_session_id: Option<String>,
    /// Sessions that take prompts.
    pub(crate) sessions: Vec<WorkspaceSession>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct WorkspaceSession {
    pub(crate) session_id: String,
    pub(crate) agent_type: String,
    pub(crate) status: String,
    /// The door it was begun through.
    pub(crate) started_by: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Workspaces {
    pub(crate) workspaces: Vec<Workspace>,
}

fn described(call: &Call, folder: &Path) -> Workspace {
    let current = call.state.engine.current_session(folder).map(|session| session.view());
    let views = call.sessions_in(Some(folder)).into_iter().map(|session| session.view());
    let open = views.filter(|view| view.status != ostler_engine::session::Status::Closed);
    Workspace {
        id: id_of(folder),
        workspace_id: id_of(folder),
        name: name_of(folder),
        path: shown(folder),
        // A worktree has a file there.
        is_git_repo: folder.join(".git").exists(),
        status: current.as_ref().map_or("idle", state_of).to_owned(),
        current_session_id: current.as_ref().map(agent::id_of),
        sessions: open
            .map(|view| WorkspaceSession {
                session_id: agent::id_of(&view),
                agent_type: view.agent.name().to_owned(),
                status: state_of(&view).to_owned(),
                started_by: view.door,
            })
            .collect(),
    }
}

pub(crate) fn list(_: &MayWait, call: &Call, _: Nothing) -> Result<Workspaces, Error> {
    Ok(Workspaces { workspaces: call.workspaces().iter().map(|folder| described(call, folder)).collect() })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct WhichParams {
    pub(crate) workspace_id: Option<String>,
}

pub(crate) fn get(_: &MayWait, call: &Call, params: WhichParams) -> Result<Workspace, Error> {
    let folder = call.folder(params.workspace_id.as_deref())?;
    Ok(described(call, &folder))
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct AddParams {
    /// An absolute path.
    pub(crate) path: String,
}

pub(crate) fn add(wait: &MayWait, call: &Call, params: AddParams) -> Result<Workspace, Error> {
    let folder = PathBuf::from(&params.path);
    let known = call.workspaces().contains(&folder);
    if !known {
        if call.state.settings.repo.is_some() {
            return Err(Error::new(Code::Forbidden, "only the repository of `cdev start --repo` is served"));
        }
        // Who may look at any folder may as well start commands there.
        call.needs(Right::TypeIntoTerminals)?;
        call.root(wait, &folder)?;
        call.state.engine.list_workspace(wait, &folder, true).map_err(Error::internal)?;
    }
    Ok(described(call, &folder))
}

pub(crate) fn remove(wait: &MayWait, call: &Call, params: WhichParams) -> Result<Success, Error> {
    let folder = call.folder(params.workspace_id.as_deref())?;
    call.needs(Right::TypeIntoTerminals)?;
    let success = call.state.engine.list_workspace(wait, &folder, false).map_err(Error::internal)?;
    Ok(Success { success })
}

/// Which workspaces' events a connection is told of.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Subscriptions {
    pub(crate) success: bool,
    /// These; every one where none is named.
    pub(crate) workspaces: Vec<String>,
}

fn subscribed(
    call: &Call,
    change: impl FnOnce(&mut std::collections::BTreeSet<String>),
) -> Result<Subscriptions, Error> {
    let mut wanted = call.socket("subscribing")?.wanted();
    change(&mut wanted.workspaces);
    Ok(Subscriptions { success: true, workspaces: wanted.workspaces.iter().cloned().collect() })
}

pub(crate) fn subscribe(call: &Call, params: WhichParams) -> Result<Subscriptions, Error> {
    let id = id_of(&call.folder(params.workspace_id.as_deref())?);
    subscribed(call, |all| _ = all.insert(id))
}

pub(crate) fn unsubscribe(call: &Call, params: WhichParams) -> Result<Subscriptions, Error> {
    let id = id_of(&call.folder(params.workspace_id.as_deref())?);
    subscribed(call, |all| _ = all.remove(&id))
}

pub(crate) fn subscribe_all(call: &Call, _: Nothing) -> Result<Subscriptions, Error> {
    subscribed(call, std::collections::BTreeSet::clear)
}

pub(crate) fn subscriptions(call: &Call, _: Nothing) -> Result<Subscriptions, Error> {
    subscribed(call, |_| {})
}
