//! A door as the program has it that ostler stands in for: the same whether that program runs an engine of its own or has
//! joined the one of `ostler up`, which it then hands the door's settings and listening socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ostler_engine::Engine;
use serde::{Deserialize, Serialize};

use super::cdev::OwnCdev;
use super::claustrum::OwnClaustrum;
use super::codecast::OwnCodecast;
use super::sudo_proxy::OwnSudoProxy;
use super::zeroclaw::OwnZeroclaw;
use super::{Ended, Serving};
use crate::daemon::Asked;
use crate::daemon::door_socket::DoorSocket;
use crate::daemon::joining::Relay;

/// A program's own door, open.
pub(crate) trait OwnDoor: Send {
    /// Serves whoever comes, until one of them or the door's own rule ends the program.
    fn serve(&mut self) -> Serving<'_>;

    /// What carries its questions to the program, where a person decides there.
    fn relay(&self) -> Option<Arc<Relay>> {
        None
    }

    /// Lets nobody in any more, ends what its document says where a stop was asked for, and what its clients still read. How
    /// many processes it let go of, if that is its way.
    fn end(self: Box<Self>, asked: Asked) -> Ended;
}

/// What a door must be told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Handed {
    Cdev { settings: ostler_door_cdev::Settings },
    Claustrum { config: ostler_door_claustrum::Config, keep_children: bool },
    Codecast { config: ostler_door_codecast::Config, settings: ostler_door_codecast::Settings },
    SudoProxy { settings: ostler_door_sudo_proxy::Settings },
    Zeroclaw { settings: ostler_door_zeroclaw::Settings, ephemeral: bool },
}

impl Handed {
    /// Why a daemon that others use does not open it. `same_umask`: as that of the program.
    pub(crate) fn objection(&self, same_umask: bool) -> Option<&'static str> {
        match self {
            // Whoever reaches the port would be let in, to everybody's sessions.
            Self::Cdev { settings } if settings.pairing.insecure => Some("anybody can pair a device here"),
            // An agent can write that file and its tokens, and would let other machines at everybody's sessions.
            Self::Codecast { config, .. } if config.is_open() => Some("other machines are let in here"),
            // Files are written by the daemon itself.
            Self::Claustrum { .. } if !same_umask => Some("another umask"),
            _ => None,
        }
    }

    /// Opens it at a socket that another process listens at.
    pub(crate) fn open(self, engine: Engine, socket: OwnedFd) -> io::Result<Box<dyn OwnDoor>> {
        Ok(match self {
            Self::Cdev { settings } => Box::new(OwnCdev::open(engine, socket.into(), settings)?),
            Self::Claustrum { config, keep_children } => {
                Box::new(OwnClaustrum::open(engine, DoorSocket::handed(socket, "".as_ref())?, config, keep_children))
            }
            Self::Codecast { config, settings } => {
                let ready = ostler_door_codecast::Ready::read(&config)?;
                Box::new(OwnCodecast::open(engine, socket.into(), settings, ready)?)
            }
            Self::SudoProxy { settings } => {
                Box::new(OwnSudoProxy::open(engine, DoorSocket::handed(socket, "".as_ref())?, settings))
            }
            Self::Zeroclaw { settings, ephemeral } => {
                let socket = DoorSocket::handed(socket, &settings.socket)?;
                Box::new(OwnZeroclaw::open(engine, socket, settings, ephemeral))
            }
        })
    }
}
