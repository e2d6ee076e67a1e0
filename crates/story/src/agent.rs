//! Which agent a conversation is with, how it is driven, and how much it may do.

use serde::{Deserialize, Serialize};

/// Which agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    /// Whether it has a screen of its own that takes up a conversation.
    pub fn has_screen(&self) -> bool {
        matches!(self, Agent::Claude | Agent::Codex | Agent::Opencode)
    }
}

/// How much an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl Autonomy {
    /// Its word, on the disk and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Edits => "edits",
            Self::Plan => "plan",
            Self::Ask => "ask",
        }
    }
}

/// The way an agent is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Drive {
    /// JSON lines both ways, with permission requests (claude).
    Stream,
    /// An app server (codex).
    AppServer,
    /// The Agent Client Protocol.
    Acp,
    /// The built-in agent's own lines.
    Echo,
    /// One process for each prompt, which it reads from stdin. Nothing can be asked.
    Oneshot,
}
