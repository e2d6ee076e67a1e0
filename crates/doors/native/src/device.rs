//! `device.*`: pairing and the list of devices. Who may is the engine's to say; here it is only asked.

use std::net::SocketAddr;
use std::time::Duration;

use ostler_api::{
    DeviceAffirmParams, DeviceInfo, DeviceList, DeviceNames, DeviceOfferParams, DeviceOffered, DeviceOffers,
    DeviceRevokeParams, DeviceRevoked, DeviceTailnet, DeviceTailnetParams, DeviceTroubleParams, Empty, ErrorKind,
    OfferInfo, OfferParams, OfferState, RpcError, TailnetInfo, Timestamp,
};
use ostler_engine::access::device::{Asks, HeldDevice, Lifetimes, OfferView, Preset, Rights, Standing, Tailnet, Terms};
use ostler_engine::{Engine, MayWait, Target};

use crate::call::{Call, Who};
use crate::dispatch::{Client, Out};
use crate::rights::refusal;

/// Long enough to fetch a phone, short enough that a code on a screen is soon worth nothing.
const STANDS: Duration = Duration::from_secs(10 * 60);

pub(crate) fn offer(wait: &MayWait, call: &Call, params: DeviceOfferParams) -> Result<DeviceOffered, RpcError> {
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
    let offered = call.engine().offer(wait, call.admitter(), terms).map_err(|error| refusal(&error))?;
    Ok(DeviceOffered {
        offer: offered.id,
        code: offered.code.map(|code| code.reveal().to_owned()),
        link: offered.link.reveal().to_owned(),
        expires_in_ms: offered.stands_ms,
    })
}

pub(crate) fn tailnet(wait: &MayWait, call: &Call, params: DeviceTailnetParams) -> Result<DeviceTailnet, RpcError> {
    let by = call.person(wait, "the tailnet", "pair")?;
    let port = call.shared.instance.doors().into_iter().find(|door| door.name == "web");
    let port = port.and_then(|door| door.address.parse::<SocketAddr>().ok()).map(|address| address.port());
    let Some(found) = port.and_then(|port| Some((port, call.engine().tailnet(wait, port)?))) else {
        return Ok(DeviceTailnet { tailnet: None, why_not: None });
    };
    let (port, Tailnet { url, served, public }) = match found {
        (port, Ok(tailnet)) => (port, tailnet),
        (_, Err(why)) => return Ok(DeviceTailnet { tailnet: None, why_not: Some(why) }),
    };
    let is_allowed = || call.engine().allowed_tailnet().as_ref() == Some(&url);
    if params.allow && served && !is_allowed() {
        call.engine().allow_tailnet(wait, &url, by).map_err(|error| crate::approval::refusal(&error))?;
    }
    let (allowed, command) = (is_allowed(), format!("tailscale serve --bg {port}"));
    Ok(DeviceTailnet { tailnet: Some(TailnetInfo { url, command, served, public, allowed }), why_not: None })
}

pub(crate) fn offers(call: &Call, _: Empty) -> Result<DeviceOffers, RpcError> {
    // Who waits to be let in is not for anybody hosted to see.
    call.reaches(Target::Instance)?;
    Ok(DeviceOffers { offers: call.engine().offers().into_iter().map(describe_offer).collect() })
}

pub(crate) fn admit(wait: &MayWait, call: &Call, params: OfferParams) -> Result<Empty, RpcError> {
    call.engine().admit(wait, call.admitter(), &params.offer).map(|()| Empty {}).map_err(|error| refusal(&error))
}

pub(crate) fn refuse(wait: &MayWait, call: &Call, params: OfferParams) -> Result<Empty, RpcError> {
    call.engine().refuse(wait, call.admitter(), &params.offer).map(|()| Empty {}).map_err(|error| refusal(&error))
}

pub(crate) fn list(_: &MayWait, call: &Call, _: Empty) -> Result<DeviceList, RpcError> {
    call.reaches(Target::Instance)?;
    Ok(DeviceList { devices: call.engine().devices().into_iter().map(describe).collect() })
}

pub(crate) fn revoke(wait: &MayWait, call: &Call, params: DeviceRevokeParams) -> Result<DeviceRevoked, RpcError> {
    let engine: &Engine = call.engine();
    let revoked = match (params.device, params.all) {
        (Some(device), false) => engine.revoke_device(wait, call.admitter(), &device).map(|_| 1),
        (None, true) => engine.revoke_all_devices(wait, call.admitter()).map(|count| count as u64),
        _ => return Err(RpcError::new(ErrorKind::BadParams, "device.revoke: either `device` or `all`")),
    };
    revoked.map(|revoked| DeviceRevoked { revoked }).map_err(|error| refusal(&error))
}

pub(crate) fn affirm(wait: &MayWait, call: &Call, params: DeviceAffirmParams) -> Result<DeviceNames, RpcError> {
    let affirmed = call.engine().affirm_devices(wait, call.peer(), &params.digests);
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
    let (digest, expires) = (held.digest(), Timestamp::from_millis(held.until()));
    DeviceInfo {
        id: held.device.id,
        name: held.device.name,
        rights: held.device.rights,
        key: held.device.key.is_some(),
        paired: Timestamp::from_millis(held.paired_at),
        paired_by: held.device.by,
        seen: Timestamp::from_millis(held.seen_at),
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
pub(crate) fn trouble(client: &mut Client, params: DeviceTroubleParams, _: &mut Out) -> Result<Empty, RpcError> {
    // Nobody hosted writes there: it would, on a new connection each time, for as long as it likes.
    client.call.reaches(Target::Instance)?;
    client.troubles = client.troubles.saturating_add(1);
    if client.troubles <= TROUBLES_MAX {
        let one_line = |text: &str, max: usize| text.chars().take(max).collect::<String>().escape_debug().to_string();
        let (message, stack) = (one_line(&params.message, TROUBLE_MAX), one_line(&params.stack, STACK_MAX));
        let whose = match &client.call.who {
            Who::Device(guest) => guest.name.escape_debug().to_string(),
            Who::Here(_) => "this machine".to_owned(),
        };
        tracing::warn!("a program of {whose} failed: {message}; {stack}");
    }
    Ok(Empty {})
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
