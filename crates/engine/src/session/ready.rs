//! A session's new work tree, made ready as its repository's own file says: files copied, ports of its own, a setup command as a
//! hosted process. The file is anybody's who writes to the repository, so nothing of it counts before a person has said yes to
//! exactly these bytes; that is on record as a setting is.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use ostler_story::By;
use ostler_workspace::ready::{ReadyError, ReadyFile};
use ostler_workspace::{Durable, read_small, replace};
use serde::{Deserialize, Serialize};

use super::Session;
use super::sessions::SessionsInner;
use crate::approval::DecideError;
use crate::workspace::work::{GitError, WorkTree};
use crate::{Engine, MayWait, Process, SpawnError, SpawnRequest};

/// What was done, in the session's own folder.
const NOTE: &str = "ready.json";
const VERSION: u32 = 1;
/// A few paths and reasons.
const NOTE_MAX: u64 = 256 << 10;
/// Below those that the kernel hands out by itself.
const PORTS: (u16, u16) = (20_000, 32_000);
/// Attempts that are told apart; each is a setup that somebody watched fail.
const ATTEMPTS: usize = 1000;

/// How a session's work tree was made ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyNote {
    version: u32,
    /// Of the file that said so.
    pub hash: String,
    /// Its ports, the first and the last.
    pub ports: Option<(u16, u16)>,
    /// Files that were copied.
    pub copied: Vec<PathBuf>,
    /// Files that were not, with the reason.
    pub left: Vec<String>,
}

/// How far it is.
pub struct Readiness {
    /// What the repository's own file says, if there is one.
    pub file: Option<ReadyFile>,
    /// A person has said yes to exactly that.
    pub trusted: bool,
    /// What was done.
    pub note: Option<ReadyNote>,
    /// The newest setup.
    pub process: Option<Process>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// It has none of its own.
    #[error("{} is no worktree that was made for a session", .0.display())]
    NoTree(PathBuf),
    /// The file is not there, or says nothing of it.
    #[error("the repository has no .ostler.toml that says so")]
    NothingSaid,
    /// Nobody has said yes to it.
    #[error("nobody has said yes to .ostler.toml as it is now")]
    NotTrusted,
    /// It is another file by now.
    #[error(".ostler.toml is not what was read")]
    Changed,
    /// The file is odd.
    #[error(transparent)]
    File(#[from] ReadyError),
    /// Git said no.
    #[error(transparent)]
    Git(#[from] GitError),
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It could not be put on record.
    #[error(transparent)]
    Record(#[from] DecideError),
    /// The disk said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A session's work tree, opened.
struct OpenTree {
    shared: Arc<SessionsInner>,
    engine: Engine,
    tree: WorkTree,
    file: Option<ReadyFile>,
}

impl Session {
    /// How far its work tree is made ready.
    pub fn readiness(&self, wait: &MayWait) -> Result<Readiness, PrepareError> {
        let place = self.ready_place(wait)?;
        Ok(self.readiness_of(place))
    }

    /// A person says yes to the file with this hash, for every work tree of the repository.
    pub fn trust_ready(&self, wait: &MayWait, hash: &str, by: By) -> Result<(), PrepareError> {
        let place = self.ready_place(wait)?;
        match &place.file {
            None => Err(PrepareError::NothingSaid),
            Some(file) if file.hash != hash => Err(PrepareError::Changed),
            Some(_) => Ok(place.engine.inbox().trust(wait, place.setting(hash), by)?),
        }
    }

    /// Does what a trusted file says, once; a setup that failed is begun again if `again`.
    pub fn make_ready(&self, wait: &MayWait, again: bool) -> Result<Readiness, PrepareError> {
        let place = self.ready_place(wait)?;
        let Some(file) = place.file.clone() else { return Ok(self.readiness_of(place)) };
        if !place.trusts(&file.hash) {
            return Ok(self.readiness_of(place));
        }
        if self.ready_note()?.is_none_or(|note| again && note.hash != file.hash) {
            self.do_ready(wait, &place, &file)?;
        }
        if let Some(setup) = &file.ready.setup
            && let Some(key) = self.next_setup(&place.engine, again)
        {
            self.start_ready(wait, &place, setup, Some(key))?;
        }
        Ok(self.readiness_of(place))
    }

    /// Runs what the file says is worked on.
    pub fn run_ready(&self, wait: &MayWait) -> Result<Process, PrepareError> {
        let place = self.ready_place(wait)?;
        let file = place.file.clone().ok_or(PrepareError::NothingSaid)?;
        if !place.trusts(&file.hash) {
            return Err(PrepareError::NotTrusted);
        }
        let run = file.ready.run.ok_or(PrepareError::NothingSaid)?;
        self.start_ready(wait, &place, &run, None)
    }

    /// The newest setup, if it failed. Never touches the disk.
    pub(super) fn failed_setup(&self) -> Option<String> {
        self.look().state.created.worktree.as_ref()?;
        let engine = self.inner.shared.upgrade()?.engine();
        let process = self.setups(&engine).last()?;
        process.exit().filter(|exit| exit.code() != Some(0)).map(|_| process.id().to_owned())
    }

    /// Variables for everything that runs in its work tree.
    pub(super) fn ready_env(&self, _wait: &MayWait) -> Vec<(OsString, OsString)> {
        let ports = self.ready_note().ok().flatten().and_then(|note| note.ports);
        let ports = ports.map(|(first, last)| [("OSTLER_PORT", first), ("OSTLER_PORT_LAST", last)]);
        ports.into_iter().flatten().map(|(name, port)| (name.into(), port.to_string().into())).collect()
    }

    fn ready_place(&self, wait: &MayWait) -> Result<OpenTree, PrepareError> {
        let created = self.look().state.created.clone();
        let none = || PrepareError::NoTree(created.workspace.clone());
        let (path, shared) =
            (created.worktree.as_ref().ok_or_else(none)?, self.inner.shared.upgrade().ok_or_else(none)?);
        let engine = shared.engine_of(created.joiner.as_deref());
        let root = engine.root(wait, path).map_err(GitError::from)?;
        let file = ReadyFile::read(&root)?;
        let tree = engine.work_tree(wait, root)?;
        Ok(OpenTree { shared, engine, tree, file })
    }

    fn readiness_of(&self, place: OpenTree) -> Readiness {
        let trusted = place.file.as_ref().is_some_and(|file| place.trusts(&file.hash));
        let note = self.ready_note().ok().flatten();
        Readiness { trusted, note, process: self.setups(&place.engine).last(), file: place.file }
    }

    /// Copies files and chooses ports.
    fn do_ready(&self, wait: &MayWait, place: &OpenTree, file: &ReadyFile) -> Result<(), PrepareError> {
        let main = place.tree.trees()?.into_iter().next().filter(|main| !main.bare && !main.gone);
        let (copied, left) = match main {
            Some(main) => {
                let from = place.engine.root(wait, &main.path).map_err(GitError::from)?;
                file.ready.copy_files(&from, place.tree.root())
            }
            None => (Vec::new(), Vec::new()),
        };
        // Held until the note is there: two that choose at once choose differently.
        let _making = place.shared.making.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = free_ports(&place.shared.dir(), self.id(), file.ready.ports);
        let note = ReadyNote { version: VERSION, hash: file.hash.clone(), ports, copied, left };
        let path = self.inner.folder.dir.join(NOTE);
        let text = serde_json::to_vec(&note).map_err(io::Error::from)?;
        Ok(replace(&path, &path.with_extension("new"), &text, Durable::No)?)
    }

    fn ready_note(&self) -> io::Result<Option<ReadyNote>> {
        note_in(&self.inner.folder.dir)
    }

    fn start_ready(
        &self,
        wait: &MayWait,
        place: &OpenTree,
        command: &str,
        key: Option<String>,
    ) -> Result<Process, PrepareError> {
        let request = SpawnRequest {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), command.into()],
            env: [("PATH".into(), place.engine.environment().wide_path())]
                .into_iter()
                .chain(self.ready_env(wait))
                .collect(),
            cwd: Some(place.tree.top().to_owned()),
            key,
            owner: Some(self.id().to_owned()),
            ..SpawnRequest::default()
        };
        Ok(place.shared.runtime.block_on(place.engine.spawn(request))?)
    }

    /// Every setup of it that there was, the newest last.
    fn setups(&self, engine: &Engine) -> impl Iterator<Item = Process> {
        (0..ATTEMPTS).map_while(|number| engine.started_under(&self.setup_key(number)))
    }

    fn setup_key(&self, number: usize) -> String {
        format!("setup:{}:{number}", self.inner.id)
    }

    /// The key of the setup to begin now, if one is to be begun.
    fn next_setup(&self, engine: &Engine, again: bool) -> Option<String> {
        let known: Vec<Process> = self.setups(engine).collect();
        let last = known.last().and_then(Process::exit);
        let begin = match known.last() {
            None => true,
            Some(_) => again && last.is_some_and(|exit| exit.code() != Some(0)),
        };
        (begin && known.len() < ATTEMPTS).then(|| self.setup_key(known.len()))
    }
}

impl OpenTree {
    /// What a yes is about: this repository, and exactly this file.
    fn setting(&self, hash: &str) -> (String, String) {
        (self.tree.repository().display().to_string(), hash.to_owned())
    }

    fn trusts(&self, hash: &str) -> bool {
        self.engine.inbox().is_trusted(&self.setting(hash))
    }
}

fn note_in(folder: &Path) -> io::Result<Option<ReadyNote>> {
    let text = match read_small(&folder.join(NOTE), NOTE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let note: ReadyNote = serde_json::from_str(&text)?;
    Ok((note.version == VERSION).then_some(note))
}

/// The first range that no other session has.
fn free_ports(sessions: &Path, own: &str, count: u16) -> Option<(u16, u16)> {
    let others = fs::read_dir(sessions).ok()?.flatten().filter(|entry| entry.file_name() != own);
    let taken: Vec<(u16, u16)> = others.filter_map(|entry| note_in(&entry.path()).ok()??.ports).collect();
    let last = count.checked_sub(1)?;
    let ranges = (PORTS.0..PORTS.1 - last).step_by(usize::from(count)).map(|first| (first, first + last));
    let apart = |(first, last): &(u16, u16)| taken.iter().all(|(low, high)| last < low || high < first);
    ranges.into_iter().find(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sessions_have_the_same_port() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (session, count) in [("s1", 10), ("s2", 10), ("s3", 7), ("s4", 100), ("s5", 1)] {
            let ports = free_ports(dir.path(), session, count).unwrap();
            let note =
                ReadyNote { version: VERSION, hash: String::new(), ports: Some(ports), copied: vec![], left: vec![] };
            fs::create_dir(dir.path().join(session)).unwrap();
            fs::write(dir.path().join(session).join(NOTE), serde_json::to_vec(&note).unwrap()).unwrap();
            all.extend(ports.0..=ports.1);
            assert_eq!(free_ports(dir.path(), session, count), Some(ports), "its own are free to it");
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (128, 128));
        assert_eq!(free_ports(dir.path(), "s6", 0), None);
    }
}
