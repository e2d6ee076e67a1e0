//! What may follow what: the life of one request as a pure function.
//! Every transition that the inbox records passes through [`next`], and the model check runs this very function.

use serde::Serialize;

use super::{Decision, Outcome};

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Nobody has decided.
    Pending {
        /// Somebody could have seen it: its time runs.
        shown: bool,
    },
    /// A yes is recorded; nothing has followed from it yet.
    Accepted {
        /// The yes.
        decision: Decision,
    },
    /// It was carried out: the command was started, the answer delivered. `outcome` comes when it is over.
    Applied {
        /// What came of it.
        outcome: Option<Outcome>,
    },
    /// A yes that could not be carried out. Nothing ran.
    Failed {
        /// Why.
        why: String,
    },
    /// No.
    Denied {
        /// Told to the asker.
        message: String,
        /// Whether the asker's turn ends.
        interrupt: bool,
    },
    /// Nobody decided in time.
    Expired,
    /// The asker went away before anything was carried out.
    Withdrawn {
        /// Why.
        why: String,
    },
    /// A yes from before the machine was restarted: nobody knows whether anything followed, and nothing will.
    Unknown,
}

/// Something that happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// A surface shows it.
    Shown,
    /// Somebody decided about the content with this hash.
    Decided(&'a Decision, &'a str),
    /// Its time is over.
    Expired,
    /// The asker is gone.
    Withdrawn(&'a str),
    /// It is being carried out: recorded once that is certain.
    Applied,
    /// It could not be carried out.
    Failed(&'a str),
    /// It is over.
    Finished(&'a Outcome),
    /// The machine was restarted in between.
    Rebooted,
    /// Nobody vouches for the yes: it is asked again.
    Suspended,
}

/// Why a step is not possible; the state stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The decision names other content than what was asked.
    #[error("the decision is about other content than what was asked")]
    OtherContent,
    /// It is settled, or not there yet.
    #[error("not possible any more")]
    NotNow,
}

impl State {
    /// A request that was just stored.
    pub fn new() -> Self {
        Self::Pending { shown: false }
    }

    /// Whether somebody may still decide.
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    /// Whether nothing can happen any more.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Pending { .. } | Self::Accepted { .. } | Self::Applied { outcome: None })
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

/// The state after a step, or why there is none. `hash` is of what was asked.
pub fn next(state: &State, step: &Step<'_>, hash: &str) -> Result<State, Refusal> {
    match (state, step) {
        (State::Pending { shown: false }, Step::Shown) => Ok(State::Pending { shown: true }),
        (State::Pending { .. }, Step::Decided(_, about)) if *about != hash => Err(Refusal::OtherContent),
        (State::Pending { .. }, Step::Decided(Decision::Deny { message, interrupt }, _)) => {
            Ok(State::Denied { message: message.clone(), interrupt: *interrupt })
        }
        (State::Pending { .. }, Step::Decided(decision, _)) => Ok(State::Accepted { decision: (*decision).clone() }),
        (State::Pending { .. }, Step::Expired) => Ok(State::Expired),
        (State::Pending { .. } | State::Accepted { .. }, Step::Withdrawn(why)) => {
            Ok(State::Withdrawn { why: (*why).to_owned() })
        }
        (State::Accepted { .. }, Step::Applied) => Ok(State::Applied { outcome: None }),
        (State::Accepted { .. }, Step::Failed(why)) => Ok(State::Failed { why: (*why).to_owned() }),
        (State::Accepted { .. }, Step::Rebooted) => Ok(State::Unknown),
        (State::Accepted { .. }, Step::Suspended) => Ok(State::new()),
        (State::Applied { outcome: None }, Step::Finished(outcome)) => {
            Ok(State::Applied { outcome: Some((*outcome).clone()) })
        }
        _ => Err(Refusal::NotNow),
    }
}
