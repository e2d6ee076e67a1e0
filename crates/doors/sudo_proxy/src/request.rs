//! What a request means once every check has passed. The order of checks and their words are the contract; a value of
//! these types is the only thing that is ever resolved, shown or executed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::chars::is_treacherous;
use crate::time::{TimeError, check_fresh};
use crate::wire::{self, Action};

/// More stages than anybody writes; each one costs a process and two pipes.
const STAGES_MAX: usize = ostler_stages::STAGES_MAX;

/// The variables that a request may set, beside those that begin with `LC_`.
const ALLOWED: [&str; 5] = ["LANG", "TZ", "HOME", "DEBIAN_FRONTEND", "TERM"];

/// Why a request was refused before anybody was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing to run.
    #[error("pipeline must not be empty")]
    NoPipeline,
    /// A stage without a command.
    #[error("pipeline stage {0} must not be empty")]
    EmptyStage(usize),
    /// More stages than we start at once.
    #[error("pipeline has {0} stages (max {STAGES_MAX})")]
    TooManyStages(usize),
    /// An argument that could fool a reader.
    #[error("pipeline[{0}][{1}] contains forbidden control/bidi characters")]
    Argument(usize, usize),
    /// A variable's name that could fool a reader; shown escaped.
    #[error("env key '{0}' contains forbidden characters")]
    EnvKey(String),
    /// A variable's value that could fool a reader.
    #[error("env value contains forbidden characters")]
    EnvValue,
    /// A variable that there cannot be.
    #[error("environment variable not allowed: {0} (no variable can have this name)")]
    EnvName(String),
    /// A text that could fool a reader.
    #[error("{0} contains forbidden control/bidi characters")]
    Field(&'static str),
    /// Root has no business with the user's keys.
    #[error("forward_agent is only allowed for unprivileged commands")]
    AgentForRoot,
    /// Not fresh.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// The agent's socket by the back door.
    #[error("SSH_AUTH_SOCK cannot be set in request env; use forward_agent instead")]
    AgentInEnv,
    /// A variable that nobody may set.
    #[error("environment variable not allowed: {0}")]
    EnvNotAllowed(String),
}

/// A request that may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Is anybody there?
    Ping(Request),
    /// End, please.
    Stop(Request),
    /// Run this.
    Run(Request),
}

/// A request in which every text is safe to show and everything asked for is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The client's own id, or one that we made.
    pub id: String,
    /// Where the client says it is.
    pub host: String,
    /// Who the client says it is.
    pub session: String,
    /// When the client says it asked.
    pub time: String,
    /// At least one stage of at least one word each; empty for ping and stop.
    pub pipeline: Vec<Vec<String>>,
    /// Allowed variables only.
    pub env: BTreeMap<String, String>,
    /// Why, in the client's words.
    pub reason: String,
    /// As root, through sudo.
    pub privileged: bool,
    /// With the daemon's SSH agent.
    pub forward_agent: bool,
    /// The client's version; may be empty.
    pub version: String,
}

/// Checks everything that can be checked without remembering other requests.
pub(crate) fn check(wire: wire::Request, now: SystemTime) -> Result<Checked, Refusal> {
    check_shape(&wire)?;
    check_texts(&wire)?;
    if wire.forward_agent && wire.privileged {
        return Err(Refusal::AgentForRoot);
    }
    check_fresh(&wire.time, now)?;
    check_env(&wire.env)?;
    let wire::Request { id, host, session, time, pipeline, action, env, reason, privileged, forward_agent, version } =
        wire;
    let request = Request { id, host, session, time, pipeline, env, reason, privileged, forward_agent, version };
    Ok(match action {
        Action::Ping => Checked::Ping(request),
        Action::Stop => Checked::Stop(request),
        Action::Exec => Checked::Run(request),
    })
}

fn check_shape(wire: &wire::Request) -> Result<(), Refusal> {
    if wire.pipeline.is_empty() && wire.action == Action::Exec {
        return Err(Refusal::NoPipeline);
    }
    for (number, stage) in wire.pipeline.iter().enumerate() {
        if stage.is_empty() {
            return Err(Refusal::EmptyStage(number));
        }
        if let Some(word) = stage.iter().position(|word| is_treacherous(word)) {
            return Err(Refusal::Argument(number, word));
        }
    }
    match wire.pipeline.len() {
        count if count > STAGES_MAX => Err(Refusal::TooManyStages(count)),
        _ => Ok(()),
    }
}

fn check_texts(wire: &wire::Request) -> Result<(), Refusal> {
    if let Some(key) = wire.env.keys().find(|key| is_treacherous(key)) {
        return Err(Refusal::EnvKey(key.escape_debug().to_string()));
    }
    if wire.env.values().any(|value| is_treacherous(value)) {
        return Err(Refusal::EnvValue);
    }
    let texts = [
        ("reason", &wire.reason),
        ("session", &wire.session),
        ("host", &wire.host),
        ("version", &wire.version),
        ("id", &wire.id),
        ("time", &wire.time),
    ];
    match texts.into_iter().find(|(_, text)| is_treacherous(text)) {
        Some((name, _)) => Err(Refusal::Field(name)),
        None => Ok(()),
    }
}

/// Whether a variable can have this name at all.
fn is_name(key: &str) -> bool {
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    key.starts_with(letter) && key.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// One variable that is not allowed refuses the whole request: nothing is dropped in silence.
fn check_env(env: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if env.contains_key("SSH_AUTH_SOCK") {
        return Err(Refusal::AgentInEnv);
    }
    if let Some(key) = env.keys().find(|key| !ALLOWED.contains(&key.as_str()) && !key.starts_with("LC_")) {
        return Err(Refusal::EnvNotAllowed(key.clone()));
    }
    match env.keys().find(|key| !is_name(key)) {
        Some(key) => Err(Refusal::EnvName(key.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "request/tests.rs"]
mod tests;
