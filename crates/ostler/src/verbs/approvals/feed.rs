//! What waits in every instance, live: one thread per instance asks for changes and tells the inbox.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ostler_api::client::{Client, ClientError};
use ostler_api::{ApprovalInfo, ApprovalListParams, ChangesParams, methods};

use crate::instances::Found;
use crate::verbs::Context;

/// How often new instances are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(2);
/// Well below the daemon's own limit of a minute; a lost daemon closes the connection at once.
const WAIT_MS: u64 = 25_000;
/// A list can be long and a machine busy, but not for longer than this.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Lists that wait to be drawn; each replaces the one before, so a thread that has to wait loses nothing.
const NEWS_MAX: usize = 16;

/// What a thread has to tell.
pub(super) enum News {
    Pending { instance: String, list: Vec<ApprovalInfo> },
    Away { instance: String, why: String },
}

pub(super) struct Feed {
    news: Receiver<News>,
    tell: SyncSender<News>,
    watched: Arc<Mutex<HashSet<String>>>,
    scanned: Option<Instant>,
}

impl Feed {
    pub(super) fn new() -> Self {
        let (tell, news) = sync_channel(NEWS_MAX);
        Self { news, tell, watched: Arc::default(), scanned: None }
    }

    /// Begins to watch instances that are new. Gives back the names of all that live, when it looked.
    pub(super) fn scan(&mut self, context: &Context) -> Option<Vec<String>> {
        if self.scanned.is_some_and(|at| at.elapsed() < SCAN_EVERY) {
            return None;
        }
        self.scanned = Some(Instant::now());
        let living = crate::instances::find(&context.paths, context.instance.as_deref()).ok()?;
        let living: Vec<Found> = living.into_iter().filter(|found| found.alive).collect();
        for found in &living {
            let socket = found.record.as_ref().and_then(|record| record.native.clone());
            self.watch(&found.name, socket.unwrap_or_else(|| context.paths.native_socket(&found.name)));
        }
        Some(living.into_iter().map(|found| found.name).collect())
    }

    /// Everything that was told since the last time.
    pub(super) fn take(&self) -> Vec<News> {
        self.news.try_iter().take(NEWS_MAX).collect()
    }

    fn watch(&self, instance: &str, socket: PathBuf) {
        let names = || self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !names().insert(instance.to_owned()) {
            return;
        }
        let (instance, tell, watched) = (instance.to_owned(), self.tell.clone(), Arc::clone(&self.watched));
        let name = instance.clone();
        let thread = std::thread::Builder::new().name(format!("inbox {instance}")).spawn(move || {
            let why = match listen(&instance, &socket, &tell) {
                Ok(()) => return,
                Err(error) => format!("instance {instance} does not answer: {error}"),
            };
            // Nobody listens any more: the inbox was left.
            let _ = tell.send(News::Away { instance: instance.clone(), why });
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&instance);
        });
        if thread.is_err() {
            names().remove(&name);
        }
    }
}

fn listen(instance: &str, socket: &std::path::Path, tell: &SyncSender<News>) -> Result<(), ClientError> {
    let mut client = Client::connect(socket)?;
    client.hello("ostler approvals")?;
    client.answer_within(Some(ANSWER_WITHIN))?;
    loop {
        let found = client.call::<methods::ApprovalList>(&ApprovalListParams { all: false })?;
        let news = News::Pending { instance: instance.to_owned(), list: found.approvals };
        if tell.send(news).is_err() {
            return Ok(());
        }
        client.call::<methods::ApprovalChanges>(&ChangesParams { after: found.revision, wait_ms: WAIT_MS })?;
    }
}
