//! `instance.*`: the daemon itself.

use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// How a daemon came to its life.
    pub enum InstanceState {
        /// All doors are open.
        Running = "running",
        /// It was asked to leave and is doing so.
        Leaving = "leaving",
    }
}

words! {
    /// What became of the part that holds the children, when it was to run a newer program.
    pub enum KeeperUpgrade {
        /// It was told, and has not changed over yet.
        Pending = "pending",
        Done = "done",
        /// It goes on as the program it was.
        Failed = "failed",
    }
}

words! {
    /// Whether an agent is logged in, as far as its files and variables show.
    pub enum LoginState {
        Yes = "yes",
        No = "no",
        /// It may be, in ways that do not show.
        Unknown = "unknown",
    }
}

wire! {
    /// How closely to look at agents.
    pub struct AgentsParams {
        /// Also ask each program for its version and what it can, which may take a minute the first time.
        #[serde(default)]
        pub ask: bool,
    }

    /// An agent, as the daemon finds it in the environment that it gives to agents.
    pub struct AgentInfo {
        pub name: String,
        /// The command of an agent from the settings.
        #[serde(default)]
        pub command: Vec<String>,
        /// Where its program is; absent when it is not installed.
        pub program: Option<String>,
        pub version: Option<String>,
        /// The way it is driven.
        pub drive: String,
        pub login: LoginState,
        /// The file or variable by which it is logged in, or what is missing.
        pub login_by: Option<String>,
    }

    pub struct AgentList {
        pub agents: Vec<AgentInfo>,
    }

    /// Nothing to say, or nothing to tell.
    pub struct Empty {}

    /// Who calls, and the newest protocol version it speaks.
    pub struct HelloParams {
        /// Name and version of the client, for the log.
        #[serde(default)]
        pub client: String,
        /// The newest protocol version the client speaks; the daemon answers with the one to use.
        pub version: u32,
    }

    /// Who answers.
    pub struct Hello {
        /// The protocol version to use from here on.
        pub version: u32,
        /// Version of the daemon's program.
        pub program: String,
        /// Name of the instance.
        pub instance: String,
        pub pid: u32,
        pub started: Timestamp,
    }

    /// One open door.
    pub struct Door {
        pub name: String,
        /// Socket path or host:port.
        pub address: String,
        /// How to connect, in words or as a command.
        pub connect: String,
    }

    /// A setting and its value.
    pub struct SettingInfo {
        pub setting: String,
        pub value: String,
    }

    /// How the instance is doing.
    pub struct Status {
        pub instance: String,
        pub state: InstanceState,
        pub program: String,
        pub pid: u32,
        /// The process that is the parent of all hosted children and outlives the daemon.
        pub keeper_pid: Option<u32>,
        /// Absent unless it ran another program than this daemon when the daemon started.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub keeper_upgrade: Option<KeeperUpgrade>,
        pub started: Timestamp,
        pub doors: Vec<Door>,
        pub running: u64,
        pub exited: u64,
        /// Bytes that journals occupy on disk.
        pub journal_bytes: u64,
        /// Age of the oldest byte that a power loss would take.
        pub oldest_unsynced_ms: u64,
        /// Processes held back because the disk is full or failing.
        pub held_back: u64,
        /// Of these, how many wait because less than `keep_free` is left: the disk is not full.
        #[serde(default)]
        pub held_by_floor: u64,
        /// Bytes free on the disk that journals are on.
        #[serde(default)]
        pub disk_free: u64,
        /// Bytes of that disk; 0 when it cannot be looked at.
        #[serde(default)]
        pub disk_size: u64,
        /// With less than this free the largest writer is held back (`journal.keep_free`).
        #[serde(default)]
        pub keep_free: u64,
        /// Rules that answer nothing until a person affirms them.
        #[serde(default)]
        pub rules_suspended: u64,
        /// Nobody decides until somebody has shown by a password to be a person.
        #[serde(default)]
        pub locked: bool,
        /// Processes whose journal may be incomplete because the disk failed.
        pub damaged: u64,
        /// Where journals and records live.
        pub state_dir: String,
        /// Sessions that are not closed.
        #[serde(default)]
        pub sessions: u64,
        /// Of these, how many answer a prompt or wait in the middle of that.
        #[serde(default)]
        pub sessions_running: u64,
        /// Requests that wait for a person.
        #[serde(default)]
        pub approvals_pending: u64,
        /// Settings that loosen something, and do not count until a person confirms them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub unconfirmed: Vec<SettingInfo>,
    }

    /// Metrics in the text form that Prometheus reads.
    pub struct Metrics {
        pub text: String,
    }

    /// A key that makes a repeated request harmless.
    pub struct KeyParams {
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// What became of the children.
    pub struct Stopped {
        /// Children that were running and were ended.
        pub ended: u64,
        /// What could not be ended.
        #[serde(default)]
        pub survivors: Vec<String>,
        /// Of those that were ended, how many the full disk did not take the end of.
        #[serde(default)]
        pub unrecorded: u64,
    }

    /// Whether to look only.
    pub struct PruneParams {
        /// Say what would go, and keep it.
        #[serde(default)]
        pub dry_run: bool,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// What retention let go.
    pub struct PruneResult {
        /// The ids of processes that went.
        pub removed: Vec<String>,
        /// The disk space they had.
        pub bytes: u64,
        /// Exited processes that stay.
        pub kept: u64,
    }
}
