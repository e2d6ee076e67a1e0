//! A hosted process: its names, its journal, its stdin, its end.
//! A process belongs to nobody's connection; doors hold handles and drop them as they like.

mod about;
mod adopt;
mod claim;
mod cut_off;
mod end;
mod gate;
mod input;
mod lasting;
mod output;
mod registry;
mod rename;
mod replace;
mod seen;
mod spawn;
mod unheard;
mod viewers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::SystemTime;

use ostler_journal::{Bounds, Cursor, Hosted, Journal, Subscription, Wake};
use ostler_keeper::{Keeper, Scope};
use ostler_story::Exit;
use tokio::sync::Notify;

pub use about::{About, WinSize};
pub use adopt::noted;
pub use claim::{Claim, Doing, Need};
pub use end::{Ending, KillOutcome, KillPlan};
pub use input::StdinError;
pub use ostler_journal::Appended;
pub use output::Stdout;
pub(crate) use registry::Registry;
pub use registry::{Happening, Observer, ResolveError};
pub use rename::RenameError;
pub use spawn::{SpawnError, SpawnRequest};
use viewers::Viewers;
pub use viewers::{Viewer, Viewing};

/// A handle to one process generation.
#[derive(Clone)]
pub struct Process {
    inner: Arc<Inner>,
}

struct Inner {
    about: About,
    /// What people call it now.
    name: RwLock<Option<String>>,
    pid: u32,
    /// With the pid it names one process for as long as the machine runs.
    start_ticks: u64,
    journal: Arc<Journal>,
    /// What drives the pipes; nothing once the process is over and every writer of its output is gone.
    hosted: RwLock<Option<Hosted>>,
    registry: Weak<Registry>,
    /// Its alias was given to a newer process: nobody hears of this one through that name again.
    superseded: AtomicBool,
    /// Its end, come or to come, is nobody's news.
    seen: AtomicBool,
    ended: Notify,
    viewers: Viewers,
    following: claim::Following,
}

impl Process {
    /// The generation id.
    pub fn id(&self) -> &str {
        &self.inner.about.id
    }

    /// Why its output waits for the disk, if it does.
    pub fn held_back(&self) -> Option<String> {
        let (held, registry) = (self.bounds().held_back?, self.inner.registry.upgrade()?);
        Some(crate::disk::held_back(&registry.config.dir, held.reason))
    }

    /// What was started, as it was asked for. What it is called may have changed: see [`Self::name`].
    pub fn about(&self) -> &About {
        &self.inner.about
    }

    /// The child's pid; meaningful to the system only while it runs.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// When it was started, by this machine's wall clock.
    pub fn started_at(&self) -> SystemTime {
        self.inner.about.started_at()
    }

    /// What its journal holds right now.
    pub fn bounds(&self) -> Bounds {
        self.inner.journal.bounds()
    }

    /// How it ended; nothing while it runs or its last output is still being read.
    pub fn exit(&self) -> Option<Exit> {
        self.bounds().exit.as_ref().map(|record| record.how)
    }

    /// Whether its end has not been journaled yet.
    pub fn is_running(&self) -> bool {
        self.bounds().exit.is_none()
    }

    /// A reader of its output, after the frame with this number.
    pub fn cursor(&self, after_seq: u64) -> Cursor {
        Cursor::new(Arc::clone(&self.inner.journal), after_seq)
    }

    /// Calls `wake` whenever the journal has grown, until the subscription is dropped.
    pub fn subscribe(&self, wake: Arc<dyn Wake>) -> Subscription {
        self.inner.journal.subscribe(wake)
    }

    /// Whether a newer process has taken over the alias.
    pub fn is_superseded(&self) -> bool {
        self.inner.superseded.load(Ordering::Acquire)
    }

    /// Sends a signal; to a process that is over, nothing.
    pub fn signal(&self, signal: i32, scope: Scope) {
        if self.is_running()
            && let Some(keeper) = self.keeper()
        {
            if signal == end::KILL {
                self.is_told_to_end();
            }
            keeper.signal(self.id(), signal, scope, |_| {});
        }
    }

    /// Waits until the end has been journaled.
    pub async fn wait_exit(&self) -> Exit {
        loop {
            let ended = self.inner.ended.notified();
            if let Some(exit) = self.exit() {
                return exit;
            }
            ended.await;
        }
    }

    /// The keeper of the moment: one that died is replaced.
    fn keeper(&self) -> Option<Keeper> {
        self.inner.registry.upgrade().map(|registry| registry.keeper())
    }

    fn hosted(&self) -> Option<Hosted> {
        self.inner.hosted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn let_go(&self) {
        self.inner.hosted.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}
