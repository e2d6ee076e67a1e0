//! What sort of change the feed tells of. The words are on the disk and on the wire: one may be added, none may change.

use ostler_story::{Event, Fact, Said};
use serde::{Deserialize, Serialize};

use crate::approval::Record;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $word:literal,)*) => {
        /// What sort of change it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Kind {
            $($(#[doc = $doc])* #[serde(rename = $word)] $kind,)*
        }

        impl Kind {
            /// Its word.
            pub fn word(self) -> &'static str {
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
    /// What it is called, or what its agent may do, is different.
    SessionChanged = "session.changed",
    /// A prompt was taken, and waits for its turn.
    SessionPrompted = "session.prompted",
    /// A turn begins.
    TurnBegan = "session.turn_began",
    /// A turn is over.
    TurnEnded = "session.turn_ended",
    /// The agent waits for an answer.
    SessionAsked = "session.asked",
    /// It got one, or needs none any more.
    SessionAnswered = "session.answered",
    /// No more prompts.
    SessionClosed = "session.closed",
    /// Anything else that was said, or done.
    SessionSaid = "session.said",
    /// The session and what was said in it are deleted.
    SessionForgotten = "session.forgotten",
    /// A process runs.
    ProcessStarted = "process.started",
    /// Its end is journaled.
    ProcessEnded = "process.ended",
    /// It and its output are deleted.
    ProcessForgotten = "process.forgotten",
    /// A person is asked.
    ApprovalAsked = "approval.asked",
    /// Somebody sees the request: its time begins to run.
    ApprovalShown = "approval.shown",
    /// Somebody, or a rule, decided.
    ApprovalDecided = "approval.decided",
    /// Nobody waits for it any more.
    ApprovalWithdrawn = "approval.withdrawn",
    /// Nobody decided in time.
    ApprovalExpired = "approval.expired",
    /// What was decided was carried out, or could not be.
    ApprovalDone = "approval.done",
    /// A device was paired.
    DevicePaired = "device.paired",
    /// A device is not let in any more.
    DeviceRevoked = "device.revoked",
    /// A file of a workspace that is watched is not what it was.
    FileChanged = "workspace.file_changed",
    /// Its differences are not what they were.
    DiffChanged = "workspace.diff_changed",
    /// Git stands elsewhere.
    GitChanged = "workspace.git_changed",
    /// Something was done with git, or could not be.
    GitDone = "workspace.git_done",
    /// A workspace is watched from here on, or not any more: look again.
    WatchChanged = "workspace.watch_changed",
    /// Another entry of the audit: rules, attempts, settings.
    AuditNoted = "audit.noted",
}

impl Kind {
    /// What a record of a session is. One record is one change: what matters most in it says which.
    pub(crate) fn of_record(said: &[Said]) -> Self {
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

    /// What an entry of the audit is.
    pub(crate) fn of_audit(record: &Record) -> Self {
        match record {
            Record::Asked { .. } => Self::ApprovalAsked,
            Record::Shown { .. } => Self::ApprovalShown,
            Record::Decided { .. } => Self::ApprovalDecided,
            Record::Withdrawn { .. } => Self::ApprovalWithdrawn,
            Record::Expired => Self::ApprovalExpired,
            Record::Applied { .. } | Record::Failed { .. } | Record::Finished { .. } | Record::Rebooted => {
                Self::ApprovalDone
            }
            Record::DevicePaired { .. } => Self::DevicePaired,
            Record::DeviceRevoked { .. } => Self::DeviceRevoked,
            _ => Self::AuditNoted,
        }
    }

    /// Whether it is about a device.
    pub(super) fn is_device(self) -> bool {
        matches!(self, Self::DevicePaired | Self::DeviceRevoked)
    }

    /// Whether whoever watches wants to know at once: what an agent says in the middle of a turn may come in larger pieces.
    pub(super) fn is_urgent(self) -> bool {
        self != Self::SessionSaid
    }
}

fn of_said(said: &Said) -> Kind {
    match said {
        Said::Fact(Fact::Created(_)) => Kind::SessionMade,
        Said::Fact(Fact::Changed { .. }) => Kind::SessionChanged,
        Said::Fact(Fact::Prompt { .. }) => Kind::SessionPrompted,
        Said::Fact(Fact::Turn { .. }) => Kind::TurnBegan,
        Said::Fact(Fact::Answered { .. }) => Kind::SessionAnswered,
        Said::Fact(Fact::Closed {}) => Kind::SessionClosed,
        Said::Fact(Fact::Said { event }) | Said::Event(event) => match event {
            Event::TurnEnded { .. } => Kind::TurnEnded,
            Event::Asked(_) => Kind::SessionAsked,
            Event::Unasked { .. } => Kind::SessionAnswered,
            _ => Kind::SessionSaid,
        },
        Said::Fact(_) => Kind::SessionSaid,
    }
}
