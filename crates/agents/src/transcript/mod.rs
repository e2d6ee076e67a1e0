//! What an agent's own transcript says: a line in, a message and what it tells of the conversation out. Pure, as adapters are:
//! where transcripts are and how they are read is `workspace::history`. What a version does not know is left out, never an error.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod time;

use ostler_story::{Agent, Element, Json, Message, Usage};
use serde::Deserialize;

pub use opencode::{message as opencode_message, model as opencode_model};

/// Who wrote a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recorder {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl Recorder {
    /// Each of them.
    pub const ALL: [Recorder; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// Its agent.
    pub fn agent(self) -> Agent {
        match self {
            Self::Claude => Agent::Claude,
            Self::Codex => Agent::Codex,
            Self::Gemini => Agent::Gemini,
            Self::Opencode => Agent::Opencode,
        }
    }

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// The one that people call this.
    pub fn known(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recorder| recorder.name() == name)
    }
}

/// What a line tells of the whole conversation, each only if it does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// The agent's own id of it.
    pub id: Option<String>,
    /// Where it works.
    pub workspace: Option<String>,
    /// The branch that was checked out there.
    pub branch: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    /// What the agent calls it.
    pub title: Option<String>,
    /// When the line was written, in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// What all of it has used so far.
    pub total: Option<Usage>,
    /// What one answer has used, under its id: the same id again is the same answer.
    pub step: Option<(String, Usage)>,
}

/// What a line says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// A message, if it is one.
    pub message: Option<Message>,
    /// What it tells of the conversation.
    pub about: About,
}

/// The one member that decides whether the rest of a line is worth reading: some are hundreds of kilobytes of prompt.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<std::borrow::Cow<'a, str>>,
}

/// Reads a line; nothing for one that is not JSON, or nested deeper than anybody writes.
pub fn line(recorder: Recorder, line: &[u8]) -> Option<Told> {
    let head: Head<'_> = serde_json::from_slice(line).ok()?;
    let kind = head.kind.as_deref().unwrap_or_default();
    let read: fn(&str, &Json) -> Told = match recorder {
        Recorder::Claude if claude::KINDS.contains(&kind) => claude::told,
        Recorder::Codex if codex::KINDS.contains(&kind) => codex::told,
        Recorder::Gemini if gemini::KINDS.contains(&kind) => gemini::told,
        _ => return Some(Told::default()),
    };
    let value: Json = serde_json::from_slice(line).ok()?;
    let mut told = read(kind, &value);
    told.message = told.message.filter(|message| !message.elements.is_empty());
    Some(told)
}

/// Whether a line may be a message, without reading what it says.
pub fn may_be_message(recorder: Recorder, line: &[u8]) -> bool {
    let head: Option<Head<'_>> = serde_json::from_slice(line).ok();
    let kind = head.as_ref().and_then(|head| head.kind.as_deref()).unwrap_or_default();
    match recorder {
        Recorder::Claude => claude::KINDS.contains(&kind),
        Recorder::Codex => codex::KINDS.contains(&kind),
        Recorder::Gemini => !kind.is_empty() && gemini::KINDS.contains(&kind),
        Recorder::Opencode => false,
    }
}

/// A picture, whose bytes stay where they are: in base64, perhaps behind what says so.
fn picture(mime: String, data: Option<&str>) -> Element {
    let data = data.map_or(0, |data| data.rsplit(',').next().unwrap_or_default().len());
    Element::Image { mime, bytes: (data as u64 / 4).saturating_mul(3) }
}

#[cfg(test)]
mod tests;
