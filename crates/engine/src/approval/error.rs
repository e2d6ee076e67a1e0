//! Why a request was not taken, and why a decision did not count, in words for whoever asked or decided.

use std::time::Duration;

use super::By;
use super::store::StoreError;

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The name was used before.
    #[error("duplicate request id: {0}")]
    Duplicate(String),
    /// Too many of this asker wait already.
    #[error("{0} requests wait for a decision already")]
    TooMany(usize),
    /// It was refused again and again.
    #[error("refused {times} times in a row; asking for the same is refused for another {} s", left.as_secs())]
    Fatigue {
        /// How often.
        times: u32,
        /// For how long.
        left: Duration,
    },
    /// It could not be stored, so it was not shown either.
    #[error("the request could not be stored: {0}")]
    Store(#[from] StoreError),
}

/// Why a decision did not count.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such request.
    #[error("no request is called {0:?}")]
    NotFound(String),
    /// The decision names other content.
    #[error("the decision is about other content than what was asked")]
    OtherContent,
    /// Somebody was first.
    #[error("{what} already, by {by}")]
    AnsweredElsewhere {
        /// What they said.
        what: String,
        /// Who.
        by: By,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// Too late.
    #[error("expired: not answered in time")]
    Expired,
    /// The asker is gone.
    #[error("withdrawn: {0}")]
    Withdrawn(String),
    /// This answer does not fit the question.
    #[error("{0}")]
    DoesNotFit(&'static str),
    /// It could not be recorded, so it does not count.
    #[error("the decision could not be recorded: {0}")]
    Store(#[from] StoreError),
}
