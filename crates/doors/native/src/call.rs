//! What every method is given beside its parameters: who calls, and what all connections have in common.

use std::sync::Arc;

use ostler_api::{ErrorKind, RpcError};
use ostler_engine::access::device::{Admitter, Guest, Right};
use ostler_engine::{Caller, Engine, MayWait, Origin, Peer, Target};
use ostler_story::By;

use crate::{DoorState, reach, rights};

/// Who is at the other end of a connection.
pub(crate) enum Who {
    /// A program of this machine: its process, if the system says which.
    Here(Option<Peer>),
    /// A device that has shown who it is.
    Device(Arc<Guest>),
}

/// Who calls, for as long as its connection, or a request of it, lasts.
pub(crate) struct Call {
    pub(crate) shared: Arc<DoorState>,
    pub(crate) who: Who,
    /// Where it comes from, for what it may touch.
    pub(crate) origin: Origin,
}

impl Call {
    /// A program of this machine calls.
    pub(crate) fn here(shared: Arc<DoorState>, peer: Option<Peer>, origin: Origin) -> Self {
        Self { shared, who: Who::Here(peer), origin }
    }

    /// A device calls.
    pub(crate) fn of_device(shared: Arc<DoorState>, guest: Arc<Guest>) -> Self {
        Self { shared, who: Who::Device(Arc::clone(&guest)), origin: Origin::Device(guest) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Its process on this machine, for what no device may.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        match &self.who {
            Who::Here(peer) => peer.as_ref(),
            Who::Device(_) => None,
        }
    }

    /// Whether ostler hosts it. A device with its rights is as good as a person elsewhere.
    pub(crate) fn caller(&self) -> Caller {
        match &self.who {
            Who::Here(peer) => peer.as_ref().map_or(Caller::Unknown, Peer::caller),
            Who::Device(guest) => guest.caller.clone(),
        }
    }

    /// Itself, for pairing others.
    pub(crate) fn admitter(&self) -> Admitter<'_> {
        match &self.who {
            Who::Here(peer) => Admitter::Here(peer.as_ref()),
            Who::Device(guest) => Admitter::Device(guest),
        }
    }

    /// Refuses what is not its own.
    pub(crate) fn reaches(&self, target: Target<'_>) -> Result<(), RpcError> {
        self.engine().may_touch(&self.origin, target).map_err(|error| reach::refusal(&error))
    }

    /// Refuses a device that lacks this right; what is on this machine is judged elsewhere.
    pub(crate) fn needs(&self, right: Right) -> Result<(), RpcError> {
        match &self.who {
            Who::Here(_) => Ok(()),
            Who::Device(guest) => self.engine().guest_may(guest, right).map_err(|error| rights::refusal(&error)),
        }
    }

    /// The person at the other end, or the device; or the refusal that goes on record, naming the verb that a person would use.
    /// Whether a device had the right was asked before: see `rights`.
    pub(crate) fn person(&self, wait: &MayWait, about: &str, verb: &str) -> Result<By, RpcError> {
        match &self.who {
            Who::Here(peer) => {
                // Where nobody can decide, no other terminal helps.
                let refused = |why| match self.engine().locked() {
                    Some(_) => RpcError::new(ErrorKind::Refused, why),
                    None => RpcError::new(ErrorKind::Refused, why).hint(format!("there: ostler {verb}")),
                };
                self.engine().person(wait, peer.as_ref(), about).map_err(refused)
            }
            Who::Device(guest) => Ok(By::Device { name: guest.name.clone(), signed: None }),
        }
    }
}
