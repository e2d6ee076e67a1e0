//! `notice.*`: what somebody was told, and where devices want to be told. When, and whether at all, the engine says.

use std::time::Duration;

use ostler_api::{
    Empty, ErrorKind, NoticeAnswer, NoticeInfo, NoticeKey, NoticeKind, NoticeList, NoticeSubscribeParams, NoticeWay,
    NoticeWays, RpcError, Timestamp, methods,
};
use ostler_door_rpc::Later;
use ostler_engine::notice::{Answerable, Kind, Looking, Notice};
use ostler_engine::{Engine, MayWait, Origin, Target};

use crate::DoorState;
use crate::dispatch::{Call, Client, Out};
use crate::reach::check;
use crate::rights::refusal;
use crate::who::Who;

/// The longest a client waits for news in one request.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longer than any way may take.
const TEST_WITHIN: Duration = Duration::from_secs(30);
/// More than there is room for on a screen.
const IN_VIEW_MAX: usize = 256;
/// Longer than the addresses of push services.
const ENDPOINT_MAX: usize = 2048;

/// Answers when there is a newer one, or when the time is over.
pub(crate) fn list(client: &Client, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
    let params = call.params::<methods::NoticeList>()?;
    client.reaches(Target::Instance)?;
    let (head, notices, who) = (call.head.clone(), client.shared.engine.notices().clone(), client.who.clone());
    let engine = client.shared.engine.clone();
    let wait = Duration::from_millis(params.wait_ms).min(WAIT_MAX);
    out.spawn(async move {
        let mut newest = notices.newest();
        // Nothing new in time is an answer too.
        drop(tokio::time::timeout(wait, newest.wait_for(|newest| *newest > params.after)).await);
        let revision = *newest.borrow();
        let subscribed = match &who {
            Who::Device(guest) => {
                engine.devices().iter().any(|held| held.device.id == guest.id && held.endpoint.is_some())
            }
            Who::Here { .. } => false,
        };
        let told = notices.list(params.after).into_iter().map(|notice| describe(&engine, notice)).collect();
        Later::reply(head.answer::<methods::NoticeList>(&Ok(NoticeList {
            revision,
            subscribed,
            bell: notices.rings(),
            notices: told,
        })))
    });
    Ok(())
}

pub(crate) fn ways(wait: &MayWait, shared: &DoorState, origin: &Origin, _: Empty) -> Result<NoticeWays, RpcError> {
    check(shared, origin, Target::Instance)?;
    let ways = shared.engine.notices().ways(wait).into_iter();
    let ways = ways.map(|way| NoticeWay { way: way.name, to: Some(way.to), done: None, trouble: way.trouble });
    Ok(NoticeWays { ways: ways.collect() })
}

pub(crate) fn test(wait: &MayWait, shared: &DoorState, origin: &Origin, _: Empty) -> Result<NoticeWays, RpcError> {
    check(shared, origin, Target::Instance)?;
    let tried = shared.engine.notices().test(wait, TEST_WITHIN).into_iter().map(|(way, result)| {
        let (done, trouble) = (result.as_ref().ok().cloned(), result.err());
        NoticeWay { way: way.name, to: Some(way.to), done, trouble }
    });
    Ok(NoticeWays { ways: tried.collect() })
}

pub(crate) fn key(wait: &MayWait, shared: &DoorState, _: &Who, _: Empty) -> Result<NoticeKey, RpcError> {
    let refused = |why| RpcError::new(ErrorKind::Refused, why);
    shared.engine.notices().push_key(wait).map(|key| NoticeKey { key }).map_err(refused)
}

pub(crate) fn subscribe(
    wait: &MayWait,
    shared: &DoorState,
    who: &Who,
    params: NoticeSubscribeParams,
) -> Result<Empty, RpcError> {
    let bad = |why: String| RpcError::new(ErrorKind::BadParams, format!("notice.subscribe: {why}"));
    if params.endpoint.len() > ENDPOINT_MAX {
        return Err(bad(format!("an endpoint has at most {ENDPOINT_MAX} bytes")));
    }
    shared.engine.notices().check_endpoint(&params.endpoint).map_err(bad)?;
    to(wait, shared, who, Some(params.endpoint))
}

pub(crate) fn unsubscribe(wait: &MayWait, shared: &DoorState, who: &Who, _: Empty) -> Result<Empty, RpcError> {
    to(wait, shared, who, None)
}

fn to(wait: &MayWait, shared: &DoorState, who: &Who, endpoint: Option<String>) -> Result<Empty, RpcError> {
    let Who::Device(guest) = who else {
        let message = "only a paired device can be pushed to";
        return Err(RpcError::new(ErrorKind::Refused, message).hint("open the page on it: ostler pair"));
    };
    shared.engine.subscribe_guest(wait, guest, endpoint).map(|()| Empty {}).map_err(|error| refusal(&error))
}

/// What is in view here from now on.
pub(crate) fn looking(client: &mut Client, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
    let params = call.params::<methods::NoticeLooking>()?;
    // Nobody hosted looks for a person.
    client.reaches(Target::Instance)?;
    // What is gone meanwhile is not looked at, and the rest is.
    let (shared, origin, inbox) = (&client.shared, &client.origin, client.shared.engine.inbox());
    let session = |text: &String| Some(crate::session::own(shared, origin, text).ok()?.id().to_owned());
    let process = |text: &String| Some(crate::process::own(shared, origin, text).ok()?.id().to_owned());
    let approval = |text: &String| Some(inbox.peek(text)?.id);
    let ids = params.sessions.iter().filter_map(session);
    let ids = ids.chain(params.processes.iter().filter_map(process));
    let ids = ids.chain(params.approvals.iter().filter_map(approval));
    let onlookers = client.shared.engine.notices().onlookers();
    // The new ones first: whoever looks at the same as before never looked away.
    client.looking = ids.take(IN_VIEW_MAX).map(|id| onlookers.look(&id)).collect();
    out.ready.extend(call.head.answer::<methods::NoticeLooking>(&Ok(Empty {})));
    Ok(())
}

/// Whoever watches at a terminal of this machine looks at it; a device says so itself, because a page in the background watches
/// too, and who is hosted is nobody. May wait.
pub(crate) fn watches(_wait: &MayWait, shared: &DoorState, who: &Who, id: &str) -> Option<Looking> {
    let at_a_terminal = match who {
        Who::Here { peer, origin } => {
            **origin == Origin::Free && peer.as_ref().is_some_and(|peer| peer.place().is_ok())
        }
        Who::Device(_) => false,
    };
    at_a_terminal.then(|| shared.engine.notices().onlookers().look(id))
}

fn describe(engine: &Engine, notice: Notice) -> NoticeInfo {
    let notices = engine.notices();
    // What was answered meanwhile is not answered again.
    let waits = |of: &Answerable| engine.inbox().peek(&of.approval).is_some_and(|found| found.state.is_pending());
    let answer = notice.answer.filter(waits).map(|of| NoticeAnswer { approval: of.approval, hash: of.hash });
    let kind = match notice.kind {
        Kind::Needs => NoticeKind::Needs,
        Kind::Failed => NoticeKind::Failed,
        Kind::Ended | Kind::Nothing => NoticeKind::Ended,
    };
    let link = notices.link(&notice.about);
    let ways = notice.ways.into_iter().map(|(way, result)| {
        let (done, trouble) = (result.as_ref().ok().cloned(), result.err());
        NoticeWay { way, to: None, done, trouble }
    });
    NoticeInfo {
        number: notice.number,
        time: Timestamp::from_micros(notice.at_ms.saturating_mul(1000)),
        count: notice.count as u64,
        kind,
        text: notice.text,
        session: notice.about.session,
        process: notice.about.process,
        approval: notice.about.approval,
        link,
        answer,
        ways: ways.collect(),
    }
}
