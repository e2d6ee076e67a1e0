//! A program that opened its door here instead of running an engine of its own. What is started through that door gets the
//! program's environment, folder, umask and limits, and never the daemon's.
//!
//! None of it is on the disk: after the death of the daemon the program brings it again. A session remembers the name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Engine, Environment};

/// How long after its start a daemon waits for programs that had joined the one before it, before it starts one of their
/// agents without them.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);
/// What so many programs brought is remembered, for agents that outlive them: far more than a user runs.
const REMEMBERED: usize = 64;

/// What a program brought.
#[derive(Debug)]
pub struct Joiner {
    /// The same after each restart of the program and of the daemon.
    pub name: String,
    /// What children inherit.
    pub environment: Arc<Environment>,
    /// Where they start if nobody says.
    pub cwd: PathBuf,
    /// Their umask.
    pub umask: u32,
    /// Their descriptor limit, soft and hard.
    pub nofile: (u64, u64),
    /// Their other limits, where they are not the daemon's: the kernel's number of each, soft, hard.
    pub limits: Vec<(u32, u64, u64)>,
}

/// Everybody who joined this daemon.
#[derive(Debug)]
pub(crate) struct Joiners {
    /// By name; the oldest are forgotten first.
    known: Mutex<BTreeMap<String, (u64, Arc<Joiner>)>>,
    since: Instant,
}

impl Default for Joiners {
    fn default() -> Self {
        Self { known: Mutex::default(), since: Instant::now() }
    }
}

impl Joiners {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (u64, Arc<Joiner>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, joiner: Arc<Joiner>) {
        let mut known = self.known();
        let number = known.values().map(|(number, _)| *number).max().unwrap_or(0) + 1;
        known.insert(joiner.name.clone(), (number, joiner));
        while known.len() > REMEMBERED {
            let oldest = known.iter().min_by_key(|(_, (number, _))| *number).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { return };
            known.remove(&oldest);
        }
    }

    /// What the program of this name brought, also when it is gone.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Joiner>> {
        self.known().get(name).map(|(_, joiner)| Arc::clone(joiner))
    }

    /// Whether the program of this name is not here and may come soon: it had joined the daemon before this one.
    pub(crate) fn may_come(&self, name: &str) -> bool {
        self.since.elapsed() < COMES_BACK_WITHIN && !self.known().contains_key(name)
    }
}

impl Engine {
    /// This engine as the clients of a program that joins know it. What waited for the program goes on.
    pub fn join(&self, joiner: Joiner) -> Self {
        let joiner = Arc::new(joiner);
        self.inner.joiners.enter(Arc::clone(&joiner));
        let sessions = self.sessions.of(joiner);
        sessions.go_on_joined();
        Self { inner: Arc::clone(&self.inner), inbox: self.inbox.clone(), sessions }
    }

    /// The program that this engine is known through.
    pub(crate) fn joiner(&self) -> Option<&Arc<Joiner>> {
        self.sessions.joiner.as_ref()
    }

    /// The folder of the program that opened its door here: what its clients name by a relative path is meant from there.
    pub fn joined_folder(&self) -> Option<&std::path::Path> {
        self.joiner().map(|joiner| joiner.cwd.as_path())
    }

    /// What children inherit.
    pub fn environment(&self) -> &Arc<Environment> {
        self.joiner().map_or(&self.inner.config.environment, |joiner| &joiner.environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joiner(name: &str) -> Arc<Joiner> {
        let environment = Arc::new(Environment::new(Vec::new()));
        let (cwd, limits) = ("/".into(), Vec::new());
        Arc::new(Joiner { name: name.into(), environment, cwd, umask: 0o22, nofile: (1, 1), limits })
    }

    #[test]
    fn who_was_here_is_remembered_and_the_oldest_forgotten_first() {
        let joiners = Joiners::default();
        assert!(joiners.may_come("first"));
        for number in 0..REMEMBERED {
            joiners.enter(joiner(&format!("n{number}")));
        }
        // Came again: it is the youngest now.
        joiners.enter(joiner("n0"));
        joiners.enter(joiner("one more"));
        assert!(joiners.get("n0").is_some() && joiners.get("n1").is_none() && joiners.get("n2").is_some());
        assert!(!joiners.may_come("n0"), "it is here");
    }
}
