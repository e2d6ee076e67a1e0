//! Who is at the other end of a connection: a program of this machine, or a device.

use std::sync::Arc;

use ostler_api::{ErrorKind, RpcError};
use ostler_engine::access::device::{Admitter, Guest, Right};
use ostler_engine::{Caller, MayWait, Origin, Peer};
use ostler_story::By;

use crate::{DoorState, rights};

/// Who calls, for as long as a request of it runs.
#[derive(Clone)]
pub(crate) enum Who {
    /// A program of this machine.
    Here {
        /// Its process, if the system says which.
        peer: Option<Arc<Peer>>,
        /// Where that comes from, for what it may touch.
        origin: Arc<Origin>,
    },
    /// A device that has shown who it is.
    Device(Arc<Guest>),
}

impl Who {
    /// Whether ostler hosts it. A device with its rights is as good as a person elsewhere.
    pub(crate) fn caller(&self) -> Caller {
        match self {
            Self::Here { peer, .. } => peer.as_deref().map_or(Caller::Unknown, Peer::caller),
            Self::Device(guest) => guest.caller.clone(),
        }
    }

    /// The process at the other end, on this machine.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Here { peer, .. } => peer.as_ref().map(|peer| peer.pid),
            Self::Device(_) => None,
        }
    }

    /// Where it comes from, for what it may touch.
    pub(crate) fn origin(&self) -> Arc<Origin> {
        match self {
            Self::Here { origin, .. } => Arc::clone(origin),
            Self::Device(guest) => Arc::new(Origin::Device(Arc::clone(guest))),
        }
    }

    /// Itself, for pairing others.
    pub(crate) fn admitter(&self) -> Admitter<'_> {
        match self {
            Self::Here { peer, .. } => Admitter::Here(peer.as_deref()),
            Self::Device(guest) => Admitter::Device(guest),
        }
    }

    /// Its process on this machine, for what no device may.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Here { peer, .. } => peer.as_deref(),
            Self::Device(_) => None,
        }
    }

    /// The person at the other end, or the device; or the refusal that goes on record, naming the verb that a person would use.
    /// Whether a device had the right was asked before: see `rights`.
    pub(crate) fn person(&self, wait: &MayWait, shared: &DoorState, about: &str, verb: &str) -> Result<By, RpcError> {
        match self {
            Self::Here { peer, .. } => {
                let refused = |why| RpcError::new(ErrorKind::Refused, why).hint(format!("there: ostler {verb}"));
                shared.engine.person(wait, peer.as_deref(), about).map_err(refused)
            }
            Self::Device(guest) => Ok(By::Device { name: guest.name.clone(), signed: None }),
        }
    }

    /// Refuses a device that lacks this right; what is on this machine is judged elsewhere.
    pub(crate) fn needs(&self, shared: &DoorState, right: Right) -> Result<(), RpcError> {
        match self {
            Self::Here { .. } => Ok(()),
            Self::Device(guest) => shared.engine.guest_may(guest, right).map_err(|error| rights::refusal(&error)),
        }
    }
}
