//! What the daemon asks of the keeper and what it gets back. Plain values: nothing here does
//! anything. The serialised names of the small ones are part of the keeper's protocol.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use ostler_story::Exit;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What one of a child's first three descriptors is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdioKind {
    /// A pipe; the daemon's end is non-blocking.
    Pipe,
    /// `/dev/null`.
    #[default]
    Null,
    /// A descriptor of the daemon: an index into [`SpawnSpec::given`].
    Given(usize),
    /// The child's end of a pseudo terminal; one terminal serves every descriptor that asks for it.
    Pty {
        /// Height of the terminal in lines.
        rows: u16,
        /// Width of the terminal in columns.
        cols: u16,
    },
}

/// What the child leads. A child with a terminal always leads a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// A process group in the keeper's session.
    #[default]
    Group,
    /// A session (and therefore a group) of its own.
    Session,
}

/// A child to be started. Everything is resolved: the keeper searches no path and reads no file.
#[derive(Debug, Default)]
pub struct SpawnSpec {
    /// The executable, absolute or relative to `cwd`.
    pub program: PathBuf,
    /// The whole argument vector, `argv[0]` included.
    pub argv: Vec<OsString>,
    /// The whole environment; the keeper adds the cookie and nothing else.
    pub env: Vec<(OsString, OsString)>,
    /// Where the child starts.
    pub cwd: PathBuf,
    /// What descriptors 0, 1 and 2 are.
    pub stdio: [StdioKind; 3],
    /// The child's umask; `None` leaves the one the keeper was started with.
    pub umask: Option<u32>,
    /// Group or session leader.
    pub own: Own,
    /// `RLIMIT_NOFILE` (soft, hard) of the child; `None` restores what the keeper was started with.
    pub nofile: Option<(u64, u64)>,
    /// Other limits of the child: the kernel's number of each, soft, hard. Those that are not here are the keeper's.
    pub limits: Vec<(u32, u64, u64)>,
    /// A child that ends with this code has done nothing: while no daemon is there it is forgotten at once.
    pub void_exit: Option<i32>,
    /// A short helper: its tree is ended after this time, also when no daemon is there any more, and its end is nobody's to
    /// ask for but the daemon's that is there.
    pub within: Option<Duration>,
    /// Opaque to the keeper, returned at adoption. At most [`crate::META_MAX`] bytes.
    pub meta: Vec<u8>,
    /// The descriptors that [`StdioKind::Given`] points to. The keeper closes its copies once the
    /// child runs.
    pub given: Vec<OwnedFd>,
}

/// The daemon's ends of a child's stdio, non-blocking and close-on-exec.
#[derive(Debug, Default)]
pub struct ChildIo {
    /// Write end of the child's stdin, one page deep.
    pub stdin: Option<OwnedFd>,
    /// Read end of the child's stdout.
    pub stdout: Option<OwnedFd>,
    /// Read end of the child's stderr.
    pub stderr: Option<OwnedFd>,
    /// The terminal, when one was asked for.
    pub pty: Option<Pty>,
    /// The descriptors given at spawn to be held, in the same order.
    pub held: Vec<OwnedFd>,
}

/// The daemon's side of a pseudo terminal.
#[derive(Debug)]
pub struct Pty {
    /// The terminal's master, non-blocking.
    pub master: OwnedFd,
    /// Read end of the pipe between the terminal and the journal.
    pub relay_read: OwnedFd,
    /// Write end of the same pipe; what it holds survives the daemon.
    pub relay_write: OwnedFd,
}

/// A child that runs.
#[derive(Debug)]
pub struct Spawned {
    /// Its process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot: with the pid, a name that is never reused.
    pub start_ticks: u64,
    /// The daemon's ends.
    pub io: ChildIo,
}

/// A child the keeper already had when the daemon connected.
#[derive(Debug)]
pub struct Adopted {
    /// The key it was spawned with.
    pub key: String,
    /// Its process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_ticks: u64,
    /// The metadata given at spawn.
    pub meta: Vec<u8>,
    /// The daemon's ends.
    pub io: ChildIo,
    /// How it ended, if it did; remembered until acknowledged.
    pub exit: Option<Exit>,
    /// Its program has not started yet (a hung directory or binary); it may still end in
    /// [`Event::SpawnFailed`].
    pub starting: bool,
}

/// What became of a keeper that is to run another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// It was told.
    Pending,
    /// It runs that program.
    Done,
    /// It goes on as the program it was.
    Failed,
}

/// Whom a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The child alone.
    Process,
    /// The child's process group.
    Group,
    /// The group, every descendant, and every process that carries the child's cookie.
    Tree,
}

/// What became of a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signalled {
    /// How many processes beyond the child's own group were reached (tree scope only).
    pub strays: u32,
    /// Those that could not be reached or outlived `SIGKILL`: listed, not hidden.
    pub left: Vec<Stray>,
}

/// A process outside a child's own group that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// The child it belongs to, where its environment tells.
    pub key: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// Why it is still there; empty if nobody tried to end it.
    pub why: String,
}

/// The step of a spawn that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Making pipes or a terminal.
    Pipe,
    /// Making the process.
    Fork,
    /// Entering the working directory.
    Chdir,
    /// Anything between fork and exec: session, limits, descriptors.
    Setup,
    /// Executing the program.
    Exec,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Pipe => "making its pipes",
            Step::Fork => "making the process",
            Step::Chdir => "entering its directory",
            Step::Setup => "preparing the process",
            Step::Exec => "executing the program",
        })
    }
}

/// Why there is no child. Nothing of it is left behind.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SpawnError {
    /// The system refused one step.
    #[error("{step} failed: {}", std::io::Error::from_raw_os_error(*.errno))]
    Failed {
        /// Which step.
        step: Step,
        /// The system's reason.
        errno: i32,
    },
    /// The keeper cannot make sense of the request.
    #[error("the process that holds the others refused the start: {0}")]
    Refused(String),
    /// The keeper is gone.
    #[error("the process that holds the others is gone")]
    KeeperGone {
        /// It may have made the child before: whether it did is told by the next adoption, or never. If not, the same
        /// spawn may be asked of the next keeper.
        begun: bool,
    },
}

/// Why a request about a child was not carried out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// No child has this key (any more).
    #[error("the process that holds the others has no such child")]
    NoSuchChild,
    /// The child was reaped and the scope reaches nothing else.
    #[error("the child has already exited")]
    Exited,
    /// The system refused.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    System(i32),
    /// The keeper does not know the verb (it is older) or refused its content.
    #[error("the process that holds the others refused: {0}")]
    Refused(String),
    /// The keeper is gone.
    #[error("the process that holds the others is gone")]
    KeeperGone,
}

/// What the keeper says unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A child ended. Told again at every adoption until acknowledged.
    Exited {
        /// The child.
        key: String,
        /// How it ended.
        exit: Exit,
    },
    /// A child that was adopted while starting never started.
    SpawnFailed {
        /// The child that is no more.
        key: String,
        /// Why.
        error: SpawnError,
    },
    /// A process that a child started tried to be the daemon, and was sent away.
    Intruder {
        /// The child.
        key: String,
        /// The process.
        pid: u32,
    },
    /// The connection broke: the keeper died or dropped us. Connect again and adopt.
    KeeperLost,
}

/// The command that brings a crashed daemon back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardSpec {
    /// The executable, absolute.
    pub program: PathBuf,
    /// The whole argument vector.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its stdout and stderr, and where the keeper says that it gave up.
    pub log: PathBuf,
}

/// A living child handed to a new keeper after the old one died.
#[derive(Debug)]
pub struct Import {
    /// Its key.
    pub key: String,
    /// Its process id.
    pub pid: u32,
    /// Its start time: a recycled pid is recognised by it.
    pub start_ticks: u64,
    /// Metadata as at spawn.
    pub meta: Vec<u8>,
    /// Duplicates of the daemon's ends.
    pub io: ChildIo,
    /// How it ended, if the daemon already knows.
    pub exit: Option<Exit>,
    /// The control group in which the dead keeper had put it, see [`crate::group_of`].
    pub group: Option<PathBuf>,
}

/// One line of [`crate::Keeper::list`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its process id.
    pub pid: u32,
    /// Its start time.
    pub start_ticks: u64,
    /// How it ended, if it did.
    pub exit: Option<Exit>,
    /// Its program has not started yet.
    pub starting: bool,
    /// It was handed over by a daemon: this keeper is not its parent.
    pub imported: bool,
}

/// Who connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Name and version of the daemon, for people who read a keeper's state.
    pub program: String,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody listens: launch a keeper.
    #[error("the process that holds the others does not run here")]
    NoKeeper,
    /// Another daemon is connected.
    #[error("the process that holds the others already serves process {pid}")]
    Busy {
        /// That daemon's process id.
        pid: u32,
    },
    /// We are hosted by that very keeper.
    #[error("{0}")]
    Hosted(String),
    /// The two share no protocol version.
    #[error(
        "the process that holds the others speaks protocol {keeper}, this program {ours}: use the release that started it, or stop it"
    )]
    Version {
        /// The newest version the keeper speaks.
        keeper: u32,
        /// The newest version we speak.
        ours: u32,
    },
    /// The system refused, or the keeper did not answer in time.
    #[error("the process that holds the others cannot be reached: {0}")]
    Io(#[from] std::io::Error),
}
