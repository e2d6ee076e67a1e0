//! The engine: hosted processes, decisions and sessions, shared by every door.
//!
//! # Theory of operation
//! The keeper is the parent of every hosted child and outlives this program. The journal is the only truth about what a
//! child said. The engine ties the two together: it asks the keeper to fork, hands the child's descriptors to the pumps of
//! the journal, and remembers what a process is called. After a crash it learns from the keeper which children live and
//! from the disk what they were, and goes on as if nothing had happened.
//!
//! The engine knows no wire format, no error number and no field order: those are a door's.

pub mod access;
pub mod approval;
pub mod brief;
mod command;
mod disk;
mod environment;
pub mod feed;
pub mod history;
mod id;
mod instance;
mod joiner;
mod keys;
mod lines;
mod login;
mod lookup;
mod may_wait;
mod names;
pub mod notice;
pub mod process;
mod retention;
pub mod session;
mod stats;
mod terminal;
mod user;
pub mod workspace;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use access::{Caller, Host, NotAPlace, Origin, OutOfReach, Peer, Place, Target};
pub use approval::{Inbox, Ticket};
pub use brief::Forker;
pub use command::{ApplyError, CommandSetup, RUNNER_VERB, RunningCommand, WarmCommand};
pub use disk::DiskTrouble;
pub use environment::{Asking, Environment};
pub use id::uuid;
pub use instance::{Claim, Claimed, LEAVE, Lease, claim};
pub use joiner::Joiner;
pub use login::{LoginPath, login_path};
pub use may_wait::MayWait;
pub use names::{Bearer, NameTaken};
pub use ostler_journal::{
    Appended, Bounds, Cursor, EventCursor, EventHead, EventStep, FrameHead, HeldReason, Journal, Kind, LineStart,
    Missing, Space, Step, Subscription, Wake,
};
pub use ostler_keeper::{GuardSpec, Scope, Upgrade, heap};
pub use process::{
    About, Claim as ProcessClaim, Doing, Ending, Happening, KillOutcome, KillPlan, Need, Observer, Process,
    RenameError, ResolveError, SpawnError, SpawnRequest, StdinError, Viewer, Viewing, WinSize, noted,
};
pub use retention::{PruneReport, Retention};
pub use session::{Session, SessionConfig, Sessions};
pub use stats::Stats;
pub use terminal::{Heard, Terminal};
pub use user::{by_name, user_name};

/// What an engine needs to know to start.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The instance's folder: keeper socket, lock, process folders.
    pub dir: PathBuf,
    /// Where this program keeps what it knows, listens and reads its settings: no device works there.
    pub own: Vec<PathBuf>,
    /// What children inherit.
    pub environment: Arc<Environment>,
    /// How long and how much is kept.
    pub retention: Retention,
    /// The age at which journaled bytes are forced to disk.
    pub sync_every: Duration,
    /// The command that the keeper runs when this daemon dies unasked.
    pub guard: Option<GuardSpec>,
    /// The descriptor limit to give back to children; ours is raised.
    pub child_nofile: Option<(u64, u64)>,
    /// This program, as the keeper can execute it: the runner of approved commands.
    pub runner: PathBuf,
    /// How the inbox behaves.
    pub approvals: approval::Settings,
    /// How sessions behave.
    pub sessions: SessionConfig,
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The keeper could not be reached or started.
    #[error("cannot start the process that holds the others in {}: {source}", dir.display())]
    Keeper {
        /// The instance's folder.
        dir: PathBuf,
        /// What happened.
        source: ostler_keeper::ConnectError,
    },
    /// A file or folder of the instance is not usable.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The pump threads could not be started.
    #[error("journal pumps: {0}")]
    Pumps(#[source] io::Error),
    /// There is no runtime for what sessions start.
    #[error("the engine was started outside of a runtime")]
    NoRuntime,
    /// The inbox's log is not usable, or somebody changed it.
    #[error(transparent)]
    Inbox(#[from] approval::StoreError),
}

/// The running engine; a cheap handle.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<process::Registry>,
    inbox: Inbox,
    sessions: Sessions,
}

impl Engine {
    /// Conversations with agents.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What everybody who watches the whole is told.
    pub fn feed(&self) -> &feed::Feed {
        &self.inner.feed
    }

    /// Everything that waits for a person.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}
