//! A failure on its way to the report.

use crate::outcome::{FailKind, Outcome};

/// Why the run came to nothing. The message is for people and holds neither output nor secrets.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) stage: Option<usize>,
    pub(crate) kind: FailKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: FailKind, message: impl Into<String>) -> Self {
        Self { stage: None, kind, message: message.into() }
    }

    /// The system refused something that has nothing to do with a certain stage.
    pub(crate) fn system(doing: &str, error: impl std::fmt::Display) -> Self {
        Self::new(FailKind::System, format!("{doing}: {error}"))
    }

    pub(crate) fn at(mut self, stage: usize) -> Self {
        self.stage = Some(stage);
        self
    }
}

/// How a run can end before its stages do.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Failure),
    /// The limit passed; these stages could not be ended.
    TimedOut(Vec<usize>),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl Stop {
    pub(crate) fn outcome(self, limit: std::time::Duration) -> Outcome {
        match self {
            Stop::Failed(Failure { stage, kind, message }) => Outcome::Failed { stage, kind, message },
            Stop::TimedOut(left) => Outcome::TimedOut { secs: limit.as_secs(), left },
        }
    }
}
