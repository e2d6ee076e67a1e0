//! `session.send`: a prompt, or the answer to a question, and everything the session says until it rests.
//!
//! A stream reads the journal like any other reader; what it has delivered is noted with the engine. A client that goes away
//! stops nothing and loses nothing. A stream says that it is whole only where the session rests: one that has to end before
//! that is broken off, and the rest waits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ostler_door_web::{Gone, Peer, ResponseBody};
use ostler_engine::MayWait;
use ostler_engine::approval::{Approval, AskKind};
use ostler_engine::session::{Prompt, PromptError, Session, Status};
use ostler_story::{Decision, ToolContent};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event::{DONE, Event, frame};
use crate::methods::known;
use crate::reader::Reader;
use crate::subscribers::Subscriber;
use crate::{DOOR, DoorState, answer};

/// Clients give up on a stream that is silent for five minutes, and tunnels long before.
const PING_EVERY: Duration = Duration::from_secs(30);
/// What is read before it is written.
const BATCH: usize = 64 * 1024;

/// Why a stream of a session ends.
enum End {
    /// The session rests: that was all.
    Whole,
    /// The turn goes on, but not here: the daemon leaves, or another stream has taken over.
    BrokenOff,
    /// Of the disk's making.
    Failed(String),
}

/// What a message turned out to be.
enum Sent {
    /// It runs, or answers what runs: the stream begins after this record.
    From(u64),
    /// It waits for its turn.
    Queued(usize),
    /// Nothing came of it.
    Refused(String),
}

/// What was read of the journal.
struct Batch {
    reader: Reader,
    frames: String,
    /// The last record in it.
    upto: u64,
    /// Whether there was no more, and whether no more is to be expected.
    rests: Option<bool>,
}

/// Serves one message to its end, or its client's.
pub(crate) async fn serve(shared: Arc<DoorState>, from: Peer, id: String, message: String, response: ResponseBody) {
    let mut stream = Stream { shared, from, response, pinged: Instant::now(), hung_up: false };
    // A client that is gone is noticed again at the next turn of whatever is done.
    if let Ok(End::BrokenOff) = stream.message(&id, message).await {
        stream.response.break_off().await;
    }
}

struct Stream {
    shared: Arc<DoorState>,
    /// Who sent the message.
    from: Peer,
    response: ResponseBody,
    pinged: Instant,
    /// The client sends no more.
    hung_up: bool,
}

impl Stream {
    async fn message(&mut self, id: &str, message: String) -> Result<End, Gone> {
        let session = match known(&self.shared, id) {
            Ok(session) => session,
            Err(error) => return self.only(Event::error(error.message)).await,
        };
        if message.trim().is_empty() {
            return self.only(Event::error(PromptError::Empty.to_string())).await;
        }
        self.ping().await?;
        let sent = {
            let (shared, from, session) = (Arc::clone(&self.shared), self.from, session.clone());
            MayWait::run(move |wait| Ok::<_, io::Error>(send(wait, &shared, from, &session, message))).await
        };
        match sent {
            Ok(Sent::From(record)) => self.follow(session, record).await,
            Ok(Sent::Queued(position)) => self.only(Event::Queued { position }).await,
            Ok(Sent::Refused(why)) => self.only(Event::error(why)).await,
            Err(error) => self.only(Event::error(error.to_string())).await,
        }
    }

    async fn only(&mut self, event: Event) -> Result<End, Gone> {
        self.tell(event).await?;
        self.response.deliver(DONE.to_owned()).await.map(|()| End::Whole)
    }

    async fn tell(&mut self, event: Event) -> Result<(), Gone> {
        let mut frames = String::new();
        event.fitted().iter().for_each(|json| frame(json, &mut frames));
        self.response.deliver(frames).await
    }

    async fn ping(&mut self) -> Result<(), Gone> {
        self.pinged = Instant::now();
        self.tell(Event::Ping).await
    }

    /// Everything after this record, until the session rests.
    async fn follow(&mut self, session: Session, after: u64) -> Result<End, Gone> {
        let subscriber = self.shared.subscribers.take(session.id()).await;
        let begun = {
            let (shared, session) = (Arc::clone(&self.shared), session.clone());
            MayWait::run(move |wait| {
                shared.place(wait, &session, |place| place.begin(wait, after))?;
                Reader::fresh(wait, &session, after)
            })
            .await
        };
        let end = match begun {
            Ok(reader) => self.read(&session, reader, &subscriber).await?,
            Err(error) => End::Failed(error.to_string()),
        };
        match &end {
            End::BrokenOff => return Ok(end),
            End::Failed(error) => self.tell(Event::error(error)).await?,
            End::Whole => {}
        }
        self.response.deliver(DONE.to_owned()).await?;
        // The client has all of it, and counts as attached until that is noted.
        if subscriber.is_mine() {
            let (shared, ended) = (Arc::clone(&self.shared), session.clone());
            if let Err(error) = MayWait::run(move |wait| shared.place(wait, &ended, |place| place.here())).await {
                tracing::error!("codecast: {}: {error}", session.id());
            }
        }
        Ok(end)
    }

    /// Reads and delivers, until the session rests or this stream has to end before.
    async fn read(&mut self, session: &Session, mut reader: Reader, subscriber: &Subscriber) -> Result<End, Gone> {
        let news = Arc::new(Notify::new());
        let subscription = {
            let (session, news) = (session.clone(), Arc::clone(&news));
            MayWait::run(move |wait| session.subscribe(wait, Arc::new(move || news.notify_one()))).await
        };
        let subscription = match subscription {
            Ok(subscription) => subscription,
            Err(error) => return Ok(End::Failed(error.to_string())),
        };
        let mut changes = self.shared.engine.sessions().revision();
        let mut stop = self.shared.stop.clone();
        let (mut reached, mut noted) = (0, 0);
        loop {
            // Looked at before reading: what was said before the door was closed is told.
            let stopped = *stop.borrow_and_update();
            subscription.arm();
            changes.mark_unchanged();
            let batch = {
                let (shared, session) = (Arc::clone(&self.shared), session.clone());
                MayWait::run(move |wait| gather(wait, &shared, &session, reader)).await
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Ok(End::Failed(error.to_string())),
            };
            reader = batch.reader;
            if !subscriber.is_mine() {
                return Ok(End::BrokenOff);
            }
            let delivered = match batch.frames.is_empty() {
                true => Ok(()),
                false => self.response.deliver(batch.frames).await,
            };
            if delivered.is_ok() {
                reached = batch.upto.max(reached);
            }
            if reached > noted && (batch.rests.is_some() || delivered.is_err()) {
                noted = reached;
                self.note(session, subscriber, reached).await;
            }
            delivered?;
            match batch.rests {
                Some(true) => return Ok(End::Whole),
                Some(false) if stopped => return Ok(End::BrokenOff),
                Some(false) => {
                    tokio::select! {
                        () = news.notified() => {}
                        _ = changes.changed() => {}
                        _ = stop.changed() => {}
                        () = tokio::time::sleep_until(self.pinged + PING_EVERY) => {}
                        () = self.response.gone() => return Err(Gone),
                        () = self.response.hung_up(), if !self.hung_up => {
                            // Whether it still reads shows when something is written to it.
                            self.hung_up = true;
                            self.ping().await?;
                        }
                    }
                }
                None => {}
            }
            if self.pinged.elapsed() >= PING_EVERY {
                self.ping().await?;
            }
        }
    }

    async fn note(&self, session: &Session, subscriber: &Subscriber, record: u64) {
        if !subscriber.is_mine() {
            return;
        }
        let (shared, of) = (Arc::clone(&self.shared), session.clone());
        if let Err(error) = MayWait::run(move |wait| shared.place(wait, &of, |place| place.reached(record))).await {
            tracing::error!("codecast: {}: {error}", session.id());
        }
    }
}

/// What is there to read, up to a batch; that it is being given is noted.
fn gather(wait: &MayWait, shared: &DoorState, session: &Session, mut reader: Reader) -> io::Result<Batch> {
    let (mut frames, mut upto, mut rest) = (String::new(), 0, None);
    while frames.len() < BATCH {
        let Some((record, events)) = reader.next(wait)? else {
            rest = Some(rests(shared, session, reader.position()));
            break;
        };
        upto = record;
        for event in events {
            event.fitted().iter().for_each(|json| frame(json, &mut frames));
        }
    }
    if !frames.is_empty()
        && let Err(error) = shared.place(wait, session, |place| place.giving(upto))
    {
        tracing::error!("codecast: {}: {error}", session.id());
    }
    Ok(Batch { reader, frames, upto, rests: rest })
}

/// Whether nothing more is to be expected before the client says something.
fn rests(shared: &DoorState, session: &Session, position: u64) -> bool {
    let view = session.view();
    if view.last > position {
        return false;
    }
    match view.status {
        Status::Running => false,
        // The answer comes as the next message, which clients do not send before this stream has ended.
        Status::Waiting => question(shared, session).is_some(),
        Status::Closed => view.process.is_none(),
        Status::Idle | Status::Interrupted | Status::Failed => view.queued == 0,
    }
}

/// The question that the session waits for, if it waits for nothing else.
fn question(shared: &DoorState, session: &Session) -> Option<Approval> {
    let inbox = shared.engine.inbox();
    let open = session.approvals();
    let waiting: Vec<Approval> =
        open.iter().filter_map(|id| inbox.peek(id)).filter(|found| found.state.is_pending()).collect();
    let asks = waiting.iter().all(|found| found.ask.kind == AskKind::Question);
    waiting.into_iter().next().filter(|_| asks && !open.is_empty())
}

/// Hands the message over. May wait for the disk.
fn send(wait: &MayWait, shared: &DoorState, from: Peer, session: &Session, message: String) -> Sent {
    if let Some(asked) = question(shared, session)
        && let Some(sent) = reply(wait, shared, from, session, &asked, &message)
    {
        return sent;
    }
    match session.prompt(wait, Prompt::text(message, DOOR)) {
        // The stream begins with what follows from the prompt: everything after the record before it.
        Ok(accepted) if accepted.position == 0 => Sent::From(accepted.record - 1),
        Ok(accepted) => Sent::Queued(accepted.position),
        Err(PromptError::Closed) => Sent::Refused(format!("Session not found: {}", session.uuid())),
        Err(error) => Sent::Refused(error.to_string()),
    }
}

/// Answers a question with the message, if whoever sent it may: nobody that ostler hosts. Nothing if it was answered elsewhere
/// meanwhile.
fn reply(
    wait: &MayWait,
    shared: &DoorState,
    from: Peer,
    session: &Session,
    asked: &Approval,
    message: &str,
) -> Option<Sent> {
    let content: ToolContent = serde_json::from_str(&asked.ask.content).ok()?;
    let answers = answer::answers(&content.questions, message);
    let before = session.view().last;
    let by = match shared.engine.client(wait, &from.caller(&shared.engine), &asked.id, DOOR) {
        Ok(by) => by,
        Err(why) => return Some(Sent::Refused(why)),
    };
    match shared.engine.inbox().decide_here(wait, &asked.id, &asked.hash, Decision::Answers { answers }, by) {
        Ok(()) => Some(Sent::From(before)),
        Err(error) => {
            tracing::info!("codecast: {}: {error}", asked.id);
            None
        }
    }
}
