//! Every agent: what it is told and what it says. All tests are one program, which is compiled and linked once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod acp;
mod claude;
mod codex;
mod doors;
mod echo;
mod fold;
mod oneshot;
mod support;
