//! What there is in every instance, live: for each, one thread follows the feed and asks for the requests when they have changed,
//! one waits for notices, and one asks for the list when something has changed, while somebody looks at it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_api::client::{Client, ClientError};
use ostler_api::{
    ApprovalInfo, ApprovalListParams, FeedKind, Hosted, HostedKind, HostedListParams, HostedState, methods,
};

use super::inbox::Which;
use crate::instances::FoundInstance;
use crate::output::CommandError;
use crate::verbs::Context;
use crate::verbs::connect::is_real;
use crate::verbs::listing::hosted;
use crate::verbs::{bells, follow_feed};

/// How often new instances are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(2);
/// How often the last words of what works are looked at, which nobody announces; nobody reads faster.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// As long as changes that come in a row may take to be one list.
const LIST_PAUSE: Duration = Duration::from_millis(100);
/// A list can be long and a machine busy, but not for longer than this.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Lists that wait to be drawn; each replaces the one before, so a thread that has to wait loses nothing.
const NEWS_MAX: usize = 16;
/// Of what is over, as many as anybody scrolls through.
const OVER_MAX: u32 = 50;
/// Last lines of the one that is looked at: a screenful.
const LINES: u32 = 40;

/// What a thread has to tell.
pub(super) enum News {
    Pending {
        instance: String,
        list: Vec<ApprovalInfo>,
        /// Rules that wait to be affirmed.
        suspended: u64,
        /// Nobody can decide.
        locked: bool,
    },
    Hosted {
        instance: String,
        list: Vec<Hosted>,
        /// The last lines of the one that is looked at.
        lines: Option<(Which, Vec<String>)>,
    },
    Away {
        instance: String,
        why: String,
    },
    /// Somebody is needed who did not look.
    Notice(String),
    /// Somebody else answers in its place.
    Impostor {
        instance: String,
        why: String,
    },
}

/// What the screen wants to know, told to the threads that ask.
#[derive(Default)]
struct Wish {
    /// Somebody looks.
    looks: bool,
    focus: Option<Which>,
    /// Grows whenever a list is wanted at once.
    asked: u64,
}

#[derive(Default)]
struct Wanted {
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Wanted {
    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list is wanted now: something has changed.
    fn ask(&self) {
        self.wish().asked += 1;
        self.changed.notify_all();
    }

    /// Waits until a list is wanted: something has changed, or something works and may have said more. Gives back whose last
    /// lines are wanted too.
    fn next(&self, known: &mut u64, works: bool) -> Option<Which> {
        let until = Instant::now() + LIST_EVERY;
        let mut wish = self.wish();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if wish.looks && (wish.asked != *known || works && left.is_zero()) {
                *known = wish.asked;
                return wish.focus.clone();
            }
            wish = match wish.looks && works {
                true => self.changed.wait_timeout(wish, left).unwrap_or_else(PoisonError::into_inner).0,
                false => self.changed.wait(wish).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

pub(super) struct Feed {
    news: Receiver<News>,
    tell: SyncSender<News>,
    watched: Arc<Mutex<HashSet<String>>>,
    wanted: Arc<Wanted>,
    scanned: Option<Instant>,
}

impl Feed {
    pub(super) fn new() -> Self {
        let (tell, news) = sync_channel(NEWS_MAX);
        let wanted = Arc::<Wanted>::default();
        wanted.wish().looks = true;
        Self { news, tell, watched: Arc::default(), wanted, scanned: None }
    }

    /// Whose last lines are looked at. Another one than before is asked for at once.
    pub(super) fn focus(&self, focus: Option<Which>) {
        let mut wish = self.wanted.wish();
        if wish.focus != focus {
            (wish.focus, wish.asked) = (focus, wish.asked + 1);
            self.wanted.changed.notify_all();
        }
    }

    /// The list is wanted now: something has changed.
    pub(super) fn ask(&self) {
        self.wanted.ask();
    }

    /// Whether somebody looks; while nobody does, nothing is asked for.
    pub(super) fn look(&mut self, looks: bool) {
        {
            let mut wish = self.wanted.wish();
            (wish.looks, wish.asked) = (looks, wish.asked + 1);
        }
        self.wanted.changed.notify_all();
        self.scanned = None;
    }

    /// Begins to watch instances that are new. Gives back the names of all that live, when it looked.
    pub(super) fn scan(&mut self, context: &Context) -> Option<Vec<String>> {
        if self.scanned.is_some_and(|at| at.elapsed() < SCAN_EVERY) {
            return None;
        }
        self.scanned = Some(Instant::now());
        let living = crate::instances::find(&context.paths, context.instance.as_deref()).ok()?;
        let living: Vec<FoundInstance> = living.into_iter().filter(|found| found.alive).collect();
        for found in &living {
            let socket = context.native_socket(found);
            self.watch("list", found, &socket, lists);
            self.watch("feed", found, &socket, changes);
            self.watch("notices", found, &socket, notices);
        }
        Some(living.into_iter().map(|found| found.name).collect())
    }

    /// Everything that was told since the last time.
    pub(super) fn take(&self) -> Vec<News> {
        self.news.try_iter().take(NEWS_MAX).collect()
    }

    fn watch(&self, what: &str, found: &FoundInstance, socket: &Path, listen: Listen) {
        let key = format!("{what} {}", found.name);
        let names = || self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !names().insert(key.clone()) {
            return;
        }
        let watched = Arc::clone(&self.watched);
        let (tell, wanted) = (self.tell.clone(), Arc::clone(&self.wanted));
        let (instance, socket) = (found.name.clone(), socket.to_owned());
        let source = Source { instance, socket, found: found.clone(), tell, wanted };
        let (name, own) = (key.clone(), key.clone());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let listened =
                source.connect().and_then(|client| listen(&source, client).map_err(|error| source.away(&error)));
            if let Err(news) = listened {
                // Nobody listens any more: the screen was left.
                let _ = source.tell.send(news);
            }
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&own);
        });
        if thread.is_err() {
            names().remove(&key);
        }
    }
}

/// An instance, and whom to tell.
struct Source {
    instance: String,
    socket: PathBuf,
    found: FoundInstance,
    tell: SyncSender<News>,
    wanted: Arc<Wanted>,
}

type Listen = fn(&Source, Client) -> Result<(), ClientError>;

impl Source {
    /// A connection to the instance's own daemon: what others would say is not shown where things are decided.
    fn connect(&self) -> Result<Client, News> {
        let reach = || {
            let mut client = Client::connect(&self.socket)?;
            client.hello("ostler now")?;
            client.answer_within(Some(ANSWER_WITHIN))?;
            Ok(client)
        };
        let client = reach().map_err(|error| self.away(&error))?;
        let impostor = |error: CommandError| News::Impostor { instance: self.instance.clone(), why: error.message };
        is_real(&client, &self.found).map_err(impostor)?;
        Ok(client)
    }

    fn away(&self, error: &ClientError) -> News {
        News::Away { instance: self.instance.clone(), why: format!("`{}` does not answer: {error}", self.instance) }
    }
}

/// What waits for a person, and that the list is wanted, whenever the feed tells of a change. What agents say is looked at while
/// they work.
fn changes(source: &Source, mut client: Client) -> Result<(), ClientError> {
    let kinds = FeedKind::ALL.iter().copied().filter(|kind| *kind != FeedKind::SessionSaid).collect();
    let followed = follow_feed::follow(&mut client, kinds);
    // Also what changed before.
    let mut asks = true;
    loop {
        match asks {
            true if !tell_requests(source, &mut client)? => return Ok(()),
            true => {}
            false => std::thread::sleep(LIST_PAUSE),
        }
        source.wanted.ask();
        if let Err(ClientError::Rpc(_)) = followed {
            // A feed that cannot be read hides no request: the next scan begins again.
            return Ok(());
        }
        let kinds = follow_feed::changes(&mut client)?;
        asks = kinds.is_empty() || kinds.iter().any(|kind| FeedKind::AUDIT.contains(kind));
    }
}

/// What waits for a person; `false` when nobody listens any more.
fn tell_requests(source: &Source, client: &mut Client) -> Result<bool, ClientError> {
    let found = client.call::<methods::ApprovalList>(&ApprovalListParams { all: false })?;
    let (suspended, locked) = (found.rules_suspended, found.locked);
    let news = News::Pending { instance: source.instance.clone(), list: found.approvals, suspended, locked };
    Ok(source.tell.send(news).is_ok())
}

/// Notices, for the bell.
fn notices(source: &Source, mut client: Client) -> Result<(), ClientError> {
    match bells::follow(&mut client, |text| source.tell.send(News::Notice(text)).is_ok()) {
        // Whoever cannot ring, as an older daemon, answers all the same.
        Err(ClientError::Rpc(_)) => Ok(()),
        followed => followed,
    }
}

/// What is hosted, while somebody looks.
fn lists(source: &Source, mut client: Client) -> Result<(), ClientError> {
    // One more than is known: the first list is wanted at once.
    let (mut known, mut works) = (source.wanted.wish().asked.wrapping_sub(1), false);
    loop {
        let focus = source.wanted.next(&mut known, works).filter(|which| which.instance == source.instance);
        let params = HostedListParams { all: true, over_max: Some(OVER_MAX), lines: 1, branches: false, id: None };
        let list = hosted(&mut client, &params)?;
        // Of these nobody is told when they say or claim something else.
        works = list.iter().any(|one| match one.kind {
            HostedKind::Session => matches!(one.state, HostedState::Working | HostedState::NeedsYou),
            HostedKind::Terminal | HostedKind::Command => one.ended.is_none(),
        });
        let lines = match focus {
            Some(which) => {
                let params = HostedListParams { lines: LINES, id: Some(which.id.clone()), ..params };
                let one = hosted(&mut client, &params)?.into_iter().find(|hosted| hosted.id == which.id);
                one.map(|hosted| (which, hosted.lines))
            }
            None => None,
        };
        if source.tell.send(News::Hosted { instance: source.instance.clone(), list, lines }).is_err() {
            return Ok(());
        }
    }
}
