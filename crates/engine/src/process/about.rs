//! What a process was started as: kept by the keeper while it lives, and on the instance's roll for as long as its output is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use ostler_keeper::procfs::{self, Stat};
use ostler_keeper::{META_MAX, Orphan};
use ostler_story::Alias;
use serde::{Deserialize, Serialize};

/// The file in a process's folder that said what it was, before there was a roll.
const FILE: &str = "meta.json";
/// Newer reads older; an older program refuses a newer file.
const VERSION: u32 = 1;
/// The longest text of a description that is too long for the keeper: enough to know a command by.
const BRIEF: usize = 1024;
/// Stands on the roll for a command that is not to be written down.
const PRIVATE: &str = "(private)";
/// Room for the words that stand for what was left out.
const MARKER: usize = 64;

/// The roll calls the space of a client's name its endpoint.
mod alias_on_roll {
    use ostler_story::Alias;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct OnRoll {
        endpoint: String,
        id: String,
    }

    pub(super) fn serialize<S: Serializer>(alias: &Option<Alias>, to: S) -> Result<S::Ok, S::Error> {
        alias.clone().map(|Alias { space, id }| OnRoll { endpoint: space, id }).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Alias>, D::Error> {
        let alias = Option::<OnRoll>::deserialize(from)?;
        Ok(alias.map(|OnRoll { endpoint, id }| Alias { space: endpoint, id }))
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinSize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// A process as it was asked for. Texts are for people: bytes that are not UTF-8 show as U+FFFD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    version: u32,
    /// The generation id.
    pub id: String,
    /// The command as given.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// A name that people gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A client's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "alias_on_roll")]
    pub alias: Option<Alias>,
    /// Whether it runs on a terminal.
    #[serde(default)]
    pub tty: bool,
    /// Whether it has a terminal that somebody relays and nobody journals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
    /// Whether its journal is in memory only.
    #[serde(default)]
    pub private: bool,
    /// The bound on its live journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_max: Option<u64>,
    /// The caller's key, by which the same request is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session whose agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session whose agent's own screen it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen_of: Option<String>,
    /// The session or process that it was started from, if that is hosted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Epoch seconds, the very number that clients compare.
    pub started: f64,
    /// The pid, once there was one.
    #[serde(default)]
    pub pid: u32,
    /// When the kernel started it, and in which boot of the machine: with the pid, a name that is never given again.
    #[serde(default, skip_serializing_if = "is_zero")]
    start_ticks: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    boot: String,
    /// Its keeper died while it was starting it: it has no pid, and may have run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// The machine was restarted while it ran: that is how it ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebooted: bool,
    /// It was let go on purpose while it ran: it is nobody's any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) abandoned: bool,
    /// Somebody ended it, or was there when it ended: its end is nobody's news.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) seen: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// This boot of the machine.
fn this_boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(crate::approval::boot_id)
}

impl About {
    pub(super) fn new(id: String, program: String, args: Vec<String>, cwd: PathBuf) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            version: VERSION,
            id,
            program,
            args,
            cwd,
            name: None,
            alias: None,
            tty: false,
            relayed: false,
            private: false,
            live_max: None,
            key: None,
            session: None,
            screen_of: None,
            owner: None,
            // Microseconds: more digits than that are noise in a 64-bit float.
            started: now.as_micros() as f64 / 1e6,
            pid: 0,
            start_ticks: 0,
            boot: String::new(),
            unsure: false,
            rebooted: false,
            abandoned: false,
            seen: false,
        }
    }

    /// The same under this name.
    pub(super) fn called(&self, name: Option<String>) -> Self {
        Self { name, ..self.clone() }
    }

    /// The same, and its end is nobody's news.
    pub(super) fn seen(self, seen: bool) -> Self {
        Self { seen, ..self }
    }

    /// It runs, and this is how the kernel knows it.
    pub(super) fn runs_as(&mut self, pid: u32, start_ticks: u64) {
        this_boot().clone_into(&mut self.boot);
        (self.pid, self.start_ticks, self.unsure) = (pid, start_ticks, false);
    }

    /// It ran in a boot of the machine that is over.
    pub(super) fn is_of_another_boot(&self) -> bool {
        !self.boot.is_empty() && self.boot != this_boot() && crate::approval::named_boot().is_some()
    }

    /// What it is looked for by when no keeper holds it.
    pub(super) fn orphan(&self) -> Orphan {
        let start_ticks = if self.boot == this_boot() { self.start_ticks } else { 0 };
        Orphan { key: self.id.clone(), pid: self.pid, start_ticks }
    }

    /// Whether it may live although no keeper holds it; says yes too often rather than too rarely.
    pub(super) fn may_live(&self) -> bool {
        let is_it = |stat: Stat| self.start_ticks == 0 || self.start_ticks == stat.start_ticks;
        !self.abandoned && (self.unsure || procfs::stat(self.pid).is_ok_and(is_it))
    }

    /// Of a process whose description is lost, and whose journal is not.
    pub(super) fn lost(id: String, since: SystemTime) -> Self {
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: since.as_secs_f64(), ..Self::new(id, "(unknown)".into(), Vec::new(), "/".into()) }
    }

    /// When it was started.
    pub fn started_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(self.started).unwrap_or_default()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // A struct of strings and numbers always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What the roll says of it: all, or of one that is private only how the kernel knows it.
    pub(super) fn for_roll(&self) -> Vec<u8> {
        if !self.private {
            return self.encode();
        }
        let Self { started, pid, start_ticks, abandoned, .. } = *self;
        let bare = Self::new(self.id.clone(), PRIVATE.into(), Vec::new(), "/".into());
        let boot = self.boot.clone();
        // Before it has a pid it is looked for by its cookie.
        Self { private: true, started, pid, start_ticks, boot, abandoned, unsure: pid == 0, ..bare }.encode()
    }

    /// Whether the keeper has room for all of it. If not, the whole must be on the roll before anything is started.
    pub(super) fn is_long(&self) -> bool {
        self.encode().len() > META_MAX
    }

    /// What the keeper holds of it: all, or with the arguments shortened to what there is room for.
    pub(super) fn for_keeper(&self) -> Vec<u8> {
        let whole = self.encode();
        if whole.len() <= META_MAX {
            return whole;
        }
        let mut short = Self { program: brief(&self.program), args: Vec::new(), ..self.clone() };
        let mut room = META_MAX.saturating_sub(short.encode().len() + MARKER);
        for (index, arg) in self.args.iter().enumerate() {
            let arg = brief(arg);
            // Quoted, and with its comma.
            let size = serde_json::to_string(&arg).map_or(usize::MAX, |text| text.len() + 1);
            if size > room {
                short.args.push(format!("… ({} more arguments)", self.args.len() - index));
                break;
            }
            room -= size;
            short.args.push(arg);
        }
        short.encode()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let about: Self = serde_json::from_slice(bytes).map_err(|error| Unreadable::Malformed(error.to_string()))?;
        if about.version > VERSION {
            return Err(Unreadable::Newer(about.version));
        }
        Ok(about)
    }

    /// From the folder, where an older ostler has written it.
    pub(super) fn read(dir: &Path) -> Result<Self, Unreadable> {
        let bytes = std::fs::read(dir.join(FILE)).map_err(Unreadable::Io)?;
        Self::decode(&bytes)
    }
}

/// The beginning of a text that is too long, and how long it was.
fn brief(text: &str) -> String {
    match text.len() {
        0..=BRIEF => text.to_owned(),
        length => {
            let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= BRIEF).last().unwrap_or(0);
            format!("{}… ({length} bytes)", text.get(..end).unwrap_or_default())
        }
    }
}

/// Why a process folder does not say what it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("{0}")]
    Io(#[source] std::io::Error),
    #[error("malformed description: {0}")]
    Malformed(String),
    #[error("written by a newer ostler (format {0}); this one reads up to {VERSION}")]
    Newer(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_of_an_older_ostler_is_read_and_newer_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut about = About::new("p1".into(), "sh".into(), vec!["-c".into()], "/".into());
        about.alias = Some(Alias { space: "e".into(), id: "a/b".into() });
        std::fs::write(dir.path().join(FILE), about.encode()).unwrap();
        assert_eq!(About::read(dir.path()).unwrap(), about);
        assert!(String::from_utf8(about.encode()).unwrap().contains(r#""alias":{"endpoint":"e","id":"a/b"}"#));
        about.version = VERSION + 1;
        std::fs::write(dir.path().join(FILE), about.encode()).unwrap();
        assert!(matches!(About::read(dir.path()), Err(Unreadable::Newer(_))));
    }

    #[test]
    fn the_roll_knows_a_private_process_by_its_pid_and_nothing_else() {
        let mut about = About::new("p1".into(), "secret-program".into(), vec!["secret-word".into()], "/secret".into());
        about.name = Some("secret-name".into());
        assert_eq!(about.for_roll(), about.encode());
        about.private = true;
        assert!(About::decode(&about.for_roll()).unwrap().unsure, "it may come to be");
        about.runs_as(7, 8);
        let said = about.for_roll();
        assert!(!String::from_utf8(said.clone()).unwrap().contains("secret"));
        let said = About::decode(&said).unwrap();
        assert_eq!((said.orphan().pid, said.orphan().start_ticks, said.private, said.unsure), (7, 8, true, false));
    }

    #[test]
    fn the_keeper_gets_a_description_that_fits_whatever_the_arguments() {
        let about = |args: Vec<String>| About::new("p1".into(), "sh".into(), args, "/".into());
        let short = about(vec!["-c".into(), "true".into()]);
        assert!(!short.is_long());
        assert_eq!(About::decode(&short.for_keeper()).unwrap(), short);
        let long = [
            vec!["x".repeat(900_000)],
            vec!["é".repeat(100_000); 9],
            vec!["\u{1}".repeat(100); 9000],
            vec![String::new(); 300_000],
        ];
        for args in long {
            let count = args.len();
            let whole = about(args);
            assert!(whole.is_long());
            let held = whole.for_keeper();
            assert!(held.len() <= META_MAX, "{count}: {}", held.len());
            let held = About::decode(&held).unwrap();
            let last = held.args.last().unwrap();
            assert!(last.contains("bytes)") || last.contains("more arguments)"), "{count}: {last}");
            assert_eq!((held.id, held.program, held.cwd), (whole.id, whole.program, whole.cwd));
        }
    }
}
