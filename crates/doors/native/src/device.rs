//! `device.*`: pairing and the list of devices. Who may is the engine's to say; here it is only asked.

use std::net::SocketAddr;
use std::time::Duration;

use ostler_api::{
    DeviceAffirmParams, DeviceInfo, DeviceList, DeviceNames, DeviceOfferParams, DeviceOffered, DeviceOffers,
    DeviceRevokeParams, DeviceRevoked, DeviceTailnet, DeviceTailnetParams, Empty, ErrorKind, OfferInfo, OfferParams,
    OfferState, RpcError, TailnetInfo, Timestamp, methods,
};
use ostler_door_rpc::Later;
use ostler_engine::access::device::{Asks, HeldDevice, Lifetimes, OfferView, Preset, Rights, Standing, Tailnet, Terms};
use ostler_engine::{Engine, MayWait, Origin, Target};

use crate::DoorState;
use crate::dispatch::{Call, Client, Out};
use crate::rights::refusal;
use crate::who::Who;

/// Long enough to fetch a phone, short enough that a code on a screen is soon worth nothing.
const STANDS: Duration = Duration::from_secs(10 * 60);
/// The longest a client waits for news in one request.
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) fn offer(
    wait: &MayWait,
    shared: &DoorState,
    who: &Who,
    params: DeviceOfferParams,
) -> Result<DeviceOffered, RpcError> {
    let rights = if params.rights == Rights::NONE { Preset::Answer.rights() } else { params.rights };
    let terms = Terms {
        name: params.name,
        rights,
        stands_ms: millis(STANDS),
        code: params.code,
        // A phone that scans or types has no key; a browser that opens a link could have one.
        keyless: params.code,
        asks: if params.code { Asks::Always } else { Asks::Elsewhere },
        lifetimes: Lifetimes::default(),
    };
    let offered = shared.engine.offer(wait, who.admitter(), terms).map_err(|error| refusal(&error))?;
    Ok(DeviceOffered {
        offer: offered.id,
        code: offered.code.map(|code| code.reveal().to_owned()),
        link: offered.link.reveal().to_owned(),
        expires_in_ms: offered.stands_ms,
    })
}

pub(crate) fn tailnet(
    wait: &MayWait,
    shared: &DoorState,
    who: &Who,
    params: DeviceTailnetParams,
) -> Result<DeviceTailnet, RpcError> {
    let by = who.person(wait, shared, "the tailnet", "pair")?;
    let port = shared.instance.doors().into_iter().find(|door| door.name == "web");
    let port = port.and_then(|door| door.address.parse::<SocketAddr>().ok()).map(|address| address.port());
    let Some(found) = port.and_then(|port| Some((port, shared.engine.tailnet(wait, port)?))) else {
        return Ok(DeviceTailnet { tailnet: None, why_not: None });
    };
    let (port, Tailnet { url, served, public }) = match found {
        (port, Ok(tailnet)) => (port, tailnet),
        (_, Err(why)) => return Ok(DeviceTailnet { tailnet: None, why_not: Some(why) }),
    };
    let is_allowed = || shared.engine.allowed_tailnet().as_ref() == Some(&url);
    if params.allow && served && !is_allowed() {
        shared.engine.allow_tailnet(wait, &url, by).map_err(|error| crate::approval::refusal(&error))?;
    }
    let (allowed, command) = (is_allowed(), format!("tailscale serve --bg {port}"));
    Ok(DeviceTailnet { tailnet: Some(TailnetInfo { url, command, served, public, allowed }), why_not: None })
}

/// Answers when something changed, or when the time is over.
pub(crate) fn offers(client: &Client, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
    let params = call.params::<methods::DeviceOffers>()?;
    // Who waits to be let in is not for anybody hosted to see.
    client.reaches(Target::Instance)?;
    let (head, engine) = (call.head.clone(), client.shared.engine.clone());
    let mut revision = engine.offers_revision();
    let wait = Duration::from_millis(params.wait_ms).min(WAIT_MAX);
    out.spawn(async move {
        let newer = revision.wait_for(|revision| *revision > params.after);
        // Nothing new in time is an answer too.
        drop(tokio::time::timeout(wait, newer).await);
        let revision = *revision.borrow();
        let offers = engine.offers().into_iter().map(describe_offer).collect();
        Later::reply(head.answer::<methods::DeviceOffers>(&Ok(DeviceOffers { revision, offers })))
    });
    Ok(())
}

pub(crate) fn admit(wait: &MayWait, shared: &DoorState, who: &Who, params: OfferParams) -> Result<Empty, RpcError> {
    shared.engine.admit(wait, who.admitter(), &params.offer).map(|()| Empty {}).map_err(|error| refusal(&error))
}

pub(crate) fn refuse(wait: &MayWait, shared: &DoorState, who: &Who, params: OfferParams) -> Result<Empty, RpcError> {
    shared.engine.refuse(wait, who.admitter(), &params.offer).map(|()| Empty {}).map_err(|error| refusal(&error))
}

pub(crate) fn list(_: &MayWait, shared: &DoorState, origin: &Origin, _: Empty) -> Result<DeviceList, RpcError> {
    crate::reach::check(shared, origin, Target::Instance)?;
    Ok(DeviceList { devices: shared.engine.devices().into_iter().map(describe).collect() })
}

pub(crate) fn revoke(
    wait: &MayWait,
    shared: &DoorState,
    who: &Who,
    params: DeviceRevokeParams,
) -> Result<DeviceRevoked, RpcError> {
    let engine: &Engine = &shared.engine;
    let revoked = match (params.device, params.all) {
        (Some(device), false) => engine.revoke_device(wait, who.admitter(), &device).map(|_| 1),
        (None, true) => engine.revoke_all_devices(wait, who.admitter()).map(|count| count as u64),
        _ => return Err(RpcError::new(ErrorKind::BadParams, "device.revoke: either `device` or `all`")),
    };
    revoked.map(|revoked| DeviceRevoked { revoked }).map_err(|error| refusal(&error))
}

pub(crate) fn affirm(
    wait: &MayWait,
    shared: &DoorState,
    who: &Who,
    params: DeviceAffirmParams,
) -> Result<DeviceNames, RpcError> {
    let affirmed = shared.engine.affirm_devices(wait, who.peer(), &params.digests);
    affirmed.map(|names| DeviceNames { names }).map_err(|error| refusal(&error))
}

fn describe_offer(view: OfferView) -> OfferInfo {
    let (state, device) = match view.standing {
        Standing::Open => (OfferState::Open, None),
        Standing::Claimed => (OfferState::Claimed, None),
        Standing::Admitted => (OfferState::Admitted, None),
        Standing::Refused => (OfferState::Refused, None),
        Standing::Paired(device) => (OfferState::Paired, Some(device)),
        Standing::Expired => (OfferState::Expired, None),
    };
    OfferInfo {
        offer: view.id,
        state,
        name: view.name,
        address: view.address,
        rights: view.rights,
        expires_in_ms: view.left_ms,
        device,
    }
}

fn describe(held: HeldDevice) -> DeviceInfo {
    let time = |millis: u64| Timestamp::from_micros(millis.saturating_mul(1000));
    let (digest, expires) = (held.digest(), time(held.until()));
    DeviceInfo {
        id: held.device.id,
        name: held.device.name,
        rights: held.device.rights,
        key: held.device.key.is_some(),
        paired: time(held.paired_at),
        paired_by: held.device.by,
        seen: time(held.seen_at),
        address: held.address,
        expires,
        suspended: held.suspended,
        digest,
    }
}

/// What goes wrong in a device's program more often than this on one connection is known by then.
const TROUBLES_MAX: u32 = 20;
/// Characters of a message, and of where it was.
const TROUBLE_MAX: usize = 300;
const STACK_MAX: usize = 2000;

/// Goes to the log, in one line: a device is not to write lines of ours.
pub(crate) fn trouble(client: &mut Client, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
    let params = call.params::<methods::DeviceTrouble>()?;
    // Nobody hosted writes there: it would, on a new connection each time, for as long as it likes.
    client.reaches(Target::Instance)?;
    client.troubles = client.troubles.saturating_add(1);
    if client.troubles <= TROUBLES_MAX {
        let one_line = |text: &str, max: usize| text.chars().take(max).collect::<String>().escape_debug().to_string();
        let (message, stack) = (one_line(&params.message, TROUBLE_MAX), one_line(&params.stack, STACK_MAX));
        let whose = match &client.who {
            Who::Device(guest) => guest.name.escape_debug().to_string(),
            Who::Here { .. } => "this machine".to_owned(),
        };
        tracing::warn!("a program of {whose} failed: {message}; {stack}");
    }
    out.ready.extend(call.head.answer::<methods::DeviceTrouble>(&Ok(Empty {})));
    Ok(())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
