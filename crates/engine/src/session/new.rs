//! Making a session. Nothing is started: that waits for the first prompt.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use ostler_agents::{Setup, Unsupported, open};
use ostler_story::{Agent, Alias, Autonomy, Created, Drive, Lifetime, Settings, VERSION};

use super::sessions::NoProgram;
use super::state::State;
use super::worktree::TreeError;
use crate::names::NameTaken;

/// A session on its way in.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Which agent.
    pub agent: Agent,
    /// The agent's program, if it is not found by its usual name.
    pub program: Option<String>,
    /// Where it works: an absolute folder that is there.
    pub workspace: PathBuf,
    /// What it may do without asking.
    pub autonomy: Autonomy,
    /// The agent's own word for a mode, instead.
    pub raw_mode: Option<String>,
    /// The model, if not the agent's default.
    pub model: Option<String>,
    /// How long a process lives.
    pub lifetime: Lifetime,
    /// The door it comes through.
    pub door: String,
    /// A name for people.
    pub name: Option<String>,
    /// The agent's own id of the conversation to go on with.
    pub resume: Option<String>,
    /// The caller's key: the same key again gives the same session.
    pub key: Option<String>,
    /// What the door's clients call it: an open session of that name is this one. Where they chose no name it is empty, and
    /// the session's UUID becomes its name.
    pub alias: Option<Alias>,
    /// Variables for the agent, kept in memory only.
    pub env: Vec<(OsString, OsString)>,
    /// It works in a git work tree of its own, made of the repository around its workspace.
    pub worktree: Option<NewTree>,
    /// There is none unless the agent's program is where the daemon looks for it.
    pub program_there: bool,
    /// The session or process that it is made from, if that is hosted.
    pub owner: Option<String>,
}

/// A work tree to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTree {
    /// The branch, which may be there; one of its own when left out.
    pub branch: Option<String>,
}

impl NewSession {
    /// An agent in a folder, everything else as usual.
    pub fn new(agent: Agent, workspace: PathBuf, door: &str) -> Self {
        Self {
            agent,
            program: None,
            workspace,
            autonomy: Autonomy::Ask,
            raw_mode: None,
            model: None,
            lifetime: Lifetime::Session,
            door: door.to_owned(),
            name: None,
            resume: None,
            key: None,
            alias: None,
            env: Vec::new(),
            worktree: None,
            program_there: false,
            owner: None,
        }
    }
}

/// Why there is no session. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The workspace is not a folder.
    #[error("{}: {why}", path.display())]
    Workspace {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The agent can not do what it is to do.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The key made another session before, which this is not.
    #[error("this key was used for another session: {0}")]
    KeyTaken(String),
    /// Somebody alive is called that already.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// The agent's program is not there.
    #[error(transparent)]
    NoProgram(#[from] NoProgram),
    /// There is no work tree for it.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The journal could not be made.
    #[error("the session could not be stored: {0}")]
    Io(#[from] io::Error),
}

/// The way an agent is most likely driven, before anybody has looked at its program.
pub(super) fn usual(agent: &Agent, oneshot: bool) -> Drive {
    match agent {
        Agent::Echo => Drive::Echo,
        Agent::Acp { .. } => Drive::Acp,
        _ if oneshot => Drive::Oneshot,
        Agent::Claude => Drive::Stream,
        Agent::Codex => Drive::AppServer,
        Agent::Gemini | Agent::Opencode => Drive::Acp,
    }
}

/// What an adapter is made from.
pub(super) fn setup(created: &Created, settings: &Settings, resume: Option<String>, echo: &str) -> Setup {
    let program = match created.agent {
        // Any program that speaks its lines can take its place.
        Agent::Echo => Some(created.program.clone().unwrap_or_else(|| echo.to_owned())),
        _ => created.program.clone(),
    };
    Setup {
        agent: created.agent.clone(),
        program,
        cwd: created.workspace.to_string_lossy().into_owned(),
        model: settings.model.clone(),
        autonomy: settings.autonomy,
        resume,
        new_session_id: created.uuid.clone(),
        raw_mode: settings.raw_mode.clone(),
    }
}

/// Whether the agent can do what these settings ask.
pub(super) fn check(created: &Created, settings: &Settings, oneshot: bool) -> Result<(), Unsupported> {
    let setup = setup(created, settings, settings.agent_session.clone(), "ostler");
    open(&setup, usual(&created.agent, oneshot)).map(drop)
}

/// A work tree of its own, and the folder that was asked for.
pub(super) struct MadeFor {
    pub(super) worktree: PathBuf,
    pub(super) repository: PathBuf,
}

/// The first state of a session.
pub(super) fn begin(
    new: NewSession,
    made_for: Option<MadeFor>,
    (id, uuid): (String, String),
    joiner: Option<String>,
    oneshot: bool,
) -> Result<State, CreateError> {
    let bad = |why: String| CreateError::Workspace { path: new.workspace.clone(), why };
    if !new.workspace.is_absolute() {
        return Err(bad("the path must be absolute".into()));
    }
    match std::fs::metadata(&new.workspace) {
        Ok(meta) if meta.is_dir() => {
            rustix::fs::access(&new.workspace, rustix::fs::Access::EXEC_OK)
                .map_err(|error| bad(format!("cannot be entered: {}", io::Error::from(error))))?;
        }
        Ok(_) => return Err(bad("not a folder".into())),
        Err(error) => return Err(bad(error.to_string())),
    }
    let settings = Settings {
        autonomy: new.autonomy,
        raw_mode: new.raw_mode,
        model: new.model,
        name: new.name,
        lifetime: new.lifetime,
        agent_session: new.resume,
    };
    let alias = new.alias.map(|alias| match alias.id.is_empty() {
        true => Alias { id: uuid.clone(), ..alias },
        false => alias,
    });
    let created = Created {
        version: Some(VERSION),
        id,
        uuid,
        agent: new.agent,
        program: new.program,
        workspace: new.workspace,
        door: new.door,
        key: new.key,
        alias,
        worktree: made_for.as_ref().map(|made| made.worktree.clone()),
        repository: made_for.map(|made| made.repository),
        owner: new.owner,
        joiner,
        settings,
    };
    check(&created, &created.settings, oneshot)?;
    Ok(State::begin(created, super::now_ms()))
}
