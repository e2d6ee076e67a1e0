//! Where a client is among the events: the feed's position of a record, and how many of that record's events it has seen where
//! that is not all of them.

use std::fmt;
use std::str::FromStr;

use ostler_engine::feed::{NoPosition, Position};
use ostler_engine::{MayWait, Missing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent;
use crate::error::Error;
use crate::method::Call;

/// After some events of a record, or after all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) record: Position,
    /// So many of its events were told; nothing is all.
    pub(crate) told: Option<usize>,
}

impl At {
    /// After event number `index` of `count`, counted from 0.
    pub(crate) fn within(record: Position, index: usize, count: usize) -> Self {
        Self { record, told: (index + 1 < count).then_some(index + 1) }
    }

    /// Where reading begins, and how many events are passed over there.
    pub(crate) fn begin(self) -> (Position, usize) {
        match self.told {
            None => (self.record, 0),
            Some(told) => (self.record.before(), told),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.record)?;
        self.told.map_or(Ok(()), |told| write!(f, ":{told}"))
    }
}

impl FromStr for At {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let odd = |_: NoPosition| Error::params("`after` is no position: use `position` as an event had it");
        let (record, told) = match text.split_once(':') {
            Some((record, told)) => (record, Some(told)),
            None => (text, None),
        };
        let told = told.map(|told| told.parse().map_err(|_| Error::params("`after` is no position"))).transpose()?;
        Ok(Self { record: record.parse().map_err(odd)?, told: told.filter(|told| *told > 0) })
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct ResumeParams {
    /// The `position` of the last event that was seen.
    pub(crate) after: String,
}

/// What becomes of a stream that is gone on with.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Resumed {
    pub(crate) resumed: bool,
    /// Why something is missing before what comes now; nothing when nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<Gap>,
    /// Where reading goes on.
    pub(crate) position: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Gap {
    /// `let_go` (too long ago), `lost` (a power loss, or another server) or `damaged`.
    pub(crate) reason: String,
    /// What follows this is all there: who wants no less reads everything else anew.
    pub(crate) oldest: String,
}

impl Gap {
    /// Something is missing before what follows `oldest`.
    pub(crate) fn of(missing: Missing, oldest: Position) -> Self {
        let reason = match missing {
            Missing::LetGo => "let_go",
            Missing::Lost => "lost",
            Missing::Damaged => "damaged",
        };
        Self { reason: reason.to_owned(), oldest: oldest.to_string() }
    }
}

/// The position after which this entry of the feed comes.
pub(super) fn before(first: u64) -> Position {
    Position::after(first.saturating_sub(1))
}

/// Goes back, or on, to a position: what follows it is told from here on, in its order.
pub(crate) fn resume(wait: &MayWait, call: &Call, params: ResumeParams) -> Result<Resumed, Error> {
    let at: At = params.after.parse()?;
    let connection = call.socket("events/resume")?;
    let opened = call.state.engine.feed().read_after(wait, at.record).map_err(Error::internal)?;
    let gap = opened.gap.map(|missing| Gap::of(missing, before(opened.first)));
    connection.events.seek(at);
    Ok(Resumed { resumed: true, gap, position: at.to_string() })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SubscribeParams {
    /// These kinds, with or without `event/`; every kind when left out or `*`.
    pub(crate) types: Option<Vec<String>>,
    /// Of these sessions; of every one when left out or empty.
    pub(crate) sessions: Option<Vec<String>>,
    /// Of these workspaces; of every one when left out or empty.
    pub(crate) workspaces: Option<Vec<String>>,
}

/// That events are chosen from now on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Subscribed {
    pub(crate) success: bool,
}

/// Sessions and workspaces that one connection may name.
const NAMED_MAX: usize = 256;

/// Chooses which events come.
pub(crate) fn subscribe(call: &Call, params: SubscribeParams) -> Result<Subscribed, Error> {
    let connection = call.socket("events/subscribe")?;
    // Events bear one name of a session; who subscribes may use any. What nobody knows yet stays as it was said.
    let name = |id: String| agent::session_named(call, None, &id).map_or(id, |session| agent::id_of(&session.view()));
    let sessions = params.sessions.map(|all| all.into_iter().take(NAMED_MAX).map(name).collect());
    let mut wanted = connection.wanted();
    if let Some(kinds) = &params.types {
        wanted.only(kinds.iter().map(String::as_str));
    }
    if let Some(sessions) = sessions {
        wanted.sessions = sessions;
    }
    if let Some(workspaces) = params.workspaces {
        wanted.workspaces = workspaces.into_iter().take(NAMED_MAX).collect();
    }
    Ok(Subscribed { success: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_within_a_record_reads_back_and_begins_before_it() {
        let record: Position = "812.3-0a0b0c0d".parse().unwrap();
        for (index, count, text) in [(0, 1, "812.3-0a0b0c0d"), (0, 3, "812.3-0a0b0c0d:1"), (2, 3, "812.3-0a0b0c0d")] {
            let at = At::within(record, index, count);
            assert_eq!(at.to_string(), text);
            assert_eq!(text.parse::<At>().unwrap(), at);
        }
        assert_eq!(At::within(record, 1, 3).begin(), (record.before(), 2));
        assert_eq!(At::within(record, 2, 3).begin(), (record, 0));
        for odd in ["", "x", "812:x", "812:-1", ":1"] {
            assert!(odd.parse::<At>().is_err(), "{odd}");
        }
    }
}
