//! The sudo-proxy door: one JSON line per connection, a human in between.

mod answer;
mod chars;
mod login;
mod request;
mod time;
mod wire;
pub mod words;

pub use chars::is_treacherous;
pub use request::{Refusal, Request};
pub use time::TimeError;
