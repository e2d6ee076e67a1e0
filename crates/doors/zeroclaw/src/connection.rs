//! One connection: who is at the other end, what it was shown, and its requests in the order in which they came.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_door_rpc::{Flow, Head, Later, Outbox, RpcError, Session};
use ostler_engine::approval::Approval;
use ostler_engine::{EventHead, MayWait};
use ostler_story::{Ask, Asked, Decision};
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::elicit::{Elicit, Next};
use crate::error;
use crate::frame::{self, Frame, reply};
use crate::returning::Returning;
use crate::turn::{Turn, Want};
use crate::update::{Summary, Updates};
use crate::who::Who;
use crate::{DoorState, FRAME_MAX, methods};

/// Turns that one connection follows at once: every session that a person could look at, each with some that wait.
const TURNS: usize = 256;
/// Requests of agents that one connection was shown and nobody has answered.
const SHOWN_MAX: usize = 1024;

/// What a watch is on: a turn.
pub(crate) type Tag = Mutex<Turn>;
pub(crate) type Out = Outbox<Tag>;

/// A request of an agent as this client was shown it: what its answer is bound to.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The session, as the client calls it.
    pub(crate) session: String,
    pub(crate) hash: String,
    /// What was shown is all there is.
    pub(crate) whole: bool,
    /// What is asked, in the agent's words.
    pub(crate) title: String,
    /// The lines that showed it, for a client that shows one request at a time; none for a form.
    pub(crate) lines: Vec<u8>,
    /// Those that were shown before it have smaller ones.
    pub(crate) number: u64,
}

/// A turn that this connection is told.
#[derive(Debug, Clone, Copy)]
struct Followed {
    /// The prompt's number in its session.
    number: u64,
    /// The record at which it began, where the client came while it ran and is told all of it; or the one up to which it has
    /// read what was said.
    began: Option<u64>,
    /// Which of the connection's watches tells it. One that is no longer named here tells nothing more.
    watch: u64,
}

/// What a client has said about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Introduced {
    /// Variables for the agents that it talks to.
    pub(crate) env: Option<Vec<(OsString, OsString)>>,
    /// It can show a form.
    pub(crate) form: bool,
    /// It was here before, on a connection that broke.
    pub(crate) returns: bool,
}

/// What a connection's requests share.
pub(crate) struct Conn {
    pub(crate) who: Who,
    /// The connection's number, by which the door knows its client.
    pub(crate) number: u64,
    pub(crate) turns: Arc<Semaphore>,
    introduced: Mutex<Option<Introduced>>,
    shown: Mutex<HashMap<String, Shown>>,
    /// By the session's own id. As many as there are places for turns.
    followed: Mutex<HashMap<String, Vec<Followed>>>,
    watches: AtomicU64,
    returning: Mutex<Returning>,
    forms: Mutex<Forms>,
    /// Sessions that were opened or prompted here, by their own ids.
    opened: Mutex<HashSet<String>>,
    greeted: Arc<Notify>,
}

/// Questions that the client was asked, by the id of the request.
#[derive(Default)]
struct Forms {
    open: HashMap<String, Elicit>,
    /// How many requests of ours there have been.
    asked: u64,
}

impl Forms {
    fn ask(&mut self, elicit: Elicit, out: &mut Vec<u8>) {
        let id = format!("zc-out-{}", self.asked);
        self.asked += 1;
        out.extend(elicit.request(&id));
        self.open.insert(id, elicit);
    }
}

impl Conn {
    /// What the client has said about itself; nothing before it has.
    pub(crate) fn introduced(&self) -> Option<Introduced> {
        self.introduced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn introduce(&self, introduced: Introduced) {
        *self.introduced.lock().unwrap_or_else(PoisonError::into_inner) = Some(introduced);
        self.greeted.notify_one();
    }

    pub(crate) fn shown(&self) -> MutexGuard<'_, HashMap<String, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forms(&self) -> MutexGuard<'_, Forms> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<String, Vec<Followed>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client works with this session.
    pub(crate) fn open(&self, session: &str) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(session.to_owned());
    }

    /// Whether a session is the client's to stop: everybody's on this machine, elsewhere only one that it works with.
    pub(crate) fn owns(&self, session: &str) -> bool {
        !self.who.is_remote() || self.opened.lock().unwrap_or_else(PoisonError::into_inner).contains(session)
    }

    /// From now on the client is told this turn, by the watch with this number; none if it is told already.
    pub(crate) fn follow(&self, session: &str, number: u64, began: Option<u64>) -> Option<u64> {
        let mut all = self.followed();
        let turns = all.entry(session.to_owned()).or_default();
        if turns.iter().any(|turn| turn.number == number) {
            return None;
        }
        let watch = self.watches.fetch_add(1, Ordering::Relaxed);
        turns.push(Followed { number, began, watch });
        Some(watch)
    }

    fn follows(&self, session: &str, watch: u64) -> bool {
        self.followed().get(session).is_some_and(|turns| turns.iter().any(|turn| turn.watch == watch))
    }

    /// The turns to which the client came while they ran are told no further.
    pub(crate) fn hush(&self, session: &str) {
        if let Some(turns) = self.followed().get_mut(session) {
            turns.retain(|turn| turn.began.is_none());
        }
    }

    /// What the client does with sessions whose turns it was told before its connection broke.
    pub(crate) fn returning(&self) -> MutexGuard<'_, Returning> {
        self.returning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unfollow(&self, session: &str, number: u64) {
        let mut all = self.followed();
        if let Some(turns) = all.get_mut(session) {
            turns.retain(|turn| turn.number != number);
            if turns.is_empty() {
                all.remove(session);
            }
        }
    }

    /// The record at which the turn began that the client is being told from its beginning.
    pub(crate) fn told_from(&self, session: &str) -> Option<u64> {
        self.followed().get(session)?.iter().find_map(|turn| turn.began)
    }

    /// Shows a request of an agent that waits in the inbox, if it still does; a question as a form, where the client has any.
    pub(crate) fn show(&self, shared: &DoorState, updates: &Updates, approval: &str, asked: &Asked, out: &mut Vec<u8>) {
        let Some(waiting) = waiting(shared, approval) else { return };
        let (session, hash, title) = (updates.session().to_owned(), waiting.hash, asked.title.clone());
        let shown = Shown { session, hash, whole: true, title, lines: Vec::new(), number: 0 };
        match asked.ask {
            Ask::Permission => {
                let mut lines = Vec::new();
                updates.approval(approval, asked, waiting.expires_in, &mut lines);
                out.extend_from_slice(&lines);
                self.note(shared, approval, Shown { whole: Summary::of(asked).whole, lines, ..shown });
            }
            Ask::Question => {
                let form = self.introduced().is_some_and(|introduced| introduced.form);
                let Some(elicit) = Elicit::new(approval, updates, &asked.questions).filter(|_| form) else {
                    return updates.waits(&asked.title, out);
                };
                self.note(shared, approval, shown);
                self.forms().ask(elicit, out);
            }
        }
    }

    /// What was answered elsewhere, or taken back while nobody here looked, makes room.
    fn note(&self, shared: &DoorState, approval: &str, mut shown: Shown) {
        let mut all = self.shown();
        if all.len() >= SHOWN_MAX {
            all.retain(|approval, _| waiting(shared, approval).is_some());
            self.forms().open.retain(|_, elicit| all.contains_key(&elicit.approval));
        }
        shown.number = all.values().map(|shown| shown.number).max().unwrap_or_default() + 1;
        all.insert(approval.to_owned(), shown);
    }

    /// A request that was shown here waits no longer, and it was not answered here. Clients know no word for that, and keep
    /// their box until a key is pressed: it shows what still waits, or what became of it.
    fn withdraw(&self, updates: &Updates, approval: &str, how: &str, out: &mut Vec<u8>) {
        self.forms().open.retain(|_, elicit| elicit.approval != approval);
        let mut all = self.shown();
        let Some(gone) = all.remove(approval) else { return };
        if gone.lines.is_empty() {
            return updates.thought(&format!("{}: {how}\n", gone.title), out);
        }
        let others = all.values().filter(|shown| shown.session == gone.session && !shown.lines.is_empty());
        match others.max_by_key(|shown| shown.number) {
            Some(newest) if newest.number > gone.number => {}
            Some(newest) => out.extend_from_slice(&newest.lines),
            None => updates.settled(approval, &gone.title, how, out),
        }
    }
}

/// A request that nobody has decided about.
fn waiting(shared: &DoorState, approval: &str) -> Option<Approval> {
    shared.engine.inbox().peek(approval).filter(|found| found.state.is_pending())
}

/// The session that the connection's loop talks to.
pub(crate) struct Client {
    shared: Arc<DoorState>,
    conn: Arc<Conn>,
    /// The request before has been dealt with.
    before: Option<oneshot::Receiver<()>>,
}

impl Client {
    pub(crate) fn new(shared: Arc<DoorState>, who: Who, number: u64) -> Self {
        let conn = Conn {
            who,
            number,
            turns: Arc::new(Semaphore::new(TURNS)),
            introduced: Mutex::default(),
            shown: Mutex::default(),
            followed: Mutex::default(),
            watches: AtomicU64::new(0),
            returning: Mutex::default(),
            forms: Mutex::default(),
            opened: Mutex::default(),
            greeted: Arc::default(),
        };
        Self { shared, conn: Arc::new(conn), before: None }
    }

    /// Told when the client has said who it is.
    pub(crate) fn greeted(&self) -> Arc<Notify> {
        Arc::clone(&self.conn.greeted)
    }

    /// Requests are dealt with one after the other, in the order in which they came; of a prompt only its acceptance counts.
    fn request(&mut self, head: Head, method: &str, params: Result<Map<String, Value>, RpcError>, out: &mut Out) {
        let Some(method) = methods::find(method) else {
            out.ready.extend(reply(&head, Err(RpcError::method(format!("Unknown method: {method}")))));
            return;
        };
        let params = match params {
            Ok(params) => params,
            Err(error) => return out.ready.extend(reply(&head, Err(error))),
        };
        if self.conn.introduced().is_none() && !self.conn.who.is_remote() {
            // At once: whoever sends more along with it is known by then. A token has to be looked up, and what follows it waits.
            let result = match method.is_first() {
                true => methods::initialize(&self.shared, &self.conn, params),
                false => Err(error::not_initialised()),
            };
            return out.ready.extend(reply(&head, result));
        }
        let (done, next) = oneshot::channel();
        let before = self.before.replace(next);
        let (shared, conn) = (Arc::clone(&self.shared), Arc::clone(&self.conn));
        out.spawn(async move {
            if let Some(before) = before {
                // It ends either way.
                let _ = before.await;
            }
            let later = methods::call(&shared, &conn, method, head, params).await;
            drop(done);
            later
        });
    }

    fn answered(&mut self, id: &str, result: Option<&Value>, out: &mut Out) {
        let mut forms = self.conn.forms();
        let Some(elicit) = forms.open.remove(id) else { return };
        let approval = elicit.approval.clone();
        match elicit.answered(result) {
            Next::Ask(elicit) => forms.ask(elicit, &mut out.ready),
            Next::Leave(elicit) => elicit.leave(&mut out.ready),
            Next::Decide(decision) => {
                drop(forms);
                self.decide(approval, decision);
            }
        }
    }

    /// Nobody waits for what comes of it: the turn goes on, or the question waits for somebody else.
    fn decide(&self, approval: String, decision: Decision) {
        let Some(shown) = self.conn.shown().remove(&approval) else { return };
        let (shared, conn) = (Arc::clone(&self.shared), Arc::clone(&self.conn));
        drop(MayWait::pool(move |wait| {
            if let Err(error) = methods::decide(wait, &shared, &conn, &approval, &shown.hash, decision) {
                tracing::warn!("zeroclaw door: the answer to {approval}: {error:?}");
            }
        }));
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Out) -> Flow {
        match frame::read(line) {
            Frame::Blank => {}
            Frame::Bad(reply) => out.ready.extend(reply),
            Frame::Response { id, result } => self.answered(&id, result.as_ref(), out),
            Frame::Request { head, method, params } => self.request(head, &method, params, out),
        }
        Flow::Continue
    }

    fn too_long(&mut self, out: &mut Vec<u8>) {
        out.extend(frame::too_long(FRAME_MAX));
    }

    fn record(&mut self, tag: &Tag, head: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        let mut turn = tag.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.conn.follows(turn.of().0, turn.watch()) {
            return false;
        }
        for want in turn.record(head, data, out) {
            match want {
                Want::Show { approval, asked } => self.conn.show(&self.shared, turn.updates(), &approval, &asked, out),
                Want::Forget { approval, how } => self.conn.withdraw(turn.updates(), &approval, &how, out),
            }
        }
        turn.finish(out);
        if turn.is_over() {
            let (session, number) = turn.of();
            self.conn.unfollow(session, number);
        }
        !turn.is_over()
    }

    fn lost(&mut self, tag: &Tag, error: &std::io::Error, out: &mut Vec<u8>) {
        let mut turn = tag.lock().unwrap_or_else(PoisonError::into_inner);
        turn.lost(&error.to_string(), out);
        let (session, number) = turn.of();
        self.conn.unfollow(session, number);
    }
}

/// A reply that comes with what is to be watched.
pub(crate) type LateReply = Later<Tag>;
