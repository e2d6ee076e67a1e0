//! Adapters for coding agents: prompts and answers in, events out.
//!
//! # Theory of operation
//! An agent is a program with a pipe at each end. An [`Adapter`] says how to start it ([`Launch`]), turns prompts, answers
//! and interrupts into bytes for its stdin, and turns each line of its stdout into [`Event`]s, one vocabulary for every
//! agent. It is a pure fold: its state depends on nothing but the setup, the bytes sent so far and the lines read so far,
//! so a daemon that was killed rebuilds it from the journals. It does no I/O, knows no clock and starts nothing.
//!
//! # Rebuilding
//! Make the adapter anew, give [`Adapter::sent`] every line that already went to the agent's stdin, then
//! [`Adapter::line`] every line of its stdout. The events are those of the first time. The replies are **only** those that
//! are still owed: what the ledger holds is never said twice.

pub mod acp;
mod adapter;
mod asks;
mod blocks;
pub mod claude;
pub mod codex;
pub mod echo;
mod json;
mod lines;
mod model;
pub mod oneshot;
mod probe;
mod rpc;
mod screen;
mod setup;
pub mod transcript;

pub use adapter::{Adapter, AnswerError, Lined, PromptError, open};
pub use lines::{MAX_LINE, Piece, Splitter};
pub use probe::probe;
pub use screen::screen;
pub use setup::{Launch, Setup, Unsupported};
