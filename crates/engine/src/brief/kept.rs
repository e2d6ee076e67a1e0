//! A helper that the keeper forks. The keeper holds nothing of it but its number: its output is a pipe of this daemon. Its key
//! says what it is, so that nobody takes it for a process that a client started.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_keeper::{Keeper, Scope, SpawnError, SpawnSpec, Spawned, StdioKind, procfs};
use ostler_story::Exit;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Brief, Ended, Ran, Running, see_through};
use crate::id;
use crate::process::Registry;

/// What the keeper waits longer than this daemon, which ends its helpers itself while it lives.
const LATER: Duration = Duration::from_secs(5);
/// How long a helper waits for a new keeper that the old one had not begun, and how often it looks.
const ANOTHER_KEEPER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(20));

/// The helpers that somebody waits for, by key. As many as there are threads that may wait.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<HashMap<String, Arc<Helper>>>);

impl Kept {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Helper>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keeper is gone, or we leave it: nobody will tell how they end.
    pub(crate) fn lose(&self) {
        let lost: Vec<Arc<Helper>> = self.table().drain().map(|(_, helper)| helper).collect();
        for helper in lost {
            helper.is(State::Lost(helper.process()));
        }
    }
}

/// What is known of a helper.
#[derive(Debug, Clone, Copy)]
enum State {
    Starting,
    /// Its pid and start time.
    Runs(u32, u64),
    Ended(Exit),
    /// This system error kept it from running.
    Failed(i32),
    /// The keeper had not begun with it.
    NotBegun,
    /// The keeper died; who it was, if that was heard.
    Lost(Option<(u32, u64)>),
}

/// One that somebody waits for.
#[derive(Debug)]
struct Helper {
    state: Mutex<State>,
    over: OwnedFd,
}

impl Helper {
    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> Option<(u32, u64)> {
        match self.state() {
            State::Runs(pid, start_ticks) => Some((pid, start_ticks)),
            _ => None,
        }
    }

    /// What is known now. What is the end of it stays.
    fn is(&self, news: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Starting | State::Runs(..)) {
            *state = news;
        }
        if !matches!(*state, State::Starting | State::Runs(..)) {
            let _ = rustix::io::write(&self.over, &1u64.to_ne_bytes());
        }
    }

    fn hear(&self, answer: Result<Spawned, SpawnError>) {
        self.is(match answer {
            Ok(spawned) => State::Runs(spawned.pid, spawned.start_ticks),
            Err(SpawnError::Failed { errno, .. }) => State::Failed(errno),
            Err(SpawnError::Refused(why)) => {
                tracing::warn!("a helper was not started: {why}");
                State::Failed(rustix::io::Errno::INVAL.raw_os_error())
            }
            Err(SpawnError::KeeperGone { begun: false }) => State::NotBegun,
            Err(SpawnError::KeeperGone { begun: true }) => State::Lost(None),
        });
    }
}

/// A helper, and who can signal it.
struct Theirs<'a> {
    keeper: &'a Keeper,
    key: &'a str,
    helper: &'a Helper,
}

impl Running for Theirs<'_> {
    fn over(&self) -> BorrowedFd<'_> {
        self.helper.over.as_fd()
    }

    fn ask(&self) {
        self.keeper.signal(self.key, Signal::TERM.as_raw(), Scope::Group, |_| {});
    }

    fn kill(&self) {
        self.keeper.signal(self.key, Signal::KILL.as_raw(), Scope::Tree, |_| {});
    }
}

impl Registry {
    /// Runs a helper under the keeper of the moment, or under the next if that one dies before it began.
    pub(super) fn run(&self, brief: &Brief) -> io::Result<Ran> {
        let patience = Instant::now() + ANOTHER_KEEPER.0;
        loop {
            match self.attempt(brief)? {
                Some(ran) => return Ok(ran),
                None if Instant::now() < patience => std::thread::sleep(ANOTHER_KEEPER.1),
                None => {
                    return Err(io::Error::other(
                        "the process that holds the others died, and no new one could be reached",
                    ));
                }
            }
        }
    }

    /// Nothing: the keeper was gone before it began.
    fn attempt(&self, brief: &Brief) -> io::Result<Option<Ran>> {
        let (reader, writer) = io::pipe()?;
        let key = id::helper()?;
        let over = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let helper = Arc::new(Helper { state: Mutex::new(State::Starting), over });
        let spec = spec(brief, writer.into())?;
        let keeper = self.keeper();
        self.helpers().table().insert(key.clone(), Arc::clone(&helper));
        let told = Arc::clone(&helper);
        keeper.spawn(&key, &SpawnSpec { nofile: self.child_nofile(), ..spec }, Vec::new(), move |answer| {
            told.hear(answer)
        });
        let seen = see_through(brief, &Theirs { keeper: &keeper, key: &key, helper: &helper }, reader);
        self.helpers().table().remove(&key);
        let (over, said) = seen?;
        let state = helper.state();
        if matches!(state, State::Ended(_)) {
            keeper.ack(&key);
        }
        match (over, state) {
            (_, State::Lost(process)) => {
                end_orphan(key, process);
                Err(io::Error::other("the process that holds the others died while it ran"))
            }
            (_, State::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            (Some(over), _) => Ok(Some(Ran { ended: over, said })),
            (None, State::Ended(exit)) => Ok(Some(Ran { ended: Ended::Exited(exit), said })),
            (None, _) => Ok(None),
        }
    }

    /// The keeper reaped a helper. One that nobody waits for any more is forgotten.
    pub(crate) fn helper_exited(&self, key: &str, exit: Exit) {
        match self.helpers().table().remove(key) {
            Some(helper) => helper.is(State::Ended(exit)),
            None => self.keeper().ack(key),
        }
    }
}

fn spec(brief: &Brief, writer: OwnedFd) -> io::Result<SpawnSpec> {
    let said = StdioKind::Given(0);
    let input = brief.input()?;
    let heard = if input.is_some() { StdioKind::Given(1) } else { StdioKind::Null };
    let program = brief.program.clone().into_os_string();
    Ok(SpawnSpec {
        program: brief.program.clone(),
        argv: std::iter::once(program).chain(brief.args.iter().cloned()).collect(),
        env: brief.env.clone(),
        cwd: brief.cwd.clone(),
        stdio: [heard, said, if brief.with_stderr { said } else { StdioKind::Null }],
        within: Some(brief.within + brief.grace + LATER),
        given: std::iter::once(writer).chain(input).collect(),
        ..SpawnSpec::default()
    })
}

/// Ends a helper that lost its keeper, beside everything else: it looks at every process there is.
fn end_orphan(key: String, process: Option<(u32, u64)>) {
    std::thread::spawn(move || {
        let (pid, start_ticks) = process.unwrap_or_default();
        let is_it = || procfs::stat(pid).is_ok_and(|stat| stat.start_ticks == start_ticks);
        ostler_keeper::end_younger(&key, (pid, start_ticks), 0);
        if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_it()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    });
}
