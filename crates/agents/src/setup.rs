//! What a session wants of an agent, and how the agent is started for it.
//!
//! A prompt never appears in a [`Launch`]: command lines are seen by every user of the machine, have a limit, and a prompt
//! that begins with `--` would be an option. What names a model, a mode or a conversation is checked for the same reason.

use serde::{Deserialize, Serialize};

/// Which agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Any command that speaks the Agent Client Protocol.
    Acp {
        /// The program and its arguments. Of one that has a name: as the settings have it when it is started, else empty.
        command: Vec<String>,
        /// What the settings call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The built-in agent that says back what it is told.
    Echo,
}

impl Agent {
    /// The names of those that need no settings and no command.
    pub const KNOWN: [&str; 5] = ["claude", "codex", "gemini", "opencode", "echo"];

    /// One of [`Self::KNOWN`].
    pub fn known(name: &str) -> Option<Self> {
        Some(match name {
            "claude" => Agent::Claude,
            "codex" => Agent::Codex,
            "gemini" => Agent::Gemini,
            "opencode" => Agent::Opencode,
            "echo" => Agent::Echo,
            _ => return None,
        })
    }

    /// Any command that speaks the Agent Client Protocol.
    pub fn acp(command: Vec<String>) -> Self {
        Agent::Acp { command, name: None }
    }

    /// The name that people use.
    pub fn name(&self) -> &str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Opencode => "opencode",
            Agent::Acp { name: Some(name), .. } => name,
            Agent::Acp { command, .. } => command.first().map_or("acp", String::as_str),
            Agent::Echo => "echo",
        }
    }
}

/// How much an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autonomy {
    /// Everything: its requests are answered with yes by policy.
    All,
    /// Changes files of the workspace, asks for the rest.
    Edits,
    /// Looks and plans; changes nothing that nobody allowed.
    Plan,
    /// Asks before it changes or runs anything.
    Ask,
}

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

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type.
        mime: String,
        /// Its bytes in base64.
        data: String,
    },
    /// A file of the workspace to look at.
    File {
        /// Its path.
        path: String,
    },
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
