//! The beginning of a WebSocket: `device.*` methods by which nobody becomes a device, and nothing else. Once it has shown who
//! it is, everything goes to the session of a device.

use std::sync::{Arc, Mutex, PoisonError};

use ostler_api::{
    DeviceCame, DeviceChallenge, DeviceCodeParams, DevicePaired, DeviceProveParams, DeviceRedeemParams, DeviceRedeemed,
    DeviceRefreshParams, DeviceShowParams, DeviceTicket, DeviceTokens, Empty, ErrorKind, Method, RpcError, Timestamp,
    methods,
};
use ostler_door_rpc::{Flow, Later, Outbox, Session};
use ostler_door_web::websocket::MessageMax;
use ostler_engine::access::device::{
    Challenge, DeviceError, Grant, Guest, Introduction, Lifetimes, PublicKey, Redeemed, Visitor,
};
use ostler_engine::{EventHead, FrameHead, MayWait, Missing};
use tokio::sync::watch;

use crate::DoorState;
use crate::call::Call;
use crate::dispatch::{Answered, Client, Request, Tag};
use crate::rights::refusal;

/// A method of arriving; it may wait for the disk.
type Arriving<P, R> = fn(&MayWait, &Visit, P) -> Result<R, RpcError>;

/// Who came, as far as it is known.
struct Visit {
    shared: Arc<DoorState>,
    visitor: Visitor,
    /// The host that it came to.
    host: String,
    /// What it was asked to sign, once.
    challenge: Mutex<Option<Challenge>>,
    came: watch::Sender<Option<Arc<Guest>>>,
    max: MessageMax,
}

/// A connection from its first word on.
pub(crate) struct Arrival {
    visit: Arc<Visit>,
    /// Once it has shown who it is.
    client: Option<Client>,
}

impl Arrival {
    pub(crate) fn new(
        shared: Arc<DoorState>,
        visitor: Visitor,
        host: String,
        came: watch::Sender<Option<Arc<Guest>>>,
        max: MessageMax,
    ) -> Self {
        Self { visit: Arc::new(Visit { shared, visitor, host, challenge: Mutex::default(), came, max }), client: None }
    }

    /// The session of the device that it is.
    fn client(&mut self, out: &mut Outbox<Tag>) -> Option<&mut Client> {
        if self.client.is_none()
            && let Some(guest) = self.visit.came.borrow().clone()
        {
            out.set_share(self.visit.shared.shares.of(&guest.id));
            self.client = Some(Client::new(Call::of_device(Arc::clone(&self.visit.shared), guest)));
        }
        self.client.as_mut()
    }

    fn call(&self, method: &str, request: &Request<'_>, out: &mut Outbox<Tag>) -> Result<(), RpcError> {
        match method {
            methods::DeviceCode::NAME => self.arrive::<methods::DeviceCode>(request, out, code),
            methods::DeviceRedeem::NAME => self.arrive::<methods::DeviceRedeem>(request, out, redeem),
            methods::DeviceRefresh::NAME => self.arrive::<methods::DeviceRefresh>(request, out, refresh),
            methods::DeviceChallenge::NAME => self.arrive::<methods::DeviceChallenge>(request, out, challenge),
            methods::DeviceProve::NAME => self.arrive::<methods::DeviceProve>(request, out, prove),
            methods::DeviceShow::NAME => self.arrive::<methods::DeviceShow>(request, out, show),
            _ => Err(RpcError::new(ErrorKind::Refused, "this connection has not shown which device it is")
                .hint("call device.show with a token, or device.challenge and device.prove; to pair: device.redeem")),
        }
    }

    fn arrive<M: Method>(
        &self,
        request: &Request<'_>,
        out: &mut Outbox<Tag>,
        answer: Arriving<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (params, head, visit) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.visit));
        out.spawn_blocking(move |wait| Later::reply(head.answer::<M>(&answer(wait, &visit, params))));
        Ok(())
    }
}

/// What these methods are answered anywhere else.
pub(crate) fn too_late(_: &Client, _: &Request<'_>, _: &mut Outbox<Tag>) -> Answered {
    Err(RpcError::new(ErrorKind::Refused, "only for the first words on a connection to the web port"))
}

fn code(wait: &MayWait, visit: &Visit, params: DeviceCodeParams) -> Result<DeviceTicket, RpcError> {
    let ticket =
        visit.shared.engine.redeem_code(wait, &params.code, &visit.visitor).map_err(|error| refusal(&error))?;
    Ok(DeviceTicket { link: ticket.secret.reveal().to_owned() })
}

fn redeem(wait: &MayWait, visit: &Visit, params: DeviceRedeemParams) -> Result<DeviceRedeemed, RpcError> {
    let bad = || RpcError::new(ErrorKind::BadParams, "device.redeem: `key` is no point of P-256 in base64url");
    let key = params.key.map(|key| PublicKey::parse(&key).ok_or_else(bad)).transpose()?;
    let who = Introduction { name: params.name, key };
    let redeemed = visit.shared.engine.redeem_link(wait, &params.link, who, &visit.visitor);
    Ok(match redeemed.map_err(|error| refusal(&error))? {
        Redeemed::Waits { offer, left_ms } => {
            DeviceRedeemed { paired: None, offer: Some(offer), expires_in_ms: Some(left_ms) }
        }
        Redeemed::Paired(paired) => {
            let paired = DevicePaired {
                id: paired.id,
                name: paired.name,
                rights: paired.rights,
                limited: paired.limited,
                tokens: paired.grant.map(tokens),
            };
            DeviceRedeemed { paired: Some(paired), offer: None, expires_in_ms: None }
        }
    })
}

fn refresh(wait: &MayWait, visit: &Visit, params: DeviceRefreshParams) -> Result<DeviceTokens, RpcError> {
    let renewed = visit.shared.engine.refresh(wait, &params.refresh, Lifetimes::default(), &visit.visitor);
    renewed.map(tokens).map_err(|error| refusal(&error))
}

fn tokens(grant: Grant) -> DeviceTokens {
    DeviceTokens {
        access: grant.access.reveal().to_owned(),
        access_until: Timestamp::from_millis(grant.access_until),
        refresh: grant.refresh.reveal().to_owned(),
        refresh_until: Timestamp::from_millis(grant.refresh_until),
    }
}

fn challenge(_: &MayWait, visit: &Visit, _: Empty) -> Result<DeviceChallenge, RpcError> {
    let fresh = visit.shared.engine.challenge().map_err(|error| refusal(&error))?;
    let asked = DeviceChallenge { challenge: fresh.text().to_owned(), host: visit.host.clone() };
    *visit.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
    Ok(asked)
}

fn prove(wait: &MayWait, visit: &Visit, params: DeviceProveParams) -> Result<DeviceCame, RpcError> {
    let asked = visit.challenge.lock().unwrap_or_else(PoisonError::into_inner).take();
    let asked =
        asked.ok_or_else(|| RpcError::new(ErrorKind::Refused, "ask for something to sign: device.challenge"))?;
    let engine = &visit.shared.engine;
    visit.enter(engine.prove(wait, asked, &params.device, &params.signature, &visit.host, &visit.visitor))
}

fn show(wait: &MayWait, visit: &Visit, params: DeviceShowParams) -> Result<DeviceCame, RpcError> {
    visit.enter(visit.shared.engine.authenticate(wait, &params.token, &visit.visitor))
}

impl Visit {
    /// From now on it is this device, if it is one.
    fn enter(&self, guest: Result<Guest, DeviceError>) -> Result<DeviceCame, RpcError> {
        let guest = guest.map_err(|error| refusal(&error))?;
        let rights = self.shared.engine.rights_of(&guest);
        let came = DeviceCame { id: guest.id.clone(), name: guest.name.clone(), rights };
        self.max.raise(ostler_api::LINE_MAX);
        self.came.send_replace(Some(Arc::new(guest)));
        Ok(came)
    }
}

impl Session for Arrival {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Outbox<Tag>) -> Flow {
        if let Some(client) = self.client(out) {
            return client.line(line, out);
        }
        let Some((method, request)) = Request::read(line, out) else { return Flow::Continue };
        if let Err(error) = self.call(&method, &request, out) {
            out.ready.extend(request.head.refuse(&error));
        }
        Flow::Continue
    }

    fn frame(&mut self, tag: &Tag, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        self.client.as_mut().is_some_and(|client| client.frame(tag, head, data, out))
    }

    fn record(&mut self, tag: &Tag, head: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        self.client.as_mut().is_some_and(|client| client.record(tag, head, data, out))
    }

    fn gap(&mut self, tag: &Tag, first: u64, missing: Missing, out: &mut Vec<u8>) {
        if let Some(client) = &mut self.client {
            client.gap(tag, first, missing, out);
        }
    }

    fn lost(&mut self, tag: &Tag, error: &std::io::Error, out: &mut Vec<u8>) {
        if let Some(client) = &mut self.client {
            client.lost(tag, error, out);
        }
    }

    fn leaves_superseded(&self) -> bool {
        false
    }
}
