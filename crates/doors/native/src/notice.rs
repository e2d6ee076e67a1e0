//! `notice.*`: what somebody was told, and where devices want to be told. When, and whether at all, the engine says.

use std::time::Duration;

use ostler_api::{
    Empty, ErrorKind, NoticeAnswer, NoticeInfo, NoticeKey, NoticeKind, NoticeList, NoticeListParams,
    NoticeLookingParams, NoticeSubscribeParams, NoticeWay, NoticeWays, RpcError, Timestamp,
};
use ostler_engine::notice::{Answerable, Kind, Looking, Notice};
use ostler_engine::{Engine, MayWait, Origin, Target};

use crate::call::{Call, Who};
use crate::dispatch::{Client, Out};
use crate::rights::refusal;

/// Longer than any way may take.
const TEST_WITHIN: Duration = Duration::from_secs(30);
/// More than there is room for on a screen.
const IN_VIEW_MAX: usize = 256;
/// Longer than the addresses of push services.
const ENDPOINT_MAX: usize = 2048;

pub(crate) fn list(_: &MayWait, call: &Call, params: NoticeListParams) -> Result<NoticeList, RpcError> {
    call.reaches(Target::Instance)?;
    let (engine, notices) = (call.engine(), call.engine().notices());
    let subscribed = match &call.who {
        Who::Device(guest) => engine.devices().iter().any(|held| held.device.id == guest.id && held.endpoint.is_some()),
        Who::Here(_) => false,
    };
    let (told, revision) = notices.list(params.after);
    let told = told.into_iter().map(|notice| describe(engine, notice)).collect();
    Ok(NoticeList { revision, subscribed, bell: notices.rings(), notices: told })
}

pub(crate) fn ways(wait: &MayWait, call: &Call, _: Empty) -> Result<NoticeWays, RpcError> {
    call.reaches(Target::Instance)?;
    let ways = call.engine().notices().ways(wait).into_iter();
    let ways = ways.map(|way| NoticeWay { way: way.name, to: Some(way.to), done: None, trouble: way.trouble });
    Ok(NoticeWays { ways: ways.collect() })
}

pub(crate) fn test(wait: &MayWait, call: &Call, _: Empty) -> Result<NoticeWays, RpcError> {
    call.reaches(Target::Instance)?;
    let tried = call.engine().notices().test(wait, TEST_WITHIN).into_iter().map(|(way, result)| {
        let (done, trouble) = (result.as_ref().ok().cloned(), result.err());
        NoticeWay { way: way.name, to: Some(way.to), done, trouble }
    });
    Ok(NoticeWays { ways: tried.collect() })
}

pub(crate) fn key(wait: &MayWait, call: &Call, _: Empty) -> Result<NoticeKey, RpcError> {
    let refused = |why| RpcError::new(ErrorKind::Refused, why);
    call.engine().notices().push_key(wait).map(|key| NoticeKey { key }).map_err(refused)
}

pub(crate) fn subscribe(wait: &MayWait, call: &Call, params: NoticeSubscribeParams) -> Result<Empty, RpcError> {
    let bad = |why: String| RpcError::new(ErrorKind::BadParams, format!("notice.subscribe: {why}"));
    if params.endpoint.len() > ENDPOINT_MAX {
        return Err(bad(format!("an endpoint has at most {ENDPOINT_MAX} bytes")));
    }
    call.engine().notices().check_endpoint(&params.endpoint).map_err(bad)?;
    to(wait, call, Some(params.endpoint))
}

pub(crate) fn unsubscribe(wait: &MayWait, call: &Call, _: Empty) -> Result<Empty, RpcError> {
    to(wait, call, None)
}

fn to(wait: &MayWait, call: &Call, endpoint: Option<String>) -> Result<Empty, RpcError> {
    let Who::Device(guest) = &call.who else {
        let message = "only a paired device can be pushed to";
        return Err(RpcError::new(ErrorKind::Refused, message).hint("open the page on it: ostler pair"));
    };
    call.engine().subscribe_guest(wait, guest, endpoint).map(|()| Empty {}).map_err(|error| refusal(&error))
}

/// What is in view here from now on.
pub(crate) fn looking(client: &mut Client, params: NoticeLookingParams, _: &mut Out) -> Result<Empty, RpcError> {
    // Nobody hosted looks for a person.
    client.call.reaches(Target::Instance)?;
    // What is gone meanwhile is not looked at, and the rest is.
    let (call, inbox) = (&client.call, client.call.engine().inbox());
    let session = |text: &String| Some(crate::session::own(call, text).ok()?.id().to_owned());
    let process = |text: &String| Some(crate::process::own(call, text).ok()?.id().to_owned());
    let approval = |text: &String| Some(inbox.peek(text)?.id);
    let ids = params.sessions.iter().filter_map(session);
    let ids = ids.chain(params.processes.iter().filter_map(process));
    let ids = ids.chain(params.approvals.iter().filter_map(approval));
    let onlookers = client.call.engine().notices().onlookers();
    // The new ones first: whoever looks at the same as before never looked away.
    client.looking = ids.take(IN_VIEW_MAX).map(|id| onlookers.look(&id)).collect();
    Ok(Empty {})
}

/// Whoever watches at a terminal of this machine looks at it; a device says so itself, because a page in the background watches
/// too, and who is hosted is nobody. May wait.
pub(crate) fn watches(_wait: &MayWait, call: &Call, id: &str) -> Option<Looking> {
    let at_a_terminal = || call.peer().is_some_and(|peer| peer.place().is_ok());
    (call.origin == Origin::Free && at_a_terminal()).then(|| call.engine().notices().onlookers().look(id))
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
        time: Timestamp::from_millis(notice.at_ms),
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
