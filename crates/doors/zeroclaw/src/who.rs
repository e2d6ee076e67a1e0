//! Who is at the other end of a connection: a program of this machine, or a device on the web port. A device is nobody until it
//! has shown its token; then it does what its rights say, which are looked up with each request, and it is never the person at
//! this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ostler_door_rpc::{RpcError, Share};
use ostler_door_web::websocket::MessageMax;
use ostler_engine::access::device::{DeviceError, Guest, Required, Right, Visitor};
use ostler_engine::{Caller, Engine, MayWait, Origin, Peer};
use ostler_story::By;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{DOOR, DoorState, MESSAGE_MAX, error};

/// Who calls.
pub(crate) enum Who {
    /// A program of this machine: its process, if the system says which.
    Here(Option<Peer>),
    /// Somebody on the web port.
    Remote(Remote),
}

/// A connection to the web port.
pub(crate) struct Remote {
    address: SocketAddr,
    visitor: Visitor,
    /// What is read of it; more, once it is known.
    max: MessageMax,
    came: watch::Sender<Option<Arc<Came>>>,
}

/// A device that has shown who it is, and its place among its connections.
pub(crate) struct Came {
    pub(crate) guest: Guest,
    _place: (Arc<Share>, OwnedSemaphorePermit),
}

impl Remote {
    pub(crate) fn new(address: SocketAddr, visitor: Visitor, max: MessageMax) -> Self {
        Self { address, visitor, max, came: watch::Sender::new(None) }
    }

    /// Told when it has shown which device it is.
    pub(crate) fn came(&self) -> watch::Receiver<Option<Arc<Came>>> {
        self.came.subscribe()
    }

    fn known(&self) -> Result<Arc<Came>, RpcError> {
        self.came.borrow().clone().ok_or_else(error::not_initialised)
    }

    /// Lets it in, if it shows a device's token. The first one counts, for as long as the connection lasts.
    async fn arrive(&self, shared: &Arc<DoorState>, params: &Map<String, Value>) -> Result<(), RpcError> {
        if self.known().is_ok() {
            return Ok(());
        }
        let token = params.get("auth_token").and_then(Value::as_str).map(str::to_owned);
        let token = token.ok_or_else(|| error::unknown("auth_token is missing: the token of a paired device"))?;
        let (engine, visitor) = (shared.engine.clone(), self.visitor.clone());
        let guest = MayWait::run(move |wait| engine.authenticate(wait, &token, &visitor).map_err(not_in)).await?;
        let share = shared.shares.of(&guest.id);
        let place = share.enter().ok_or_else(|| error::crowded("Too many connections of this device"))?;
        self.max.raise(MESSAGE_MAX);
        self.came.send_replace(Some(Arc::new(Came { guest, _place: (share, place) })));
        Ok(())
    }
}

/// Why a device was not let in.
fn not_in(error: DeviceError) -> RpcError {
    match error {
        DeviceError::NotIn(_) => error::unknown(error.to_string()),
        DeviceError::Store(_) => RpcError::internal(error.to_string()),
        _ => error::forbidden(error.to_string()),
    }
}

impl Who {
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Here(Some(peer)) => format!("unix:pid={},uid={}", peer.pid, peer.uid),
            Self::Here(None) => "unix:unknown".to_owned(),
            Self::Remote(remote) => format!("wss:{}", remote.address),
        }
    }

    pub(crate) fn transport(&self) -> &'static str {
        if self.is_remote() { "wss" } else { "unix" }
    }

    /// What program it is.
    pub(crate) fn caller(&self) -> Caller {
        match self {
            Self::Here(peer) => peer.as_ref().map_or(Caller::Unknown, Peer::caller),
            Self::Remote(remote) => remote.visitor.caller.clone(),
        }
    }

    /// Lets in whoever initialises a connection, or says why not: nobody is asked twice.
    pub(crate) async fn arrive(&self, shared: &Arc<DoorState>, params: &Map<String, Value>) -> Result<(), RpcError> {
        match self {
            Self::Here(_) => Ok(()),
            Self::Remote(remote) => remote.arrive(shared, params).await,
        }
    }

    /// Refuses a device what it may not do. Whoever is on this machine came through the user's own socket.
    pub(crate) fn may(&self, engine: &Engine, required: Required) -> Result<(), RpcError> {
        match (self, required) {
            (Self::Here(_), _) | (_, Required::Nothing) => Ok(()),
            (Self::Remote(_), Required::Person) => {
                Err(error::forbidden("no device may do that: use the machine itself"))
            }
            (Self::Remote(remote), Required::Right(right)) => {
                let came = remote.known()?;
                engine.guest_may(&came.guest, right).map_err(|error| error::forbidden(error.to_string()))
            }
        }
    }

    /// The same for beginning a conversation, where it turns out that none is there.
    pub(crate) fn may_begin(&self, engine: &Engine) -> Result<(), RpcError> {
        self.may(engine, Required::Right(Right::Prompt))
    }

    /// The same for the folder that it is to be in.
    pub(crate) fn may_begin_in(&self, wait: &MayWait, engine: &Engine, folder: &Path) -> Result<(), RpcError> {
        let Self::Remote(remote) = self else { return Ok(()) };
        let origin = Origin::Device(Arc::new(remote.known()?.guest.clone()));
        engine.may_begin_in(wait, &origin, folder).map_err(|error| error::forbidden(error.to_string()))
    }

    /// Whoever decides, or the refusal, which goes on record.
    pub(crate) fn decides(&self, wait: &MayWait, engine: &Engine, approval: &str) -> Result<By, RpcError> {
        match self {
            Self::Here(peer) => engine.person_or_client(wait, peer.as_ref(), approval, DOOR).map_err(error::forbidden),
            Self::Remote(remote) => {
                let decides = engine.guest_decides(wait, &remote.known()?.guest, None, approval);
                decides.map_err(|error| error::forbidden(error.to_string()))
            }
        }
    }

    /// Puts on record that a device may not answer so.
    pub(crate) fn refused(&self, wait: &MayWait, engine: &Engine, approval: &str, why: &str) {
        if let Self::Remote(remote) = self
            && let Ok(came) = remote.known()
        {
            engine.guest_refused(wait, &came.guest, approval, why);
        }
    }
}
