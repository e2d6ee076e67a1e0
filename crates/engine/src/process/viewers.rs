//! Who looks at a process, and the size that its terminal has for their sake: the smallest counts, because everybody sees
//! all of it then. A size is its viewer's: it goes with the viewer, however that ends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Process, WinSize};

/// The file in a process's folder that says what size its terminal has: rows and columns, two bytes each.
const SIZE: &str = "size";

/// Somebody who looks at a process.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// Their process, where it is known.
    pub pid: Option<u32>,
    /// What their own terminal has; nothing where that is not to count.
    pub size: Option<WinSize>,
    /// Whether they may type, and do not only look.
    pub types: bool,
    /// Since when.
    pub since: SystemTime,
}

#[derive(Debug, Default)]
pub(super) struct Viewers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    present: Vec<(u64, Viewer)>,
    /// The size that the terminal was given last, as far as this daemon knows.
    size: Option<WinSize>,
    /// The size that it has, or last had.
    last_size: Option<WinSize>,
}

impl State {
    /// The smallest of all sizes, by each side.
    fn smallest(&self) -> Option<WinSize> {
        let sizes = self.present.iter().filter_map(|(_, viewer)| viewer.size);
        sizes.reduce(|a, b| WinSize { rows: a.rows.min(b.rows), cols: a.cols.min(b.cols) })
    }

    fn entry(&mut self, number: u64) -> Option<&mut Viewer> {
        self.present.iter_mut().find(|(known, _)| *known == number).map(|(_, viewer)| viewer)
    }
}

impl Viewers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A viewer's presence: it ends when this is dropped.
pub struct Viewing {
    process: Process,
    number: u64,
}

impl Viewing {
    /// The viewer's terminal has another size; gives back the one that holds for all.
    pub fn resize(&self, size: WinSize) -> Option<WinSize> {
        let mut state = self.process.inner.viewers.state();
        if let Some(viewer) = state.entry(self.number) {
            viewer.size = Some(size);
        }
        self.process.fit(&mut state);
        state.size
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let mut state = self.process.inner.viewers.state();
        state.present.retain(|(number, _)| *number != self.number);
        self.process.fit(&mut state);
    }
}

impl Process {
    /// Lets somebody look at it, for as long as what this gives back is kept; and the size that holds now, if one is known.
    pub fn view(&self, viewer: Viewer) -> (Viewing, Option<WinSize>) {
        let mut state = self.inner.viewers.state();
        state.last += 1;
        let number = state.last;
        state.present.push((number, viewer));
        self.fit(&mut state);
        (Viewing { process: self.clone(), number }, state.size)
    }

    /// Who looks at it.
    pub fn viewers(&self) -> Vec<Viewer> {
        self.inner.viewers.state().present.iter().map(|(_, viewer)| viewer.clone()).collect()
    }

    /// Tells a terminal process its new size. Where viewers' sizes count, theirs holds; the one that holds is given back.
    pub fn resize(&self, size: WinSize) -> WinSize {
        let mut state = self.inner.viewers.state();
        let holds = state.smallest().unwrap_or(size);
        self.give(&mut state, holds);
        holds
    }

    /// The size that its terminal has, or last had; nothing where there is none, or it is not known any more.
    pub fn size(&self) -> Option<WinSize> {
        if !self.about().tty {
            return None;
        }
        let mut state = self.inner.viewers.state();
        if state.last_size.is_none() {
            state.last_size = self.noted_size();
        }
        state.last_size
    }

    /// It begins with this size.
    pub(super) fn begins_with(&self, size: WinSize) {
        self.inner.viewers.state().last_size = Some(size);
        self.wants_a_look();
    }

    /// What a daemon before has noted. Where that could stall nothing is looked up.
    fn noted_size(&self) -> Option<WinSize> {
        let dir = self.inner.journal.dir().filter(|_| !self.inner.journal.is_remote())?;
        let bytes: [u8; 4] = std::fs::read(dir.join(SIZE)).ok()?.try_into().ok()?;
        let [a, b, c, d] = bytes;
        Some(WinSize { rows: u16::from_le_bytes([a, b]), cols: u16::from_le_bytes([c, d]) })
    }

    /// Notes its size for the daemons to come. Touches the disk; what is kept in memory is noted nowhere.
    pub(super) fn note_size(&self, noted: &mut Option<WinSize>) {
        let size = self.inner.viewers.state().last_size;
        if let (Some(WinSize { rows, cols }), Some(dir)) = (size.filter(|_| size != *noted), self.inner.journal.dir()) {
            let bytes = [rows.to_le_bytes(), cols.to_le_bytes()].concat();
            if let Err(error) = std::fs::write(dir.join(SIZE), bytes) {
                tracing::debug!("{}: its size was not noted: {error}", self.id());
            }
            *noted = size;
        }
    }

    /// Gives the terminal the size that its viewers agree on. When the last one leaves it stays as it is.
    fn fit(&self, state: &mut State) {
        if let Some(size) = state.smallest() {
            self.give(state, size);
        }
    }

    /// Under the lock, so that sizes arrive in the order in which they became true.
    fn give(&self, state: &mut State, size: WinSize) {
        if self.about().tty
            && state.size != Some(size)
            && let Some(keeper) = self.keeper()
        {
            (state.size, state.last_size) = (Some(size), Some(size));
            keeper.resize(self.id(), size.rows, size.cols);
            self.wants_a_look();
        }
    }
}
