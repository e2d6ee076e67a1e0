//! What sort of change the feed tells of.

use serde::{Deserialize, Serialize};

use crate::{Event, Fact, Said};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $word:literal,)*) => {
        /// What sort of change it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum FeedKind {
            $($(#[doc = $doc])* #[serde(rename = $word)] $kind,)*
        }

        impl FeedKind {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its word, on the disk and on the wire: one may be added, none may change.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// A session was made.
    SessionMade = "session.made",
    /// Its name is different, or what its agent may do.
    SessionChanged = "session.changed",
    /// A prompt was taken; it waits for its turn.
    SessionPrompted = "session.prompted",
    /// A turn begins.
    TurnBegan = "session.turn_began",
    /// A turn is over.
    TurnEnded = "session.turn_ended",
    /// The agent waits for an answer.
    SessionAsked = "session.asked",
    /// It has one, or needs none any more.
    SessionAnswered = "session.answered",
    /// It takes no more prompts.
    SessionClosed = "session.closed",
    /// Anything else that was said or done; `record` to `last`.
    SessionSaid = "session.said",
    /// It is deleted.
    SessionForgotten = "session.forgotten",
    /// A process runs.
    ProcessStarted = "process.started",
    /// A process has ended, and everything it said is recorded.
    ProcessEnded = "process.ended",
    /// It is deleted.
    ProcessForgotten = "process.forgotten",
    /// A person is asked.
    ApprovalAsked = "approval.asked",
    /// Somebody sees the request.
    ApprovalShown = "approval.shown",
    /// It is decided, by somebody or by a rule.
    ApprovalDecided = "approval.decided",
    /// Nobody waits for it any more.
    ApprovalWithdrawn = "approval.withdrawn",
    /// Nobody decided in time.
    ApprovalExpired = "approval.expired",
    /// What was decided was carried out, or could not be.
    ApprovalDone = "approval.done",
    /// A device was paired.
    DevicePaired = "device.paired",
    /// A device was put out.
    DeviceRevoked = "device.revoked",
    /// A file of `workspace`, which somebody watches, is not what it was; without `file`: more than is told, look again.
    FileChanged = "workspace.file_changed",
    /// Its differences are not what they were.
    DiffChanged = "workspace.diff_changed",
    /// Git stands elsewhere in `workspace`.
    GitChanged = "workspace.git_changed",
    /// Something was done with git in `workspace`, or could not be.
    GitDone = "workspace.git_done",
    /// `workspace` is watched from here on, or not any more: look again.
    WatchChanged = "workspace.watch_changed",
    /// Somebody who did not look was told of something: the notices `record` to `last`.
    NoticeTold = "notice.told",
    /// Another entry of the audit.
    AuditNoted = "audit.noted",
}

impl FeedKind {
    /// What a record of a session is. One record is one change: what matters most in it says which.
    pub fn of_record(said: &[Said]) -> Self {
        said.iter().map(of_said).max_by_key(|kind| kind.weight()).unwrap_or(Self::SessionSaid)
    }

    fn weight(self) -> u8 {
        match self {
            Self::SessionSaid => 0,
            Self::SessionAnswered => 2,
            Self::SessionAsked => 3,
            Self::TurnEnded => 4,
            _ => 1,
        }
    }

    /// Those that tell of entries of the audit: every one is of one of these.
    pub const AUDIT: &[Self] = &[
        Self::ApprovalAsked,
        Self::ApprovalShown,
        Self::ApprovalDecided,
        Self::ApprovalWithdrawn,
        Self::ApprovalExpired,
        Self::ApprovalDone,
        Self::DevicePaired,
        Self::DeviceRevoked,
        Self::AuditNoted,
    ];

    /// Whether it is about a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::DevicePaired | Self::DeviceRevoked)
    }

    /// Whether whoever watches wants to know at once: what an agent says in the middle of a turn may come in larger pieces.
    pub fn is_urgent(self) -> bool {
        self != Self::SessionSaid
    }
}

fn of_said(said: &Said) -> FeedKind {
    match said {
        Said::Fact(Fact::Created(_)) => FeedKind::SessionMade,
        Said::Fact(Fact::Changed { .. }) => FeedKind::SessionChanged,
        Said::Fact(Fact::Prompt { .. } | Fact::Reworded { .. }) => FeedKind::SessionPrompted,
        Said::Fact(Fact::Turn { .. }) => FeedKind::TurnBegan,
        Said::Fact(Fact::Answered { .. }) => FeedKind::SessionAnswered,
        Said::Fact(Fact::Closed {}) => FeedKind::SessionClosed,
        Said::Fact(Fact::Said { event }) | Said::Event(event) => match event {
            Event::TurnEnded { .. } => FeedKind::TurnEnded,
            Event::Asked(_) => FeedKind::SessionAsked,
            Event::Unasked { .. } => FeedKind::SessionAnswered,
            _ => FeedKind::SessionSaid,
        },
        Said::Fact(_) => FeedKind::SessionSaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_the_audit_are_all_of_its_words() {
        let of_audit =
            |kind: &&FeedKind| ["approval", "device", "audit"].iter().any(|word| kind.as_str().starts_with(word));
        assert_eq!(FeedKind::AUDIT.to_vec(), FeedKind::ALL.iter().filter(of_audit).copied().collect::<Vec<_>>());
    }

    #[test]
    fn a_kind_has_one_word_wherever_it_is_written() {
        for kind in FeedKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
