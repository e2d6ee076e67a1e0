//! Words of the protocol and of the engine that mean the same, one for one. Where they do not, the file of the noun says how.

use ostler_api as api;
use ostler_api::{
    ApprovalKind, FileBecame, GitOperation, GitStashTake, GitUntracked, HistoryChanged, HistoryEvidence,
    HistorySpeaker, KeeperUpgrade, PieceVoice, RuleEffect, SearchCase, SearchMode, SessionStatus, SignalScope,
};
use ostler_engine::approval::{AskKind, Effect};
use ostler_engine::feed::FileIs;
use ostler_engine::history::{Changed, Evidence};
use ostler_engine::session::Status;
use ostler_engine::workspace::content::Case;
use ostler_engine::workspace::names::QueryMode;
use ostler_engine::workspace::work::{Operation, StashTake, Untracked};
use ostler_engine::workspace::{FinishHow, beneath};
use ostler_engine::{Missing, Scope, Upgrade};
use ostler_story::{Speaker, Voice};

/// A word that the other side has another name for.
pub(crate) trait Translate<T> {
    fn translated(self) -> T;
}

macro_rules! translations {
    ($($from:ty => $to:ty: $($word:ident)*;)*) => {
        $(impl Translate<$to> for $from {
            fn translated(self) -> $to {
                match self {
                    $(<$from>::$word => <$to>::$word),*
                }
            }
        })*
    };
}

// What is asked for.
translations! {
    GitUntracked => Untracked: No Folders All;
    GitStashTake => StashTake: Pop Apply Drop;
    SearchMode => QueryMode: Fuzzy Exact Prefix Extension;
    SearchCase => Case: Smart Sensitive Insensitive;
    SignalScope => Scope: Process Group Tree;
    api::FinishHow => FinishHow: Merge PullRequest Discard;
    RuleEffect => Effect: Allow Deny;
}

// What is told.
translations! {
    Status => SessionStatus: Idle Running Waiting Interrupted Failed Closed;
    Missing => api::Missing: LetGo Damaged Lost;
    Upgrade => KeeperUpgrade: Pending Done Failed;
    AskKind => ApprovalKind: Command ToolUse Question;
    Effect => RuleEffect: Allow Deny;
    Operation => GitOperation: Merge Rebase CherryPick Revert Bisect;
    beneath::FileKind => api::FileKind: File Folder Link Special;
    FileIs => FileBecame: Created Modified Deleted Renamed;
    Evidence => HistoryEvidence: Argument OpenFile Recent;
    Changed => HistoryChanged: Truncated Replaced;
    Speaker => HistorySpeaker: Person Agent Program;
    Voice => PieceVoice: Answer Thought;
}
