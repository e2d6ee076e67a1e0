//! Telling somebody who is not looking: one state for each session, terminal program and request that needs a person, has ended
//! or has failed; and a notice when that has stood for a while and nobody looks.
//!
//! # Theory of operation
//! The feed is the source: a thread follows it from a position that outlives the daemon, looks at what an entry is about as it is
//! now, and puts what stands on a board ([`board::Board`], pure, its clock handed in). The board says who is to be told. That is
//! written down, with the position, and only then handed to the ways, which the program around the engine brings along
//! ([`Ways`]): so none is told twice, whoever dies; one that was being sent at that moment is listed as unknown. What terminal
//! programs claim is in no feed, and is looked at every second while there are any.
//!
//! A notice names its subject and the kind, and nothing that an agent said, unless the settings want that.

mod answer;
mod board;
#[cfg(test)]
mod board_tests;
mod follow;
mod looking;
mod words;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use answer::Links;
pub use answer::{Answerable, LinkError};
use board::{Board, Sent};
pub use looking::{Looking, Onlookers};

use crate::access::device::Secret;
use crate::feed::Feed;
use crate::{Engine, MayWait};

/// Why nobody can be told.
const NOBODY: &str = "this ostler tells nobody of anything; only `ostler up` does";

/// What a person is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum For {
    /// A yes or a no.
    Permission,
    /// An answer.
    Question,
    /// A login.
    Login,
    /// A limit of use is reached.
    Limit,
    /// The machine was restarted in the middle: it waits to be told to go on.
    GoOn,
    /// It does not say.
    Something,
}

/// The one state of a session, terminal program or request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It waits for a person.
    Needs(For),
    /// It failed.
    Failed,
    /// It has done what it was asked for.
    Ended,
    /// It did stand in one of these, and goes on.
    Nothing,
}

/// What is told of, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A person is needed.
    Needs,
    /// Something failed.
    Failed,
    /// Something ended.
    Ended,
    /// None of these.
    Nothing,
}

impl What {
    /// Which kind it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Needs(_) => Kind::Needs,
            Self::Failed => Kind::Failed,
            Self::Ended => Kind::Ended,
            Self::Nothing => Kind::Nothing,
        }
    }
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::Failed => "failed",
            Self::Ended => "ended",
            Self::Nothing => "nothing",
        }
    }
}

/// Hours of the day in which nobody is told anything, in minutes since midnight; they may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// The first minute.
    pub from: u16,
    /// The first minute after.
    pub to: u16,
}

/// When somebody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How long something has to stand.
    pub after: Duration,
    /// Of what.
    pub kinds: Vec<Kind>,
    /// Notices about one of them in an hour.
    pub per_hour: u32,
    /// Nothing in these hours.
    pub quiet: Option<Hours>,
    /// Whether words of an agent are told too.
    pub content: bool,
    /// Whether a request whose words are told can be answered from the notice.
    pub answer: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(10),
            kinds: vec![Kind::Needs, Kind::Failed, Kind::Ended],
            per_hour: 6,
            quiet: None,
            content: false,
            answer: false,
        }
    }
}

/// Where the place is that a notice is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The session.
    pub session: Option<String>,
    /// The terminal program.
    pub process: Option<String>,
    /// The request.
    pub approval: Option<String>,
}

/// A notice, as ways carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its number; never given twice.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Of how many.
    pub count: usize,
    /// The most urgent kind.
    pub kind: Kind,
    /// In words, on one line.
    pub text: String,
    /// Of whom, where it is of one.
    pub about: About,
    /// What can be answered from it.
    pub answer: Option<Answerable>,
    /// What came of it, by each way.
    pub ways: Vec<(String, Result<String, String>)>,
}

/// One way to tell somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// What it is called.
    pub name: String,
    /// Where it leads, without what is secret.
    pub to: String,
    /// Why it does not work here, if that can be said beforehand.
    pub trouble: Option<String>,
}

/// Hears what came of a notice by a way, from any thread that may wait.
pub type Came = Arc<dyn Fn(&str, Result<String, String>) + Send + Sync>;

/// All ways to tell somebody: the program around the engine knows them.
pub trait Ways: Send + Sync + 'static {
    /// Those that are configured.
    fn list(&self, wait: &MayWait) -> Vec<Way>;

    /// Tells by all of them. Returns at once; `came` hears what came of each, from any thread, and no way waits for another.
    fn send(&self, notice: &Notice, came: Came);

    /// The minute of the day where the machine is.
    fn minute(&self, at_ms: u64) -> u16;

    /// Where to look, in a browser.
    fn link(&self, about: &About) -> Option<String>;

    /// Whether terminals ring.
    fn rings(&self) -> bool;

    /// The key that pushes to devices are signed with, or why there is none.
    fn push_key(&self, wait: &MayWait) -> Result<String, String>;

    /// Whether a device may be pushed to there, as far as that can be said of the address itself.
    fn check_endpoint(&self, endpoint: &str) -> Result<(), String>;
}

/// Notices; a cheap handle.
#[derive(Clone, Default)]
pub struct Notices {
    shared: Arc<NoticesInner>,
}

#[derive(Default)]
struct NoticesInner {
    /// Held while the disk is waited for: only by the thread that tells, and by those that carry.
    memory: Mutex<Option<Memory>>,
    /// What everybody may see.
    published: Mutex<Published>,
    bell: Mutex<Bell>,
    rung: Condvar,
    onlookers: Onlookers,
    links: Links,
}

/// What is remembered, and where.
struct Memory {
    board: Board,
    file: PathBuf,
}

#[derive(Default)]
struct Published {
    ways: Option<Arc<dyn Ways>>,
    notices: Arc<[Notice]>,
    /// The number of the newest.
    newest: u64,
}

#[derive(Default)]
struct Bell {
    /// Something may be due that was not when it was looked last.
    rung: bool,
    over: bool,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notices {
    /// Begins to tell, for as long as the daemon lives. What stood when the last one ended is gone on with.
    pub fn begin(&self, engine: &Engine, rules: Rules, ways: Arc<dyn Ways>) {
        held(&self.shared.published).ways = Some(Arc::clone(&ways));
        let (notices, engine) = (self.clone(), engine.clone());
        let begun = MayWait::thread("notices", move |wait| follow::run(wait, &notices, &engine, &rules, &ways));
        if let Err(error) = begun {
            tracing::error!("nobody is told of anything: {error}");
        }
    }

    /// Nobody is told any more.
    pub fn stop(&self) {
        held(&self.shared.bell).over = true;
        self.shared.rung.notify_all();
    }

    /// Something may be due. Never waits.
    fn ring(&self) {
        held(&self.shared.bell).rung = true;
        self.shared.rung.notify_all();
    }

    /// Waits until somebody rings, or for this long; `false` when it is over.
    fn wait(&self, _wait: &MayWait, within: Duration) -> bool {
        let bell = held(&self.shared.bell);
        let waited = self.shared.rung.wait_timeout_while(bell, within, |bell| !bell.rung && !bell.over);
        let (mut bell, _) = waited.unwrap_or_else(PoisonError::into_inner);
        bell.rung = false;
        !bell.over
    }

    /// Changes what is remembered. Waits for whoever writes it down.
    fn remember<T>(&self, _wait: &MayWait, change: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        held(&self.shared.memory).as_mut().map(change)
    }

    /// Lets everybody see what was sent; then the feed tells of it.
    fn publish(&self, board: &Board, feed: &Feed) {
        {
            let mut published = held(&self.shared.published);
            (published.notices, published.newest) = (board.sent.iter().map(notice).collect(), board.number);
        }
        feed.notices(board.number);
    }

    /// Who looks at what.
    pub fn onlookers(&self) -> &Onlookers {
        &self.shared.onlookers
    }

    /// The notices after this number, newest last, and the number of the newest. Never waits.
    pub fn list(&self, after: u64) -> (Vec<Notice>, u64) {
        let (notices, newest) = {
            let published = held(&self.shared.published);
            (Arc::clone(&published.notices), published.newest)
        };
        (notices.iter().filter(|notice| notice.number > after).cloned().collect(), newest)
    }

    /// The ways that are configured. May wait: one may have to be looked for.
    pub fn ways(&self, wait: &MayWait) -> Vec<Way> {
        self.carriers().map(|ways| ways.list(wait)).unwrap_or_default()
    }

    fn carriers(&self) -> Option<Arc<dyn Ways>> {
        held(&self.shared.published).ways.clone()
    }

    /// Where to look, in a browser.
    pub fn link(&self, about: &About) -> Option<String> {
        self.carriers()?.link(about)
    }

    /// Secrets for the links of a notice that goes this way: one allows, one denies, whichever is used first.
    pub fn links(&self, of: &Answerable, way: &str) -> io::Result<(Secret, Secret)> {
        self.shared.links.issue(of, way, crate::approval::clock::wall_ms())
    }

    /// Whether terminals ring.
    pub fn rings(&self) -> bool {
        self.carriers().is_some_and(|ways| ways.rings())
    }

    /// The key that pushes to devices are signed with.
    pub fn push_key(&self, wait: &MayWait) -> Result<String, String> {
        self.carriers().ok_or(NOBODY)?.push_key(wait)
    }

    /// Whether a device may be pushed to there.
    pub fn check_endpoint(&self, endpoint: &str) -> Result<(), String> {
        self.carriers().ok_or(NOBODY)?.check_endpoint(endpoint)
    }

    /// Tells by every way that they work. Waits until all of them have come to an end, or for this long.
    pub fn test(&self, wait: &MayWait, within: Duration) -> Vec<(Way, Result<String, String>)> {
        let Some(ways) = self.carriers() else { return Vec::new() };
        let notice = Notice {
            number: 0,
            at_ms: crate::approval::clock::wall_ms(),
            count: 1,
            kind: Kind::Needs,
            text: "this is a test of ostler's notices".to_owned(),
            about: About::default(),
            answer: None,
            ways: Vec::new(),
        };
        let late = || Err(format!("nothing was heard within {} s", within.as_secs()));
        let mut tried: Vec<(Way, Result<String, String>)> =
            ways.list(wait).into_iter().map(|way| (way, late())).collect();
        // Each way comes to one end.
        let (say, hear) = std::sync::mpsc::sync_channel(tried.len());
        // Nobody hears what comes too late.
        let came = move |way: &str, result| drop(say.try_send((way.to_owned(), result)));
        ways.send(&notice, Arc::new(came));
        let until = Instant::now() + within;
        let mut open = tried.len();
        while open > 0
            && let Ok((name, result)) = hear.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if let Some((_, known)) = tried.iter_mut().find(|(way, _)| way.name == name) {
                (*known, open) = (result, open - 1);
            }
        }
        tried
    }
}

impl Engine {
    /// Who is told of what, and who looks.
    pub fn notices(&self) -> &Notices {
        &self.inner.notices
    }
}

/// A notice as it is remembered.
fn notice(sent: &Sent) -> Notice {
    let kind = sent.of.iter().map(|(_, what)| what.kind()).min().unwrap_or(Kind::Nothing);
    Notice {
        number: sent.number,
        at_ms: sent.at_ms,
        count: sent.of.len(),
        kind,
        text: sent.text.clone(),
        about: match sent.of.as_slice() {
            [(id, _)] => about(id),
            _ => About::default(),
        },
        answer: sent.answer.clone(),
        ways: sent.ways.iter().map(|(way, result)| (way.clone(), result.clone())).collect(),
    }
}

/// What an id names: its first letter says.
fn about(id: &str) -> About {
    let named = Some(id.to_owned());
    match id.chars().next() {
        Some('s') => About { session: named, ..About::default() },
        Some('p') => About { process: named, ..About::default() },
        _ => About { approval: named, ..About::default() },
    }
}
