//! Whether somebody is at a conversation in a terminal: a living program that was started for it, or writes to its transcript.
//! Where neither can be told, a transcript that was written moments ago is a maybe, and said to be one.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use super::Transcript;

/// A program that waits for the model writes nothing for so long.
const RECENT_MS: u64 = 10_000;
/// Processes and descriptors that are looked at.
const PROCESSES_MAX: usize = 32_768;
const DESCRIPTORS_MAX: usize = 1024;
/// As much of a command line as names a conversation.
const COMMAND_MAX: u64 = 64 << 10;

/// What shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Its command line names the conversation.
    Argument,
    /// It has the transcript open for writing.
    OpenFile,
    /// The transcript was written moments ago: a maybe.
    Recent,
}

/// A program that has the conversation, or may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The process, where one is known.
    pub pid: Option<u32>,
    /// What shows it.
    pub evidence: Evidence,
}

pub(super) fn look(
    transcript: &Transcript,
    file: Option<&Path>,
    workspace: Option<&str>,
    changed_ms: u64,
) -> Option<Running> {
    let name = transcript.recorder.name();
    let mut near = None;
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries.take(PROCESSES_MAX) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let ours = entry.metadata().is_ok_and(|meta| meta.uid() == own) && pid != std::process::id();
        if !ours {
            continue;
        }
        let words = command(&entry.path());
        if !is_called(&words, name) {
            continue;
        }
        let names = |word: &String| {
            word == &transcript.id || word.strip_suffix(&transcript.id).is_some_and(|head| head.ends_with('='))
        };
        if words.iter().any(names) {
            return Some(Running { pid: Some(pid), evidence: Evidence::Argument });
        }
        if file.is_some_and(|file| writes(&entry.path(), file)) {
            return Some(Running { pid: Some(pid), evidence: Evidence::OpenFile });
        }
        let there = fs::read_link(entry.path().join("cwd"));
        if there.is_ok_and(|there| workspace.is_some_and(|workspace| there == Path::new(workspace))) {
            near = Some(pid);
        }
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let recent = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(changed_ms) < RECENT_MS;
    recent.then_some(Running { pid: near, evidence: Evidence::Recent })
}

fn command(process: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    // One that is gone, or hides, has none.
    let _ = fs::File::open(process.join("cmdline")).and_then(|file| file.take(COMMAND_MAX).read_to_end(&mut bytes));
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether the program, or the script that an interpreter runs, has this name.
fn is_called(words: &[String], name: &str) -> bool {
    let base = |word: &String| word.rsplit('/').next().is_some_and(|base| base.starts_with(name));
    words.iter().take(3).filter(|word| !word.starts_with('-')).any(base)
}

fn writes(process: &Path, file: &Path) -> bool {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries.take(DESCRIPTORS_MAX).any(|entry| {
        let is_it = fs::read_link(entry.path()).is_ok_and(|target| target == file);
        let flags = || fs::read_to_string(process.join("fdinfo").join(entry.file_name())).ok();
        let mode = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("flags:").map(str::trim).map(str::to_owned))?;
            u32::from_str_radix(&line, 8).ok()
        };
        // O_WRONLY or O_RDWR.
        is_it && flags().and_then(mode).is_some_and(|flags| flags & 3 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Recorder;

    fn transcript(id: &str) -> Transcript {
        Transcript { recorder: Recorder::Claude, id: id.to_owned(), file: None }
    }

    #[test]
    fn a_program_that_was_started_for_it_is_found_and_others_are_not() {
        let id = "0f0f0f0f-1111-2222-3333-444455556666";
        assert_eq!(look(&transcript(id), None, None, 0), None);
        let start = |name: &str| {
            use std::os::unix::process::CommandExt;
            let mut command = std::process::Command::new("sleep");
            command.arg0(name).arg("60").spawn().unwrap()
        };
        // The command line of a sleep cannot name it; a shell's can.
        let mut other = start("grep");
        let mut shell = std::process::Command::new("sh");
        std::os::unix::process::CommandExt::arg0(&mut shell, "claude");
        let shell = shell.args(["-c", "read line", "--resume", id]).stdin(std::process::Stdio::piped());
        let mut agent = shell.spawn().unwrap();
        // A program that was just started has no command line for a moment.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let found = loop {
            match look(&transcript(id), None, None, 0) {
                None if std::time::Instant::now() < until => std::thread::yield_now(),
                found => break found,
            }
        };
        agent.kill().unwrap();
        other.kill().unwrap();
        agent.wait().unwrap();
        other.wait().unwrap();
        assert_eq!(found, Some(Running { pid: Some(agent.id()), evidence: Evidence::Argument }));
    }

    #[test]
    fn moments_ago_is_a_maybe() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
        let found = look(&transcript("none-such"), None, None, now).unwrap();
        assert_eq!(found.evidence, Evidence::Recent);
        assert_eq!(look(&transcript("none-such"), None, None, now - RECENT_MS * 2), None);
    }
}
