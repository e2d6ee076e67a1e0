//! Questions that wait for a human: one inbox for every door.
//!
//! A request is stored before anybody sees it, shown everywhere, and decided once. The decision is bound to the hash of the
//! whole content, recorded before anything follows from it, and carried out at most once, also when the daemon dies at any
//! moment. What may follow what is one pure function ([`machine::next`]); everything else here is storage and waiting.

mod chain;
mod checkpoint;
pub(crate) mod clock;
mod command;
mod confirmed;
mod contents;
mod desk;
mod devices;
#[cfg(test)]
mod devices_tests;
mod error;
mod flood;
#[cfg(test)]
mod growth_tests;
mod held_rules;
#[cfg(test)]
mod held_tests;
mod inbox;
mod layout;
mod live;
mod machine;
#[cfg(test)]
mod model;
mod record;
mod replay;
mod rules;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod ticket;
mod vouch;
#[cfg(test)]
mod vouch_tests;
mod walk;

use std::time::Duration;

use ostler_story::{By, Decision};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use chain::{Entry, Verified};
pub(crate) use clock::{boot_id, named_boot};
pub use command::{CommandContent, StageContent};
pub use confirmed::Setting;
pub use desk::{Settings, Trace};
pub use error::{AskError, DecideError};
pub use held_rules::HeldRule;
pub use inbox::Inbox;
pub use machine::{Refusal, State, next};
pub use record::{Outcome, Record, Stream};
pub use rules::{Effect, NewRule, Rule, RuleScope};
pub use store::StoreError;
pub use ticket::Ticket;
pub(crate) use vouch::Witness;

/// What is being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// May this command run?
    Command,
    /// May the agent use this tool?
    ToolUse,
    /// A question of the agent to its user.
    Question,
}

/// Whom a request dies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The connection it came by: when that is gone for good, so is the request.
    Connection,
    /// An agent's session, which outlives the daemon.
    Session,
}

/// Who asks: what the system says, and what they say of themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The door it came through.
    pub door: String,
    /// The peer's user, as the system tells it.
    pub uid: u32,
    /// The peer's process, as the system tells it.
    pub pid: Option<u32>,
    /// The session that the client claims to be.
    pub claimed_session: String,
    /// The machine that the client claims to be on.
    pub claimed_host: String,
    /// The client program and version, as it says.
    pub client: String,
    /// What the peer belongs to, as the system tells it: a session, or else the hosted process that it descends from.
    pub verified_session: Option<String>,
}

/// A request on its way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// What is being asked.
    pub kind: AskKind,
    /// The whole of it as JSON, always written the same way: this is what the hash is over and what a decision is bound to.
    pub content: String,
    /// One line for lists.
    pub title: String,
    /// Whether a yes lets something run as another user.
    pub privileged: bool,
    /// Who asks.
    pub asker: Asker,
    /// Why, in the asker's words.
    pub reason: String,
    /// How long it may wait once somebody could see it.
    pub after_shown: Option<Duration>,
    /// How long it may wait at all.
    pub after_asked: Option<Duration>,
    /// Whom it dies with.
    pub bound: Bound,
    /// The asker's own name for it: the same name again is a replay.
    pub key: Option<String>,
    /// The folder it is about, for rules.
    pub workspace: Option<String>,
    /// Whether it is not put again for a while once it was refused several times.
    pub tires: bool,
}

/// A request as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// `a` and twelve letters.
    pub id: String,
    /// What was asked.
    pub ask: Ask,
    /// SHA-256 of the content, in hex.
    pub hash: String,
    /// When, in milliseconds since 1970.
    pub asked_at: u64,
    /// Where it stands.
    pub state: State,
    /// Who decided, and when in milliseconds since 1970.
    pub decided: Option<(By, u64)>,
    /// Whoever decided shows the terminal of the command, so that sudo can ask for a password there.
    pub relayed: bool,
    /// Milliseconds that are left to decide; nothing when it waits for as long as it takes.
    pub expires_in: Option<u64>,
}

/// The hash that a decision is bound to.
pub fn content_hash(content: &str) -> String {
    hex(&Sha256::digest(content.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
