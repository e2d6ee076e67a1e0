//! What a session's journal says: facts of the engine's own, and events derived from an agent's output.
//! Both are JSON with a `type`, one object on a line. A member may be added; none may change its meaning.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exit::exit_as_members;
use crate::{Agent, Autonomy, Block, By, Decision, Drive, Event, Exit, Json, by_in_words};

/// The source of a record that no process of an agent said.
pub const ENGINE: u32 = 0;

/// The words of a session's journal. A word more is no new version: whoever does not know it passes over it.
pub const VERSION: u32 = 1;

/// How long an agent's process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// One process for each prompt.
    Turn,
    /// Kept between prompts, and stopped when nobody has prompted it for a while.
    #[default]
    Session,
}

/// A name that the clients of a door chose: each space has its own, and what is closed gives its name back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alias {
    /// The door, or the part of it, whose clients know the name.
    pub space: String,
    /// The name.
    pub id: String,
}

/// What a session was made as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Created {
    /// Which [`VERSION`] of the words it is told in; 1 where nothing is said. An older program refuses a newer session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The session's id.
    pub id: String,
    /// Its UUID: what clients and agents that want one know it by.
    pub uuid: String,
    /// Which agent.
    pub agent: Agent,
    /// The agent's program, if it is not found by its usual name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Where it works.
    pub workspace: PathBuf,
    /// The door it was made through.
    pub door: String,
    /// The caller's key, by which the same request is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What a door's clients call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// The git worktree that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
    /// With a worktree: the folder of the repository that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
    /// The session or process that it was made from, if that is hosted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The program with an environment of its own that it was made through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joiner: Option<String>,
    /// What can change later.
    pub settings: Settings,
}

/// What can change during a session. It holds from the agent's next process on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// What the agent may do without asking.
    pub autonomy: Autonomy,
    /// The agent's own word for a mode, instead of the one that `autonomy` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_mode: Option<String>,
    /// The model, if not the agent's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long an agent's process lives.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// The agent's own id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
}

/// Bytes for an agent's stdin, written down before they are handed over: where they begin and how many they are, so that a
/// daemon that finds the ledger shorter knows what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intent {
    /// The length of the stdin ledger before.
    pub at: u64,
    /// How many bytes follow.
    pub len: u64,
}

/// What the engine itself says about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// The session begins.
    Created(Box<Created>),
    /// A prompt was accepted; it waits for its turn.
    Prompt {
        /// Its number in the session, from 1.
        number: u64,
        /// The client's key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// What it says.
        blocks: Vec<Block>,
        /// The door it came through.
        #[serde(default)]
        door: String,
    },
    /// A prompt that waits says something else.
    Reworded {
        /// Which.
        number: u64,
        /// Its words, in place of those before; its pictures and files stay.
        text: String,
    },
    /// A prompt will not run.
    Dropped {
        /// Which.
        number: u64,
        /// Why.
        why: String,
    },
    /// A prompt's turn begins.
    Turn {
        /// The prompt.
        number: u64,
    },
    /// An agent's process is started, unless the daemon dies before it can be.
    Process {
        /// Its number in the session, from 1: what events derived from it carry.
        source: u32,
        /// How it is driven.
        drive: Drive,
        /// The conversation that it goes on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<String>,
        /// What it was told about autonomy and model.
        settings: Settings,
    },
    /// The turn's prompt goes to the agent now.
    Sent {
        /// The prompt.
        number: u64,
        /// The agent's process.
        source: u32,
        /// When, in clock ticks since boot: what the agent starts from now on it starts for this turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ticks: Option<u64>,
        /// The bytes.
        #[serde(flatten)]
        intent: Intent,
    },
    /// The inbox has a request of the agent.
    Approval {
        /// The agent's id of the request.
        request: String,
        /// The agent's process.
        source: u32,
        /// The inbox's id.
        approval: String,
    },
    /// The answer to a request goes to the agent now.
    Answered {
        /// The agent's id of the request.
        request: String,
        /// The agent's process.
        source: u32,
        /// The inbox's id.
        approval: String,
        /// The answer.
        decision: Decision,
        /// Who gave it.
        #[serde(with = "by_in_words")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        by: By,
        /// The bytes.
        #[serde(flatten)]
        intent: Intent,
    },
    /// Somebody wants the turn to stop.
    Interrupt {
        /// The prompt whose turn it is.
        number: u64,
        /// Its process is ended, not asked.
        end_process: bool,
    },
    /// The settings are these from now on.
    Changed {
        /// All of them.
        settings: Settings,
    },
    /// An agent's process wrote to stderr: whole lines, or the rest at its end. The bytes are in the journal of the process.
    Stderr {
        /// Which.
        source: u32,
        /// Where they begin.
        from: u64,
        /// Where they end.
        to: u64,
    },
    /// An agent's process is over and everything it said is in the journal.
    Exited {
        /// Which.
        source: u32,
        /// How.
        #[serde(flatten, with = "exit_as_members")]
        #[cfg_attr(feature = "schema", schemars(with = "exit_as_members::Members"))]
        exit: Exit,
        /// The end of what it wrote to stderr.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
    },
    /// Something that only the engine could notice: a program that does not start, a turn whose agent is gone.
    Said {
        /// In the words of all events.
        event: Event,
    },
    /// The machine was restarted: what waits goes on when somebody says so, with a prompt or without, and not by itself.
    Held {},
    /// Somebody said so, without a prompt.
    Released {},
    /// The agent's own screen takes the conversation over, unless the daemon dies before it can be opened.
    Screen {
        /// Its number in the session, from 1.
        number: u32,
    },
    /// That screen has ended: the session takes prompts again.
    ScreenEnded {
        /// Which.
        number: u32,
        /// How.
        #[serde(flatten, with = "exit_as_members")]
        #[cfg_attr(feature = "schema", schemars(with = "exit_as_members::Members"))]
        exit: Exit,
    },
    /// The session is over: no more prompts.
    Closed {},
}

/// One object of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// By the engine.
    Fact(Fact),
    /// By an agent.
    Event(Event),
}

impl Said {
    /// An object of a record, wherever it came from: facts and events never have the same `type`. `None` for what this version
    /// has no word for.
    pub fn read(object: &Json) -> Option<Self> {
        let fact = Fact::deserialize(object).ok().map(Said::Fact);
        fact.or_else(|| Event::deserialize(object).ok().map(Said::Event))
    }
}

/// What a record says. Objects that this version does not know are left out.
pub fn said(source: u32, payload: &[u8]) -> Vec<Said> {
    let lines = payload.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    match source {
        ENGINE => lines.filter_map(|line| serde_json::from_slice(line).ok()).map(Said::Fact).collect(),
        _ => lines.filter_map(|line| serde_json::from_slice(line).ok()).map(Said::Event).collect(),
    }
}

/// The payload of a record: one JSON object on each line.
pub fn payload<T: Serialize>(objects: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for object in objects {
        // These types always serialise, and writing to a vector cannot fail.
        if serde_json::to_writer(&mut bytes, object).is_ok() {
            bytes.push(b'\n');
        }
    }
    bytes
}
