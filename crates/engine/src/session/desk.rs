//! What a session is at this moment: changed by one at a time, looked at by everybody.
//!
//! Whoever changes it holds the pen, also while the journal takes its time. Whoever only looks waits at most for a change in
//! memory, never for the disk.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use super::state::State;
use crate::MayWait;

/// What changes together.
pub(super) struct Current {
    pub(super) state: State,
    /// A thread drives it.
    pub(super) driven: bool,
    /// The agent's variables, as a client sent them: in memory and nowhere else.
    pub(super) env: Vec<(OsString, OsString)>,
    /// The process of the moment, for lists.
    pub(super) process: Option<String>,
    /// Whoever closes this session wants its process gone.
    pub(super) end: bool,
    /// Nothing more begins until the program that it was made through is here again, or somebody prompts it.
    pub(super) waits: bool,
}

pub(super) struct Desk {
    /// Whose turn it is to write.
    turn: Mutex<()>,
    /// Written to only by whose turn it is, and only for as long as that takes in memory.
    current: RwLock<Current>,
}

impl Desk {
    pub(super) fn new(state: State) -> Self {
        let waits = state.created.joiner.is_some();
        let current = Current { state, driven: false, env: Vec::new(), process: None, end: false, waits };
        Self { turn: Mutex::default(), current: RwLock::new(current) }
    }

    /// A look at it. To be let go before anything else is waited for.
    pub(super) fn look(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only pen. Whoever has it may be writing to the disk.
    pub(super) fn pen<'a>(&'a self, wait: &'a MayWait) -> Pen<'a> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Pen { wait, _turn: turn, desk: self, seen: OnceCell::new() }
    }
}

/// The right to change a session, and the only one: what it shows does not change behind its holder's back.
pub(super) struct Pen<'a> {
    pub(super) wait: &'a MayWait,
    _turn: MutexGuard<'a, ()>,
    desk: &'a Desk,
    seen: OnceCell<RwLockReadGuard<'a, Current>>,
}

impl Pen<'_> {
    /// Changes what everybody sees. Not to be waited in.
    pub(super) fn change<T>(&mut self, what: impl FnOnce(&mut Current) -> T) -> T {
        self.seen.take();
        what(&mut self.desk.current.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for Pen<'_> {
    type Target = Current;

    fn deref(&self) -> &Current {
        self.seen.get_or_init(|| self.desk.look())
    }
}
