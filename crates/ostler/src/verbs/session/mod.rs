//! What verbs about sessions share: finding one, words for it, and following the answer to a prompt.

mod answer;
mod in_place;
mod talk;

use clap::ValueEnum;
use ostler_api::client::ClientError;
use ostler_api::{Autonomy, ErrorKind, SessionEvents, SessionIdParams, SessionInfo, SessionStatus, methods};

use super::Context;
use super::connect::Reached;
use crate::output::{CommandError, Kind, Paint, visible_json};

pub(super) use answer::{Order, deliver, random_key, write_out};
pub(super) use in_place::{Gone, InPlace};
pub(super) use talk::talk;

/// How much an agent may do without asking
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Free {
    /// Never ask; every approval is recorded
    All,
    /// Edit files in the workspace without asking
    Edits,
    /// Plan only, change nothing
    Plan,
    /// Ask before changing or running anything
    Ask,
}

impl From<Free> for Autonomy {
    fn from(free: Free) -> Self {
        match free {
            Free::All => Self::All,
            Free::Edits => Self::Edits,
            Free::Plan => Self::Plan,
            Free::Ask => Self::Ask,
        }
    }
}

impl Context {
    /// The session that `id` means, in whichever instance it is.
    pub(super) fn find_session(&self, id: &str) -> Result<(Reached, SessionInfo), CommandError> {
        let mut matches = Vec::new();
        for mut reached in self.reach_all()? {
            match reached.client.call::<methods::SessionGet>(&SessionIdParams { id: id.to_owned() }) {
                Ok(info) => matches.push((reached, info)),
                // An instance of an older version has no sessions.
                Err(ClientError::Rpc(error))
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnknownMethod) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if matches.len() > 1 {
            let names: Vec<&str> = matches.iter().map(|(reached, _)| reached.found.name.as_str()).collect();
            let message = format!("`{id}` is a session in each of: {}", names.join(", "));
            return Err(CommandError::usage(message).hint("choose one with --instance NAME, or use the whole id"));
        }
        match matches.pop() {
            Some(found) => Ok(found),
            None if self.is_process(id) => {
                Err(CommandError::new(Kind::NotFound, format!("`{id}` is a process, not a session")).hint(format!(
                    "see its output: ostler logs {id}; type to it: ostler attach {id}; end it: ostler kill {id}"
                )))
            }
            None => Err(CommandError::new(Kind::NotFound, format!("no session `{id}`"))
                .hint("list them: ostler sessions --all")),
        }
    }
}

/// How a session is doing, and the colour of it.
pub(super) fn status_word(info: &SessionInfo) -> (&'static str, Paint) {
    let paint = match info.status {
        SessionStatus::Idle => Paint::Plain,
        SessionStatus::Running => Paint::Good,
        SessionStatus::Waiting | SessionStatus::Interrupted => Paint::Warn,
        SessionStatus::Failed => Paint::Bad,
        SessionStatus::Closed => Paint::Dim,
    };
    (info.status.as_str(), paint)
}

/// A record for a program: one line of JSON, safe to show.
pub(super) fn record_line(record: &SessionEvents) -> Result<String, CommandError> {
    let line = serde_json::json!({
        "record": record.record, "time": record.time, "source": record.source, "events": record.events,
    });
    Ok(visible_json(&line.to_string()))
}
