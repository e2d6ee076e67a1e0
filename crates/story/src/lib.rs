//! What is said, asked, answered and decided in a session, without any I/O.
//!
//! # Theory of operation
//! A session's journal is a list of records. Each holds [`Fact`]s of the engine, or [`Event`]s: what a line of an agent's output
//! means, in one vocabulary for every agent. Both are JSON with a `type`; a member may be added, none may change its meaning.
//!
//! Whoever tells a session to somebody takes it from [`Story`], the one place where records become turns: what begins and ends,
//! which words are new, what a tool was called, who waits for what, and why it is over. Doors put [`Piece`]s into the words
//! of their protocol; none of them folds records itself.

mod agent;
mod block;
mod changed;
mod content;
mod decision;
mod diff;
mod element;
mod event;
mod exit;
mod fact;
mod feed_kind;
mod fold;
mod offers;
mod path;
mod piece;
mod rights;
mod rule;
mod shown;
mod tool;
pub mod words;

pub use agent::{Agent, Autonomy, Drive};
pub use block::Block;
pub use changed::{ToolChanged, TurnChanged};
pub use content::ToolContent;
pub use decision::{Answers, By, Decision, Nobody, Signed, answers_from, by_in_words, json_of, unwrapped};
pub use diff::{Diff, Mark, is_something, take_diffs, take_shown};
pub use element::{Element, Message, Speaker};
pub use event::{
    Ask, Asked, Can, EndReason, ErrorKind, Event, Json, PlanEntry, PlanStatus, Question, QuestionOption, Usage,
};
pub use exit::Exit;
pub use fact::{Alias, Created, ENGINE, Fact, Intent, Lifetime, Said, Settings, VERSION, payload, said};
pub use feed_kind::FeedKind;
pub use fold::Story;
pub use offers::{Choice, Limit, LimitState, McpServer, Offer, Offers};
pub use path::FilePath;
pub use piece::{Ended, Heard, Piece, Prompt, Stop, Voice, Why};
pub use rights::{NoRight, Preset, Right, Rights};
pub use rule::{ArgPattern, Pattern};
pub use shown::{is_hidden, is_plain};
pub use tool::{Location, ToolCall, ToolKind};
