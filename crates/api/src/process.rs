//! `process.*`: hosted commands, and what their watchers are told.

use crate::hosted::Claim;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// Where bytes came from.
    pub enum Stream {
        /// Standard output; for a terminal process everything it shows.
        Stdout = "stdout",
        Stderr = "stderr",
    }

    /// Who receives a signal.
    pub enum SignalScope {
        /// The process alone.
        Process = "process",
        /// Its process group.
        Group = "group",
        /// Its group and every descendant that can be found.
        Tree = "tree",
    }

    /// Why output cannot be read.
    pub enum Missing {
        /// Retention let it go.
        LetGo = "let_go",
        /// Its record in the index is damaged.
        Damaged = "damaged",
        /// The keeper and the daemon died together: it was never written down.
        Lost = "lost",
    }

    /// Whether the process still runs.
    pub enum ProcessState {
        Running = "running",
        Exited = "exited",
    }
}

wire! {
    /// Size of a terminal in characters.
    pub struct WinSize {
        pub rows: u16,
        pub cols: u16,
    }

    /// What to run.
    pub struct SpawnParams {
        /// A path, or a name to look up in the child's PATH.
        pub program: String,
        /// Arguments after the program.
        #[serde(default)]
        pub args: Vec<String>,
        /// Added to the daemon's own environment, replacing what has the same name.
        #[serde(default)]
        pub env: Vec<(String, String)>,
        /// Where to start; the daemon's default when left out.
        pub cwd: Option<String>,
        /// A name to find it by.
        pub name: Option<String>,
        /// Give it a terminal of this size instead of three pipes.
        pub tty: Option<WinSize>,
        /// Keep its journal in memory: nothing that it says or is told reaches the disk, and it ends with the process.
        #[serde(default)]
        pub private: bool,
        /// Keep at most this many bytes of output while it runs.
        pub live_max: Option<u64>,
        /// Two requests with the same key start one process.
        pub key: Option<String>,
    }

    /// How a process ended.
    pub struct Exit {
        /// Exit code, when it exited by itself.
        pub code: Option<i32>,
        /// The signal that ended it.
        pub signal: Option<i32>,
        /// When. Neither code nor signal: the kernel did not tell.
        pub time: Option<Timestamp>,
    }

    /// All there is to say about a process.
    pub struct ProcessInfo {
        /// `p…`, unique for ever on this machine.
        pub id: String,
        pub name: Option<String>,
        pub program: String,
        #[serde(default)]
        pub args: Vec<String>,
        pub cwd: Option<String>,
        pub state: ProcessState,
        pub pid: u32,
        pub started: Timestamp,
        pub exit: Option<Exit>,
        pub tty: bool,
        pub private: bool,
        /// The door and id by which a client of another protocol knows it.
        pub alias: Option<Alias>,
        /// The oldest frame still kept.
        pub first_seq: u64,
        /// The newest frame; 0 before the first.
        pub last_seq: u64,
        pub stdout_bytes: u64,
        pub stderr_bytes: u64,
        /// Bytes of stdin accepted.
        pub stdin_applied: u64,
        /// Why its output is not being written at the moment.
        pub held_back: Option<String>,
        /// From this offset on the journal may be incomplete, because the disk failed.
        pub damaged_from: Option<u64>,
        /// Who is attached to it.
        #[serde(default)]
        pub attached: Vec<Viewer>,
        /// What it wrote after this frame is lost: the keeper and the daemon died together. If it runs, it does so without
        /// its pipes.
        pub lost_after: Option<u64>,
        /// It ended because the machine was restarted; `ostler start` runs its command again.
        #[serde(default)]
        pub rebooted: bool,
        /// Somebody ended it, was attached when it ended, or attached to it since: that it failed is nobody's news.
        #[serde(default)]
        pub seen: bool,
        /// What it says about itself, if it is a terminal program that does.
        pub claim: Option<Claim>,
        /// The size of its terminal, or the last that it had.
        pub size: Option<WinSize>,
    }

    /// Somebody who is attached to a process.
    pub struct Viewer {
        /// Their process.
        pub pid: Option<u32>,
        /// The size of their terminal, where it counts.
        pub size: Option<WinSize>,
        /// They may type, and do not only look.
        pub types: bool,
        pub since: Timestamp,
    }

    /// A name that another door's client gave.
    pub struct Alias {
        pub endpoint: String,
        pub id: String,
    }

    /// Which process: its id, a unique prefix of it, or its name.
    pub struct IdParams {
        pub id: String,
    }

    /// Which process, and a key that makes a repeated request harmless.
    pub struct IdKeyParams {
        /// Id, unique prefix or name.
        pub id: String,
        pub key: Option<String>,
    }

    /// What a process is to be called.
    pub struct RenameParams {
        /// Id, unique prefix or name.
        pub id: String,
        /// A name that nobody alive has; empty for none.
        pub name: String,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// What a hosted process may reach at this door.
    pub struct AccessParams {
        /// Id, unique prefix or name.
        pub id: String,
        /// Everything, as if it were not hosted; else only itself, its session and what was started from there.
        pub all: bool,
    }

    /// What to list.
    pub struct ListParams {
        /// Also those that have exited.
        #[serde(default)]
        pub all: bool,
    }

    pub struct ProcessList {
        pub processes: Vec<ProcessInfo>,
    }

    /// Bytes for a process's stdin.
    pub struct StdinParams {
        /// Id, unique prefix or name.
        pub id: String,
        /// Base64.
        pub data: String,
        /// Position of the first byte in everything ever sent; a repeated request is recognised by it.
        pub offset: Option<i64>,
        /// Instead of `offset`, where others write too.
        pub sender: Option<Sender>,
    }

    /// One of several who write to a process.
    pub struct Sender {
        /// 16 hexadecimal digits, drawn at random by each client for each of its attachments.
        pub id: String,
        /// Position of the first byte in everything that this sender ever sent to the process: sent again, also to the next
        /// daemon, it is accepted once.
        pub offset: i64,
    }

    /// How much stdin was accepted.
    pub struct StdinResult {
        /// All bytes accepted so far.
        pub applied: u64,
        /// Everything in this request had been accepted before.
        pub duplicate: bool,
    }

    /// A signal for a process.
    pub struct SignalParams {
        /// Id, unique prefix or name.
        pub id: String,
        pub signal: i32,
        /// The group unless told otherwise.
        pub scope: Option<SignalScope>,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// Ends a process: a signal, a grace period, then SIGKILL to the whole tree.
    pub struct KillParams {
        /// Id, unique prefix or name.
        pub id: String,
        /// The first signal; SIGTERM unless told otherwise.
        pub signal: Option<i32>,
        /// How long it may take before SIGKILL; the configured grace unless told otherwise.
        pub grace_ms: Option<u64>,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// How the ending went. The answer comes after the exit is in the journal.
    pub struct Killed {
        pub died: bool,
        pub already_exited: bool,
        /// SIGKILL was needed.
        pub escalated: bool,
        pub exit: Option<Exit>,
    }

    /// From where to watch a process.
    pub struct AttachParams {
        /// Id, unique prefix or name.
        pub id: String,
        /// The first frame wanted; the oldest that is kept when left out.
        pub from: Option<u64>,
        /// Instead of `from`: start so that about this many bytes come before what is new.
        pub tail: Option<u64>,
        /// Instead of `from`: start with the last so many lines.
        pub lines: Option<u64>,
        /// Instead of `from`: nothing that was written before this. With `lines`, the last of what is left.
        pub since: Option<Timestamp>,
        /// Be listed as attached, for as long as the watch lasts.
        pub viewer: Option<ViewerParams>,
    }

    /// How somebody is attached.
    pub struct ViewerParams {
        /// The size of their terminal: the smallest of all that are attached rules. Left out, it does not count.
        pub size: Option<WinSize>,
        /// They may type, and do not only look.
        #[serde(default)]
        pub types: bool,
    }

    /// A watch: frames follow as `process.frame`, then `process.exit`; `process.gap` where retention cut.
    pub struct Attached {
        /// Names this watch on this connection.
        pub watch: u64,
        pub process: ProcessInfo,
        /// The first frame that will come.
        pub from: u64,
        /// Bytes at its beginning that were not asked for: the end of a line before the first.
        #[serde(default)]
        pub skip: u64,
        /// The size that its terminal has for the sake of all who are attached.
        pub size: Option<WinSize>,
    }

    pub struct DetachParams {
        pub watch: u64,
    }

    /// A new size: the viewer's own, where this connection is attached as one. Else it is set while nobody's counts.
    pub struct ResizeParams {
        /// Id, unique prefix or name.
        pub id: String,
        pub rows: u16,
        pub cols: u16,
    }

    /// Bytes that a process wrote.
    pub struct Frame {
        pub watch: u64,
        pub seq: u64,
        pub stream: Stream,
        pub time: Timestamp,
        /// Base64.
        pub data: String,
    }

    /// The last notification of a watch.
    pub struct Exited {
        pub watch: u64,
        pub seq: u64,
        pub exit: Exit,
    }

    /// The journal cannot be read any further: the last notification of a watch.
    pub struct Lost {
        pub watch: u64,
        pub message: String,
    }

    /// Output before `first_seq` is missing; the watch goes on there.
    pub struct Gap {
        pub watch: u64,
        pub first_seq: u64,
        /// Why; an older daemon knows retention only, and does not say.
        pub missing: Option<Missing>,
    }
}

impl ProcessInfo {
    /// The command as one line, for people.
    pub fn command(&self) -> String {
        let mut line = self.program.clone();
        for arg in &self.args {
            line.push(' ');
            line.push_str(arg);
        }
        line
    }
}

impl Exit {
    /// On the wire.
    pub fn new(how: ostler_story::Exit, time: Timestamp) -> Self {
        Self { code: how.code(), signal: how.signal(), time: Some(time) }
    }

    /// Whatever is known of it.
    pub fn how(&self) -> ostler_story::Exit {
        ostler_story::Exit::of(self.code, self.signal)
    }

    /// What a shell would report: the code, or 128 + signal. `None` when the kernel did not tell.
    pub fn shell_code(&self) -> Option<i32> {
        self.code.or_else(|| self.signal.map(|signal| 128 + signal))
    }
}
