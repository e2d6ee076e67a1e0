//! Where an agent's program is, and which way it is driven.
//!
//! The way is told by the text of `PROGRAM --help`, asked once and remembered by path, size and time of change: starting some
//! of these programs takes seconds. Nothing here looks at a version to decide, and nothing waits longer than a minute.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_agents::probe;
use ostler_story::{Agent, Drive};
use ostler_workspace::{Durable, read_small, replace};
use serde::{Deserialize, Serialize};

use crate::brief::{Brief, Ended, Forker};
use crate::lookup::executable;

/// A minute: under load the slowest of them needs half of that to print its help.
const DEADLINE: Duration = Duration::from_secs(60);
/// 256 KiB: help texts have a few; the rest of a longer one is thrown away.
const MAX_OUTPUT: usize = 256 << 10;
/// 64 programs are remembered: a handful of agents, and their earlier versions until they are pushed out.
const MAX_KNOWN: usize = 64;
/// 1 MiB: as many programs with paths as long as they can be.
const MOST: u64 = 1 << 20;
/// The version of the file. Another one is not read and not written over.
const FORMAT: u32 = 1;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program; none when it is not in PATH. Agents that are part of this program have none either.
    pub program: Option<PathBuf>,
    /// The way it is driven.
    pub drive: Drive,
    /// What it says of its version, once somebody asked.
    pub version: Option<String>,
}

/// Finds agents, and remembers what their help said.
#[derive(Debug)]
pub struct Finder {
    file: Option<PathBuf>,
    /// Read from the file at the first question.
    known: Mutex<Option<Vec<Known>>>,
    oneshot: bool,
    forker: Forker,
}

/// A program as it was when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    agent: String,
    program: PathBuf,
    size: u64,
    changed_ns: i64,
    drive: Drive,
    version: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    programs: Vec<Known>,
}

impl Finder {
    /// Remembers in this file, too. `oneshot`: every command-line agent is run once for each prompt, whatever it could.
    pub fn new(file: Option<PathBuf>, oneshot: bool, forker: Forker) -> Self {
        Finder { file, known: Mutex::new(None), oneshot, forker }
    }

    /// The program of an agent in this PATH and the way it is driven. May take a minute the first time; on a thread of its
    /// own, never an async one.
    pub fn find(&self, agent: &Agent, program: Option<&str>, path: &OsStr) -> Found {
        let nothing = |drive| Found { program: None, drive, version: None };
        let name = match agent {
            Agent::Echo if program.is_none() => return nothing(Drive::Echo),
            Agent::Acp { command, .. } => command.first().map_or("", String::as_str),
            other => other.name(),
        };
        let fixed = probe(agent, "");
        let file = executable(program.unwrap_or(name).as_ref(), path).ok();
        let Some((file, meta)) = file.and_then(|file| file.metadata().ok().map(|meta| (file, meta))) else {
            return nothing(fixed);
        };
        if fixed != Drive::Oneshot || self.oneshot {
            // There is only one way: nothing to ask.
            return Found { program: Some(file), drive: fixed, version: None };
        }
        let known = self.known(agent, &file, &meta).or_else(|| {
            let help = ask(&self.forker, &file, "--help", path).ok()?;
            let known = Known::new(agent, &file, &meta, probe(agent, &help));
            self.remember(known.clone());
            Some(known)
        });
        let (drive, version) = known.map_or((fixed, None), |known| (known.drive, known.version));
        Found { program: Some(file), drive, version }
    }

    /// The same, and what the program says of its version.
    pub fn find_version(&self, agent: &Agent, program: Option<&str>, path: &OsStr) -> Found {
        let mut found = self.find(agent, program, path);
        let Some(file) = found.program.as_ref().filter(|_| found.version.is_none()) else { return found };
        found.version = ask(&self.forker, file, "--version", path).ok().and_then(|said| version_line(&said));
        if let (Some(version), Ok(meta)) = (&found.version, file.metadata())
            && let Some(mut known) = self.known(agent, file, &meta)
        {
            known.version = Some(version.clone());
            self.remember(known);
        }
        found
    }

    fn known(&self, agent: &Agent, file: &Path, meta: &Metadata) -> Option<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(|| self.file.as_deref().map(load).unwrap_or_default());
        known.iter().find(|known| known.is(agent, file, meta)).cloned()
    }

    fn remember(&self, new: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(Vec::new);
        known.retain(|old| (&old.agent, &old.program) != (&new.agent, &new.program));
        known.push(new);
        known.drain(..known.len().saturating_sub(MAX_KNOWN));
        if let Some(file) = &self.file
            && let Err(error) = store(file, known)
        {
            tracing::warn!(file = %file.display(), %error, "what agents can do is not remembered: they are asked again");
        }
    }
}

impl Known {
    fn new(agent: &Agent, program: &Path, meta: &Metadata, drive: Drive) -> Self {
        let agent = agent.name().to_owned();
        Known { agent, program: program.to_owned(), size: meta.len(), changed_ns: changed(meta), drive, version: None }
    }

    fn is(&self, agent: &Agent, program: &Path, meta: &Metadata) -> bool {
        let same = self.agent == agent.name() && self.program == program;
        same && self.size == meta.len() && self.changed_ns == changed(meta)
    }
}

fn changed(meta: &Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

fn load(file: &Path) -> Vec<Known> {
    let stored = read_small(file, MOST).ok().and_then(|text| serde_json::from_str::<Stored>(&text).ok());
    stored.filter(|stored| stored.format == FORMAT).map(|stored| stored.programs).unwrap_or_default()
}

/// Writes the file anew; one of another format stays as it is.
fn store(file: &Path, known: &[Known]) -> io::Result<()> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let there = read_small(file, MOST).ok().and_then(|text| serde_json::from_str::<Head>(&text).ok());
    if there.is_some_and(|there| there.format != FORMAT) {
        return Ok(());
    }
    let stored = Stored { format: FORMAT, programs: known.to_vec() };
    replace(file, &file.with_extension("new"), &serde_json::to_vec(&stored)?, Durable::No)
}

/// The first line that holds a digit: some programs say something else first.
fn version_line(said: &str) -> Option<String> {
    let line = said.lines().map(str::trim).find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    Some(line.chars().filter(|c| !c.is_control()).take(80).collect())
}

/// What a program prints for this option, on stdout and stderr, until it ends.
fn ask(forker: &Forker, program: &Path, option: &str, path: &OsStr) -> io::Result<String> {
    let mut brief = Brief::new(program, &[option], DEADLINE);
    brief.set("PATH", path);
    brief.set("TERM", "dumb");
    brief.set("NO_COLOR", "1");
    brief.cwd = "/".into();
    brief.max = MAX_OUTPUT;
    // A launcher may have left the real program behind.
    brief.leaves_nothing = true;
    let ran = forker.run(&brief)?;
    match ran.ended {
        Ended::TimedOut => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(String::from_utf8_lossy(&ran.said).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    /// A folder with one program in it, which counts how often it ran.
    struct Shelf(tempfile::TempDir);

    impl Shelf {
        fn with(name: &str, body: &str) -> Self {
            let shelf = Shelf(tempfile::tempdir().unwrap());
            shelf.put(name, body);
            shelf
        }

        fn put(&self, name: &str, body: &str) {
            let file = self.0.path().join(name);
            let script = format!("#!/bin/sh\necho \"$1\" >> {}\n{body}\n", self.0.path().join("asked").display());
            // Written by another process: a child forked meanwhile by another test would hold it open, and it could not run.
            let write = ["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"", file.to_str().unwrap(), &script];
            assert!(Command::new("sh").args(write).status().unwrap().success());
        }

        fn path(&self) -> std::ffi::OsString {
            format!("{}:/bin:/usr/bin", self.0.path().display()).into()
        }

        fn asked(&self) -> String {
            std::fs::read_to_string(self.0.path().join("asked")).unwrap_or_default()
        }
    }

    const HELP: &str =
        "case $1 in --help) echo '  --input-format <format>';; *) echo; echo '1.2.3 (Some Code)' >&2;; esac";

    #[test]
    fn a_program_is_asked_once_and_again_after_it_changed() {
        let shelf = Shelf::with("claude", HELP);
        let finder = Finder::new(Some(shelf.0.path().join("agents.json")), false, Forker::here());
        for _ in 0..3 {
            let found = finder.find(&Agent::Claude, None, &shelf.path());
            assert_eq!((found.program, found.drive), (Some(shelf.0.path().join("claude")), Drive::Stream));
        }
        assert_eq!(shelf.asked(), "--help\n");
        let later = Finder::new(Some(shelf.0.path().join("agents.json")), false, Forker::here());
        assert_eq!(later.find(&Agent::Claude, None, &shelf.path()).drive, Drive::Stream);
        assert_eq!(shelf.asked(), "--help\n", "the file remembers");
        shelf.put("claude", "echo old");
        assert_eq!(later.find(&Agent::Claude, None, &shelf.path()).drive, Drive::Oneshot);
        assert_eq!(shelf.asked(), "--help\n--help\n");
    }

    #[test]
    fn the_version_is_asked_only_by_who_wants_it_and_then_known() {
        let shelf = Shelf::with("claude", HELP);
        let finder = Finder::new(None, false, Forker::here());
        assert_eq!(finder.find(&Agent::Claude, None, &shelf.path()).version, None);
        for _ in 0..2 {
            let found = finder.find_version(&Agent::Claude, None, &shelf.path());
            assert_eq!(found.version.as_deref(), Some("1.2.3 (Some Code)"));
        }
        assert_eq!(finder.find(&Agent::Claude, None, &shelf.path()).version.as_deref(), Some("1.2.3 (Some Code)"));
        assert_eq!(shelf.asked(), "--help\n--version\n");
    }

    #[test]
    fn what_is_not_there_is_not_found_and_echo_needs_nothing() {
        let finder = Finder::new(None, false, Forker::here());
        assert_eq!(finder.find(&Agent::Codex, None, "/nowhere".as_ref()).program, None);
        assert_eq!(finder.find(&Agent::Codex, Some("/no/such/codex"), "/bin".as_ref()).program, None);
        let echo = Found { program: None, drive: Drive::Echo, version: None };
        assert_eq!(finder.find(&Agent::Echo, None, "/nowhere".as_ref()), echo);
        let acp = finder.find(&Agent::acp(vec!["sh".into()]), None, "/bin".as_ref());
        assert_eq!((acp.program, acp.drive), (Some("/bin/sh".into()), Drive::Acp));
    }

    #[test]
    fn one_process_for_each_prompt_can_be_forced() {
        let shelf = Shelf::with("claude", HELP);
        assert_eq!(
            Finder::new(None, true, Forker::here()).find(&Agent::Claude, None, &shelf.path()).drive,
            Drive::Oneshot
        );
        assert_eq!(shelf.asked(), "", "and then nothing is asked");
        assert_eq!(Finder::new(None, true, Forker::here()).find(&Agent::Echo, None, "".as_ref()).drive, Drive::Echo);
    }

    #[test]
    fn endless_output_is_cut_and_a_child_left_behind_is_not_waited_for() {
        let shelf = Shelf::with("codex", "sleep 300 & echo $! > \"$0.pid\"\nyes app-server | head -c 3000000");
        let file = shelf.0.path().join("codex");
        let said = ask(&Forker::here(), &file, "--help", &shelf.path()).unwrap();
        assert_eq!(said.len(), MAX_OUTPUT);
        let pid = std::fs::read_to_string(shelf.0.path().join("codex.pid")).unwrap();
        let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
            Err(_) => true,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !gone() {
            assert!(Instant::now() < deadline, "{pid} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_file_of_another_format_is_left_alone() {
        let shelf = Shelf::with("claude", HELP);
        let file = shelf.0.path().join("agents.json");
        let newer = "{\"format\":2,\"programs\":[]}";
        std::fs::write(&file, newer).unwrap();
        let finder = Finder::new(Some(file.clone()), false, Forker::here());
        assert_eq!(finder.find(&Agent::Claude, None, &shelf.path()).drive, Drive::Stream);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    }
}
