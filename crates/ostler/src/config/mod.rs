//! Settings: defaults, the configuration file, the environment, in that order of strength.
//!
//! Every value remembers where it came from. An unknown key is an error with a suggestion, never ignored:
//! a mistyped retention would otherwise delete what it should keep.

mod agents;
mod detach_key;
mod file;
mod keys;
mod notify;
mod value;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_door_web::ExternalUrl;
use ostler_engine::{Retention, SessionConfig};
use tracing_subscriber::filter::Targets;

pub(crate) use agents::OwnAgent;
pub(crate) use detach_key::DetachKey;
pub(crate) use keys::{KEYS, Key};
pub(crate) use notify::Notify;
pub(crate) use value::{parse_duration, parse_size, show_duration, show_size};

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line } => write!(out, "{}:{line}", path.display()),
            Self::Environment(name) => write!(out, "environment {name}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}:{line}: {message}")]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{at}: no setting `{name}`{}", suggestion.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?")))]
    Unknown { at: Origin, name: String, suggestion: Option<String> },
    #[error("{at}: no section `{name}`{}", suggestion.map_or(String::new(), |near| format!("; did you mean `{near}`?")))]
    UnknownSection { at: Origin, name: String, suggestion: Option<&'static str> },
    #[error("{at}: {key} = {text}: {reason}")]
    Bad { at: Origin, key: String, text: String, reason: String },
}

/// One setting with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// A line of `config show`.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) origin: &'a Origin,
    pub(crate) doc: &'static str,
}

/// Every setting, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) journal: Journal,
    pub(crate) process: Process,
    pub(crate) attach: Attach,
    pub(crate) doors: Doors,
    pub(crate) web: Web,
    pub(crate) cdev: Cdev,
    pub(crate) approvals: Approvals,
    pub(crate) sessions: SessionConfig,
    pub(crate) daemon: Daemon,
    pub(crate) audit: Audit,
    pub(crate) notify: Notify,
    pub(crate) log: Log,
    /// Agents of the user's own.
    pub(crate) agents: Vec<OwnAgent>,
    settings: Vec<Setting>,
}

/// What is kept, and how soon it is safe from a power loss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    /// Bytes of output kept while a process runs; `None` keeps all.
    pub(crate) live_max: Option<u64>,
    /// How long a journal stays after the exit.
    pub(crate) keep_for: Duration,
    /// What all exited processes' journals may occupy together.
    pub(crate) total_max: u64,
    /// How many exited processes are kept of what each client program started.
    pub(crate) count_max: usize,
    /// The longest a byte stays in memory only.
    pub(crate) sync_every: Duration,
    /// What stays free of the disk; a share with an upper bound if not given.
    pub(crate) keep_free: Option<u64>,
}

impl Journal {
    /// The same as the engine knows it.
    pub(crate) fn retention(&self) -> Retention {
        let Self { live_max, keep_for, total_max, count_max, keep_free, .. } = *self;
        Retention { after_exit: keep_for, total: total_max, count: count_max, live_max, keep_free }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// How long a process may take to end before SIGKILL.
    pub(crate) kill_grace: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Attach {
    pub(crate) detach_key: DetachKey,
    /// How much of the past an attach shows.
    pub(crate) tail: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Doors {
    /// Whether `up` opens the cdev door on its port or the next free one.
    pub(crate) cdev: bool,
    /// Whether `up` opens the claustrum door in its own runtime folder.
    pub(crate) claustrum: bool,
    /// Whether `up` opens the codecast door on its port or the next free one.
    pub(crate) codecast: bool,
    /// Whether `up` opens the sudo-proxy door in its own runtime folder.
    pub(crate) sudo_proxy: bool,
    /// Whether `up` opens the zeroclaw door in its own runtime folder.
    pub(crate) zeroclaw: bool,
    /// Whether `up` serves devices on its port or the next free one.
    pub(crate) web: bool,
    /// Whether `up` takes other products' own places without `--drop-in`.
    pub(crate) drop_in: bool,
}

/// Where devices reach us, and what protects what they say.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    /// The first port to try.
    pub(crate) port: u16,
    pub(crate) bind: IpAddr,
    /// Where a tunnel or a proxy in front of us is found.
    pub(crate) url: Option<ExternalUrl>,
    /// A certificate of the user's own.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    /// Other machines may speak in the clear.
    pub(crate) insecure_lan: bool,
    /// The zeroclaw door is there too.
    pub(crate) zeroclaw: bool,
}

impl Default for Web {
    fn default() -> Self {
        let bind = Ipv4Addr::LOCALHOST.into();
        Self { port: 0, bind, url: None, certificate: None, key: None, insecure_lan: false, zeroclaw: false }
    }
}

impl Web {
    /// Whether other machines could connect and nothing was chosen to protect what they say.
    pub(crate) fn is_unprotected(&self) -> bool {
        let chosen = self.url.is_some() || self.certificate.is_some() || self.insecure_lan;
        !self.bind.to_canonical().is_loopback() && !chosen
    }

    /// What cannot be meant, and the setting that says it.
    fn problem(&self) -> Option<(&'static str, &'static str)> {
        if self.certificate.is_some() != self.key.is_some() {
            return Some(("web.certificate", "web.certificate and web.key belong together: set both"));
        }
        if self.zeroclaw && self.certificate.is_none() {
            return Some(("web.zeroclaw", NO_TLS));
        }
        self.is_unprotected().then_some(("web.bind", UNPROTECTED))
    }
}

/// The port of cdev clients; how other machines reach it, `web` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cdev {
    /// The first one that is tried.
    pub(crate) port: u16,
    /// Where a tunnel or a proxy in front of it is found.
    pub(crate) url: Option<ExternalUrl>,
    /// How often clients hear that the server is there.
    pub(crate) heartbeat: Duration,
    /// Clients are held to the document's limits.
    pub(crate) rate_limit: bool,
    /// A prompt that begins with `!` is a command line.
    pub(crate) shell: bool,
}

const UNPROTECTED: &str = "other machines could connect, and nothing would protect what they say. Choose one: \
    web.url (a tunnel or proxy in front of ostler), web.certificate and web.key (your own), or web.insecure_lan = true";

const NO_TLS: &str = "zerocode speaks TLS to that port: set web.certificate and web.key, PEM files of your own";

/// Who may ask for a decision, and for what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approvals {
    /// How long a request waits in the inbox once somebody could see it.
    pub(crate) wait: Duration,
    /// After so many refusals of the same request it is refused unasked, for so long.
    pub(crate) fatigue: Option<(u32, Duration)>,
    /// What becomes of a privileged command whose file the asker could replace.
    pub(crate) writable_programs: ostler_door_sudo_proxy::Writable,
    /// Users who may ask beside our own.
    pub(crate) requesters: Vec<u32>,
    /// Where the sudo-proxy door of `ostler up` listens, if not at its usual place.
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Daemon {
    /// Whether the keeper brings a crashed `ostler up` back.
    pub(crate) restart: bool,
    /// Whether daemon and keeper leave core files, and may be looked into for it.
    pub(crate) core_dumps: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    /// Where entries are sent as well.
    pub(crate) forward: Forward,
}

/// A place outside that hears of every entry of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forward {
    #[default]
    Nowhere,
    Journald,
    /// A command line for the shell; it reads JSON lines.
    Command(String),
}

impl Forward {
    fn parse(text: &str) -> Self {
        match text.trim() {
            "" => Self::Nowhere,
            "journald" => Self::Journald,
            command => Self::Command(command.to_owned()),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// What the daemon writes to its log.
    pub(crate) level: Targets,
}

impl Config {
    /// Reads the file if it exists, then the environment. The first problem found is returned.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let (config, problems) = Self::load_all(path, |name| std::env::var(name).ok());
        match problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(config),
        }
    }

    /// As `load`, but keeps going: every problem is returned, and defaults stand where values were bad.
    pub(crate) fn load_all(path: &Path, env: impl Fn(&str) -> Option<String>) -> (Self, Vec<ConfigError>) {
        let mut problems = Vec::new();
        let said = file::read(path, &mut problems);
        let own = said.agents.iter().map(|agent| (agent.name.clone(), agent.command.clone())).collect();
        let mut config = Self {
            journal: Journal::default(),
            process: Process::default(),
            attach: Attach::default(),
            doors: Doors::default(),
            web: Web::default(),
            cdev: Cdev::default(),
            approvals: Approvals::default(),
            sessions: SessionConfig { oneshot: oneshot(), agents: own, ..SessionConfig::default() },
            daemon: Daemon::default(),
            audit: Audit::default(),
            notify: Notify::default(),
            log: Log::default(),
            agents: said.agents,
            settings: Vec::with_capacity(KEYS.len()),
        };
        for key in KEYS {
            let variable = key.variable();
            let default = (key.default.to_owned(), Origin::Default);
            let filed = said.settings.iter().find(|setting| setting.key.name == key.name);
            let filed = filed.map(|setting| (setting.text.clone(), setting.origin.clone()));
            let exported = env(&variable).map(|text| (text, Origin::Environment(variable)));
            // Weakest first: a bad value is reported and the weaker one stands.
            for (text, origin) in [Some(default), filed, exported].into_iter().flatten() {
                match (key.apply)(&mut config, &text) {
                    Ok(()) => config.remember(key, text, origin),
                    Err(reason) => {
                        problems.push(ConfigError::Bad { at: origin, key: key.name.to_owned(), text, reason });
                    }
                }
            }
        }
        if let Some((name, reason)) = config.web.problem()
            && let Some(Setting { key, text, origin }) = config.settings.iter().find(|setting| setting.key.name == name)
        {
            let (at, key, text) = (origin.clone(), key.name.to_owned(), text.clone());
            problems.push(ConfigError::Bad { at, key, text, reason: reason.to_owned() });
        }
        (config, problems)
    }

    fn remember(&mut self, key: &'static Key, text: String, origin: Origin) {
        self.settings.retain(|setting| setting.key.name != key.name);
        self.settings.push(Setting { key, text, origin });
    }

    /// Settings that loosen something, with their values.
    pub(crate) fn loosening(&self) -> Vec<(String, String)> {
        let found = self.settings.iter().filter(|setting| setting.key.loosens(&setting.text));
        found.map(|setting| (setting.key.name.to_owned(), setting.text.clone())).collect()
    }

    /// Takes these settings back to their defaults.
    pub(crate) fn without(mut self, settings: &[(String, String)]) -> Self {
        for key in KEYS.iter().filter(|key| settings.iter().any(|(name, _)| name == key.name)) {
            // A default is a value that can be read.
            let _ = (key.apply)(&mut self, key.default);
        }
        self
    }

    /// Takes everything that loosens something back.
    pub(crate) fn strict(self) -> Self {
        let all = self.loosening();
        self.without(&all)
    }

    /// Every setting, and every agent of the user's own.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let settings = self.settings.iter().map(|Setting { key, text, origin }| {
            let (text, doc) = (text.clone(), key.doc);
            Row { key: key.name.to_owned(), text, origin, doc }
        });
        let agents = self.agents.iter();
        settings.chain(agents.map(|own| Row {
            key: own.key(),
            text: own.text(),
            origin: &own.origin,
            doc: agents::DOC,
        }))
    }
}

/// Whether agents are run once for each prompt whatever they offer: what programs that imitate an agent need.
pub(crate) fn oneshot() -> bool {
    std::env::var_os("OSTLER_AGENT_DRIVE").is_some_and(|drive| drive == "oneshot")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn load(text: &str, env: &[(&str, &str)]) -> (Config, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let env: Vec<(String, String)> = env.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let find = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let (config, problems) = Config::load_all(&path, find);
        let short = |problem: &ConfigError| problem.to_string().replace(path.to_str().unwrap(), "FILE");
        (config, problems.iter().map(short).collect())
    }

    #[test]
    fn every_default_is_valid_and_every_key_is_shown() {
        let (config, problems) = load("", &[]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.settings.len(), KEYS.len());
        assert_eq!(config.journal.keep_for, Duration::from_secs(24 * 3600));
        assert_eq!(config.journal.total_max, 8 << 30);
        assert_eq!(config.journal.live_max, None);
    }

    #[test]
    fn the_environment_wins_over_the_file_and_each_names_its_place() {
        let text = "\n[journal]\nkeep_for = \"2h\"\ntotal_max = 1024\n";
        let (config, problems) = load(text, &[("OSTLER_JOURNAL_KEEP_FOR", "3h")]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.journal.keep_for, Duration::from_secs(3 * 3600));
        let origin = |name: &str| config.settings.iter().find(|s| s.key.name == name).unwrap().origin.clone();
        assert_eq!(origin("journal.keep_for").to_string(), "environment OSTLER_JOURNAL_KEEP_FOR");
        assert!(matches!(origin("journal.total_max"), Origin::File { line: 4, .. }));
        assert_eq!(origin("log.level"), Origin::Default);
    }

    #[test]
    fn what_loosens_is_named_and_can_be_taken_back() {
        let text = "[approvals]\nwritable_programs = \"warn\"\nwait = \"5s\"\n[daemon]\ncore_dumps = \"no\"\n";
        let (config, problems) = load(text, &[]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.loosening(), [("approvals.writable_programs".to_owned(), "warn".to_owned())]);
        let strict = config.clone().without(&config.loosening());
        assert_eq!(strict.approvals.writable_programs, ostler_door_sudo_proxy::Writable::Refuse);
        assert_eq!(strict.approvals.wait, Duration::from_secs(5));
        let (config, _) = load("", &[("OSTLER_DAEMON_CORE_DUMPS", "on")]);
        assert_eq!(config.loosening(), [("daemon.core_dumps".to_owned(), "on".to_owned())]);
        assert!(!config.clone().without(&config.loosening()).daemon.core_dumps);
    }

    #[test]
    fn a_command_for_the_audit_and_less_patience_loosen_too() {
        let names = |text: &str| load(text, &[]).0.loosening().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("[audit]\nforward = \"cat >> x\"\n"), ["audit.forward"]);
        assert_eq!(names("[audit]\nforward = \"journald\"\n"), [""; 0]);
        for (pause, loosens) in [("off", true), ("0s", true), ("9m", true), ("10m", false), ("1h", false)] {
            assert_eq!(!names(&format!("[approvals]\nfatigue = \"{pause}\"\n")).is_empty(), loosens, "{pause}");
        }
        let (config, _) = load("[approvals]\nfatigue = \"off\"\n[audit]\nforward = \"x\"\n", &[]);
        let strict = config.strict();
        assert_eq!(
            (strict.audit.forward, strict.approvals.fatigue),
            (Forward::Nowhere, Some((3, Duration::from_secs(600))))
        );
    }

    #[test]
    fn other_machines_need_a_way_that_was_chosen() {
        let problems = |text: &str| load(&format!("[web]\nbind = \"0.0.0.0\"\n{text}"), &[]).1;
        let refused = problems("");
        assert!(refused[0].starts_with("FILE:2: web.bind = 0.0.0.0: other machines could connect"), "{refused:?}");
        for way in ["web.url", "web.certificate", "web.insecure_lan"] {
            assert!(refused[0].contains(way), "{way}");
        }
        for way in ["url = \"https://box.example\"", "certificate = \"/c\"\nkey = \"/k\"", "insecure_lan = true"] {
            assert!(problems(way).is_empty(), "{way}: {:?}", problems(way));
        }
        assert!(load("[web]\nbind = \"::1\"\n", &[]).1.is_empty());
        assert!(problems("certificate = \"/c\"\n")[0].contains("belong together"));
        let (config, _) = load("[web]\nbind = \"0.0.0.0\"\ninsecure_lan = true\nurl = \"https://x\"\n", &[]);
        let names: Vec<String> = config.loosening().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["web.bind", "web.url", "web.insecure_lan"], "an agent can write the file");
        assert!(config.clone().without(&config.loosening()).web.bind.is_loopback());
    }

    #[test]
    fn zerocode_comes_to_the_web_port_by_choice_and_never_in_the_clear() {
        assert!(!load("", &[]).0.web.zeroclaw);
        let (_, refused) = load("[web]\nurl = \"https://box.example\"\nzeroclaw = true\n", &[]);
        assert!(refused[0].starts_with("FILE:3: web.zeroclaw = true: ") && refused[0].contains("web.certificate"));
        let (config, problems) = load("[web]\nzeroclaw = true\ncertificate = \"/c\"\nkey = \"/k\"\n", &[]);
        assert!(problems.is_empty() && config.web.zeroclaw && config.loosening().is_empty(), "{problems:?}");
    }

    #[test]
    fn an_unknown_key_is_an_error_with_a_suggestion() {
        let (_, problems) = load("[journal]\nkeep_fro = \"2h\"\n", &[]);
        assert_eq!(problems, ["FILE:2: no setting `journal.keep_fro`; did you mean `journal.keep_for`?"]);
        let (_, problems) = load("[jurnal]\nkeep_for = \"2h\"\n", &[]);
        assert_eq!(problems, ["FILE:1: no section `jurnal`; did you mean `journal`?"]);
        let (_, problems) = load("zebra = 1\n", &[]);
        assert_eq!(problems, ["FILE:1: no setting `zebra`"]);
    }

    #[test]
    fn all_problems_are_told_at_once_with_their_lines() {
        let (config, problems) =
            load("[journal]\nkeep_for = \"soon\"\ntotal_max = true\n[process]\nkill_grace = \"1s\"\n", &[]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("FILE:2: journal.keep_for = soon"), "{problems:?}");
        assert!(problems[1].starts_with("FILE:3: journal.total_max"), "{problems:?}");
        assert_eq!(config.process.kill_grace, Duration::from_secs(1));
        assert_eq!(config.journal.keep_for, Duration::from_secs(24 * 3600));
    }

    #[test]
    fn broken_toml_is_named_by_line() {
        let (_, problems) = load("[journal]\nkeep_for = \n", &[]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("FILE:2: "), "{problems:?}");
    }
}
