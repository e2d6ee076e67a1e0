//! What waits for a client that was not there, and handing it over.

use std::io;
use std::sync::{Arc, PoisonError};

use ostler_door_rpc::RpcError;
use ostler_door_web::ResponseBody;
use ostler_engine::MayWait;
use ostler_engine::session::Session;

use super::failed;
use crate::envelope::Params;
use crate::read_position::{ReadPosition, Stretch};
use crate::reader::Reader;
use crate::subscribers::Subscriber;
use crate::{Counted, DoorState};

/// What one answer carries at most; the rest waits for the next one.
const ANSWER_MAX: usize = 16 << 20;

/// Events that are owed to a client.
pub(crate) struct Owed {
    events: String,
    /// The last record that is in it.
    upto: u64,
    /// More is owed than one answer carries.
    more: bool,
    /// So many of the events, from the first on, may have been delivered before, in part.
    may_repeat: usize,
    /// Nobody else is given them at the same time.
    turn: Option<Subscriber>,
}

impl Owed {
    /// Nothing is said about repeating where nothing can, nor about more where there is none.
    pub(crate) fn result(&self) -> String {
        let may_repeat = match self.may_repeat {
            0 => String::new(),
            first => format!(r#","mayRepeat":{first}"#),
        };
        let more = if self.more { r#","more":true"# } else { "" };
        format!(r#"{{"bufferedEvents":[{}]{may_repeat}{more}}}"#, self.events)
    }
}

/// The queue of a session as its clients see it.
pub(super) struct Stats {
    pub(super) user_pending: usize,
    pub(super) response_pending: usize,
    pub(super) connected: bool,
}

impl Stats {
    /// May wait for the disk.
    pub(super) fn of(wait: &MayWait, shared: &DoorState, session: &Session) -> io::Result<Self> {
        let view = session.view();
        let attached = shared.subscribers.is_taken(session.id());
        let (stretches, here) = shared.place(wait, session, |place| {
            Ok((if attached { place.behind() } else { place.owed(view.last) }, place.is_here()))
        })?;
        let response_pending = count(wait, shared, session, stretches)?;
        Ok(Self { user_pending: view.queued, response_pending, connected: attached || here })
    }

    pub(super) fn json(&self) -> String {
        let Self { user_pending, response_pending, connected } = self;
        format!(
            r#"{{"userPending":{user_pending},"responsePending":{response_pending},"clientConnected":{connected}}}"#
        )
    }
}

pub(super) async fn queue_stats(shared: &Arc<DoorState>, params: &Params) -> Result<String, RpcError> {
    let [id] = params.need(["sessionId"])?;
    let session = shared.session(id)?.ok_or_else(|| failed("Session not found"))?;
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| Stats::of(wait, &shared, &session).map(|stats| stats.json()).map_err(failed)).await
}

/// What is owed to the clients of a session; nothing if there is no such session.
pub(super) async fn reconnect(shared: &Arc<DoorState>, params: &Params) -> Result<Option<(Session, Owed)>, RpcError> {
    let [id] = params.need(["sessionId"])?;
    let Some(session) = shared.session(id)? else { return Ok(None) };
    let turn = shared.handing.take(session.id()).await;
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        let last = session.view().last;
        let attached = shared.subscribers.is_taken(session.id());
        let look = |place: &mut ReadPosition| Ok(if attached { place.behind() } else { place.owed(last) });
        let stretches = shared.place(wait, &session, look).map_err(failed)?;
        let mut owed = gather(wait, &session, &stretches).map_err(failed)?;
        if !owed.events.is_empty() {
            shared.place(wait, &session, |place| place.handing(owed.upto)).map_err(failed)?;
        }
        owed.turn = Some(turn);
        Ok(Some((session, owed)))
    })
    .await
}

fn gather(wait: &MayWait, session: &Session, stretches: &[Stretch]) -> io::Result<Owed> {
    let mut owed = Owed { events: String::new(), upto: 0, more: false, may_repeat: 0, turn: None };
    let mut count = 0;
    for stretch in stretches {
        walk(wait, session, *stretch, |record, events| {
            if !events.is_empty() && owed.events.len() >= ANSWER_MAX {
                owed.more = true;
                return false;
            }
            count += events.len();
            if stretch.may_repeat {
                owed.may_repeat = count;
            }
            for json in events {
                if !owed.events.is_empty() {
                    owed.events.push(',');
                }
                owed.events.push_str(&json);
            }
            owed.upto = record;
            true
        })?;
        if owed.more {
            break;
        }
        owed.upto = stretch.to;
    }
    Ok(owed)
}

/// Every record of a stretch with its events as JSON, for as long as `each` wants more.
fn walk(
    wait: &MayWait,
    session: &Session,
    stretch: Stretch,
    mut each: impl FnMut(u64, Vec<String>) -> bool,
) -> io::Result<()> {
    let mut reader = Reader::after(wait, session, stretch.after)?;
    while let Some((record, events)) = reader.next(wait)? {
        if record > stretch.to || !each(record, events.into_iter().flat_map(crate::event::Event::fitted).collect()) {
            break;
        }
    }
    Ok(())
}

/// How many events there are; counted once, as long as nothing changes.
fn count(wait: &MayWait, shared: &DoorState, session: &Session, stretches: Vec<Stretch>) -> io::Result<usize> {
    if stretches.is_empty() {
        return Ok(0);
    }
    let counts = || shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = counts().get(session.id()).filter(|known| known.stretches == stretches) {
        return Ok(known.events);
    }
    let mut events = 0;
    for stretch in &stretches {
        walk(wait, session, *stretch, |_, found| {
            events += found.len();
            true
        })?;
    }
    let mut counts = counts();
    if counts.len() > shared.engine.sessions().list().len() {
        counts.clear();
    }
    counts.insert(session.id().to_owned(), Counted { stretches, events });
    Ok(events)
}

/// Sends an answer with events that were owed. They are paid once the client's socket has them, and the answer ends only
/// then: a client that has read it whole finds nothing owed any more.
pub(crate) async fn hand_over(
    shared: Arc<DoorState>,
    session: Session,
    owed: Owed,
    answer: Vec<u8>,
    response: ResponseBody,
) {
    if response.deliver(answer).await.is_err() {
        return;
    }
    let (id, turn) = (session.id().to_owned(), owed.turn);
    let paid = MayWait::run(move |wait| shared.place(wait, &session, |place| place.paid(owed.upto))).await;
    if let Err(error) = paid {
        tracing::error!("codecast: {id}: {error}");
    }
    drop(turn);
}
