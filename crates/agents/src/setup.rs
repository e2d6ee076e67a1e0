//! What a session wants of an agent, and how the agent is started for it.
//!
//! A prompt never appears in a [`Launch`]: command lines are seen by every user of the machine, have a limit, and a prompt
//! that begins with `--` would be an option. What names a model, a mode or a conversation is checked for the same reason.

use ostler_story::{Agent, Autonomy};

/// What a session wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Which agent.
    pub agent: Agent,
    /// The program, if it is not found by its usual name.
    pub program: Option<String>,
    /// The workspace, absolute.
    pub cwd: String,
    /// The model, if not the agent's default.
    pub model: Option<String>,
    /// What it may do without asking.
    pub autonomy: Autonomy,
    /// The agent's own id of the conversation to go on with.
    pub resume: Option<String>,
    /// A UUID for a new conversation, where the agent lets us choose.
    pub new_session_id: String,
    /// The agent's own word for a mode, instead of the one that `autonomy` stands for.
    pub raw_mode: Option<String>,
}

/// How to start the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program: a name to look up, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its environment has beyond the usual.
    pub env: Vec<(String, String)>,
    /// Whether its stdin ends after the prompt: one process for each turn.
    pub close_stdin_after_prompt: bool,
}

/// What this agent can not do. Said when a session is made or changed, never silently lived with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{agent} cannot {what}")]
pub struct Unsupported {
    /// Which agent.
    pub agent: String,
    /// What it can not do, and what to do instead.
    pub what: String,
}

/// 256 bytes: longer than any model, mode or conversation id that a CLI has.
const MAX_WORD: usize = 256;

impl Setup {
    /// An error about this agent.
    pub(crate) fn cannot(&self, what: impl Into<String>) -> Unsupported {
        Unsupported { agent: self.agent.name().to_owned(), what: what.into() }
    }

    /// The program to start when it is usually called `name`.
    pub(crate) fn program(&self, name: &str) -> String {
        self.program.clone().unwrap_or_else(|| name.to_owned())
    }

    /// Refuses words that a command line could take for something else.
    pub(crate) fn check(&self) -> Result<(), Unsupported> {
        self.word("use the model", self.model.as_deref())?;
        self.word("use the mode", self.raw_mode.as_deref())?;
        self.word("resume", self.resume.as_deref())?;
        self.word("use the session id", Some(&self.new_session_id))?;
        if !self.cwd.starts_with('/') {
            return Err(self.cannot(format!("work in {:?}: the path must be absolute", self.cwd)));
        }
        Ok(())
    }

    fn word(&self, verb: &str, word: Option<&str>) -> Result<(), Unsupported> {
        let Some(word) = word else { return Ok(()) };
        let odd = |c: char| c.is_control() || c.is_whitespace();
        if word.is_empty() || word.len() > MAX_WORD || word.starts_with('-') || word.contains(odd) {
            let shown: String = word.chars().take(40).collect();
            return Err(self.cannot(format!("{verb} {shown:?}: no blanks, no leading '-', 1 to {MAX_WORD} bytes")));
        }
        Ok(())
    }
}
