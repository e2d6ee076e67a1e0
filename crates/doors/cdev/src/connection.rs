//! One WebSocket: requests in, answers and events out. What methods may know and change of it is its [`Connection`]; the rest
//! never leaves the connection's own task.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ostler_api::Timestamp;
use ostler_door_rpc::{Flow, Head, InputLimits, Later, Limits, Outbox, Session, Watch};
use ostler_engine::MayWait;
use ostler_engine::access::device::Guest;

use crate::clients::Present;
use crate::envelope::{self, Message, Request, answer};
use crate::error::Error;
use crate::event_filter::EventFilter;
use crate::events::{Follower, Gate, Transcripts};
use crate::heartbeat::Heartbeat;
use crate::method::{Call, Job, Outcome};
use crate::rate::{Window, too_much};
use crate::status::{SessionEnd, SessionStart};
use crate::{DoorState, answer_events, notify, table, watches};

/// The longest message that is taken: a file of the largest kind that may be uploaded in one piece, in base64.
pub(crate) const MESSAGE_MAX: usize = 12 << 20;
/// Far more than a client has open at once.
const IN_FLIGHT: usize = 128;
/// The longest message and some more.
const IN_FLIGHT_BYTES: usize = 2 * MESSAGE_MAX;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Everything that happens, as ready lines.
    Events,
}

/// Requests of the handshake: events are held until it is over.
const HANDSHAKE: [&str; 3] = ["initialize", "initialized", "events/resume"];

pub(crate) type Out = Outbox<Tag>;

/// What methods may know and change of a connection.
pub(crate) struct Connection {
    /// What the client is told that it is called.
    pub(crate) id: String,
    /// Which events it wants.
    wanted: Mutex<EventFilter>,
    /// It has said goodbye.
    leaving: AtomicBool,
    /// The newest heartbeat that it was told.
    beat: AtomicU64,
    /// When and where its events begin.
    pub(crate) events: Gate,
    /// What it watches of other programs.
    pub(crate) transcripts: Transcripts,
}

impl Connection {
    fn new(id: String, beat: u64) -> Self {
        Self {
            id,
            wanted: Mutex::default(),
            leaving: AtomicBool::new(false),
            beat: AtomicU64::new(beat),
            events: Gate::default(),
            transcripts: Transcripts::default(),
        }
    }

    /// Which events it wants.
    pub(crate) fn wanted(&self) -> MutexGuard<'_, EventFilter> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection once what it was answered is on its way.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }
}

/// The bounds of one connection.
pub(crate) fn limits() -> Limits {
    Limits { line: MESSAGE_MAX, in_flight: IN_FLIGHT, in_flight_bytes: IN_FLIGHT_BYTES, input: InputLimits::default() }
}

/// One connection's session.
pub(crate) struct Client {
    call: Call,
    connection: Arc<Connection>,
    /// Requests, and prompts among them.
    rate: Option<(Window, Window)>,
    /// From the beginning to the end.
    present: Option<Present>,
    /// It was told that the server ends.
    ended: bool,
}

impl Client {
    pub(crate) fn new(state: Arc<DoorState>, guest: Arc<Guest>, id: String) -> Self {
        let rate = state.settings.rate.map(|rate| (Window::new(rate.commands), Window::new(rate.runs)));
        let connection = Arc::new(Connection::new(id, state.heartbeat.sequence()));
        let call = Call { state, guest, connection: Some(Arc::clone(&connection)) };
        Self { call, connection, rate, present: None, ended: false }
    }

    fn state(&self) -> &Arc<DoorState> {
        &self.call.state
    }

    /// What a request asks for, once it was looked at whether it may.
    fn prepare(&mut self, request: &Request<'_>) -> Result<Job, Error> {
        let now = Instant::now();
        if let Some((all, runs)) = &mut self.rate {
            all.take(now).map_err(too_much)?;
            if table::is_run(&request.method) {
                runs.take(now).map_err(too_much)?;
            }
        }
        self.state().count_device(&self.call.guest, now)?;
        table::prepare(&self.call, request)
    }

    fn one(&mut self, request: &Request<'_>, out: &mut Out) {
        let (head, method) = (request.head.clone(), request.method.clone().into_owned());
        let connection = Arc::clone(&self.connection);
        let say = move |outcome: &Outcome, said: &mut Vec<u8>| {
            reply(&head, outcome, said);
            answer_events::push(&connection, &method, head.id(), outcome, said);
        };
        match self.prepare(request) {
            Err(error) => say(&Err(error), &mut out.ready),
            Ok(Job::Now(run)) => say(&run(&self.call), &mut out.ready),
            Ok(Job::Waits(run)) => {
                let call = self.call.clone();
                out.spawn_blocking(move |wait| {
                    let mut said = Vec::new();
                    say(&run(wait, &call), &mut said);
                    Later::reply(said)
                });
            }
        }
    }

    /// One after the other, and one message with all answers.
    fn batch(&mut self, requests: Vec<Result<Request<'_>, envelope::Refusal>>, out: &mut Out) {
        let steps: Vec<Step> = requests
            .into_iter()
            .map(|request| match request {
                Err(refusal) => Step::Said(Some(refusal.answer())),
                Ok(request) => match self.prepare(&request) {
                    Err(error) => Step::Said(answer(&request.head, &Err(error))),
                    Ok(job) => Step::Job(request.head, job),
                },
            })
            .collect();
        let call = self.call.clone();
        out.spawn_blocking(move |wait| Later::reply(together(steps, wait, &call)));
    }
}

/// One of a batch.
enum Step {
    Said(Option<Vec<u8>>),
    Job(Head, Job),
}

fn together(steps: Vec<Step>, wait: &MayWait, call: &Call) -> Vec<u8> {
    let said = steps.into_iter().filter_map(|step| match step {
        Step::Said(said) => said,
        Step::Job(head, job) => answer(&head, &job.run(wait, call)),
    });
    let said: Vec<Vec<u8>> = said.collect();
    match said.is_empty() {
        // Nobody asked anything.
        true => Vec::new(),
        false => [b"[", said.join(&b","[..]).as_slice(), b"]\n"].concat(),
    }
}

fn reply(head: &Head, outcome: &Outcome, out: &mut Vec<u8>) {
    if let Some(said) = answer(head, outcome) {
        out.extend(said);
        out.push(b'\n');
    }
}

impl Session for Client {
    type Tag = Tag;

    fn opened(&mut self, out: &mut Out) {
        out.set_share(self.state().shares.of(&self.call.guest.id));
        self.present = Some(self.state().clients.enter(out.nudge()));
        let start = SessionStart::of(self.state());
        notify::push(&mut out.ready, SessionStart::EVENT, Timestamp::now(), &start);
        watches::begin(self.state());
        let follower = Follower::new(Arc::clone(self.state()), Arc::clone(&self.connection));
        out.watch(Watch::lines("events".into(), Tag::Events, follower));
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Flow {
        match envelope::read(line) {
            Err(refusal) => {
                out.ready.extend(refusal.answer());
                out.ready.push(b'\n');
            }
            Ok(Message::One(request)) => {
                if !HANDSHAKE.contains(&&*request.method) {
                    self.connection.events.release();
                }
                self.one(&request, out);
            }
            Ok(Message::Batch(requests)) => {
                self.connection.events.release();
                self.batch(requests, out);
            }
        }
        self.flow()
    }

    fn nudged(&mut self, out: &mut Out) -> Flow {
        let state = Arc::clone(self.state());
        let beat = state.heartbeat.sequence();
        if self.connection.beat.swap(beat, Ordering::Relaxed) != beat
            && self.connection.wanted().event(Heartbeat::EVENT)
        {
            notify::push(&mut out.ready, Heartbeat::EVENT, Timestamp::now(), &Heartbeat::of(&state, beat));
        }
        if state.is_ending() && !std::mem::replace(&mut self.ended, true) {
            notify::push(&mut out.ready, SessionEnd::EVENT, Timestamp::now(), &SessionEnd::of(&state));
            // Nobody waits any more for who was told.
            self.present = None;
        }
        self.flow()
    }
}

impl Client {
    fn flow(&self) -> Flow {
        if self.connection.leaving.load(Ordering::Relaxed) { Flow::Farewell } else { Flow::Continue }
    }
}
