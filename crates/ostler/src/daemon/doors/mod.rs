//! The doors of `ostler up`, beside the native one. A door is a file here that knows where it is found and what it is told;
//! what it says and hears is its crate's. To add one, write the file, add its line to [`DOORS`] and its setting to
//! `doors` in the configuration.

mod cdev;
mod claustrum;
mod codecast;
mod own;
mod sudo_proxy;
mod web;
mod zeroclaw;

use std::pin::Pin;
use std::sync::Arc;

use ostler_door_native as native;
use ostler_door_web::{Arrived, Exposure, Router};

use super::host::{Host, HostError};
use super::{Asked, Options};
use crate::instances::DoorRecord;

pub(crate) use cdev::{OwnCdev, cdev_record};
pub(crate) use codecast::OwnCodecast;
pub(crate) use own::{Handed, OwnDoor};
pub(crate) use sudo_proxy::sudo_proxy_settings;
pub(crate) use zeroclaw::OwnZeroclaw;

/// What a door does until it is dropped.
pub(super) type Doing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The same, and what its clients ask of the program around it.
pub(super) type Serving<'a> = Pin<Box<dyn Future<Output = Asked> + Send + 'a>>;

/// The end of a program's own door, and how many processes it let go of.
pub(super) type Ended = Pin<Box<dyn Future<Output = Option<usize>> + Send>>;

/// Another way to a door, on the port for devices.
#[derive(Clone)]
pub(super) struct Entrance {
    /// Whose clients come there.
    clients: &'static str,
    path: &'static str,
    /// What answers them.
    router: Arc<dyn Fn(Arc<Exposure>, Arrived) -> Router + Send + Sync>,
}

/// An open door.
pub(super) trait Door: Send {
    /// Opens it, where the settings want it and it has a place.
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError>
    where
        Self: Sized;

    /// What its own files ask for and a person has to confirm: a name and a value.
    fn loosening(_options: &Options) -> Option<(String, String)>
    where
        Self: Sized,
    {
        None
    }

    /// What it is called, where it is, and how to connect.
    fn describe(&self) -> DoorRecord;

    /// Where a browser finds the page, if it is here.
    fn page(&self) -> Option<String> {
        None
    }

    /// Where it is found on the port for devices, if it is.
    fn entrance(&self) -> Option<Entrance> {
        None
    }

    /// Takes the entrances of the others, if this is that port.
    fn add_entrances(&mut self, _: &[Entrance]) {}

    /// Serves whoever comes; `native` is the door of the command line, which may have another entrance here.
    fn serve<'a>(&'a mut self, host: &'a Host, native: &'a native::Door) -> Doing<'a>;

    /// Lets nobody in any more, and ends what its clients still read.
    fn close(self: Box<Self>) -> Doing<'static> {
        Box::pin(std::future::ready(()))
    }
}

/// A door, if it is wanted and has a place.
type Opened = Result<Option<Box<dyn Door>>, HostError>;

/// What is known of a door that is not open.
struct Kind {
    name: &'static str,
    open: fn(&Options, &Host) -> Opened,
    loosening: fn(&Options) -> Option<(String, String)>,
}

const fn kind<D: Door + 'static>(name: &'static str) -> Kind {
    Kind {
        name,
        open: |options, host| Ok(D::open(options, host)?.map(|door| Box::new(door) as Box<dyn Door>)),
        loosening: D::loosening,
    }
}

/// Every door, in the order in which they are listed.
const DOORS: &[Kind] = &[
    kind::<cdev::Cdev>("cdev"),
    kind::<claustrum::Claustrum>("claustrum"),
    kind::<codecast::Codecast>("codecast"),
    kind::<sudo_proxy::SudoProxy>("sudo-proxy"),
    kind::<web::WebPort>("web"),
    kind::<zeroclaw::Zeroclaw>("zeroclaw"),
];

/// What they are called.
pub(crate) fn door_names() -> impl Iterator<Item = &'static str> {
    DOORS.iter().map(|kind| kind.name)
}

/// What files of doors ask for and a person has to confirm.
pub(super) fn loosening(options: &Options) -> impl Iterator<Item = (String, String)> {
    DOORS.iter().filter_map(|kind| (kind.loosening)(options))
}

/// The doors that are open.
pub(super) struct Doors(Vec<Box<dyn Door>>);

impl Doors {
    /// Opens those that are wanted.
    pub(super) fn open(options: &Options, host: &Host) -> Result<Self, HostError> {
        let opened = DOORS.iter().filter_map(|kind| (kind.open)(options, host).transpose());
        let mut doors = opened.collect::<Result<Vec<_>, _>>()?;
        let entrances: Vec<Entrance> = doors.iter().filter_map(|door| door.entrance()).collect();
        doors.iter_mut().for_each(|door| door.add_entrances(&entrances));
        Ok(Self(doors))
    }

    pub(super) fn describe(&self) -> Vec<DoorRecord> {
        self.0.iter().map(|door| door.describe()).collect()
    }

    /// Where a browser finds the page.
    pub(super) fn page(&self) -> Option<String> {
        self.0.iter().find_map(|door| door.page())
    }

    /// Serves at all of them, until one ends.
    pub(super) async fn serve(&mut self, host: &Host, native: &native::Door) {
        let mut serving: Vec<Doing<'_>> = self.0.iter_mut().map(|door| door.serve(host, native)).collect();
        std::future::poll_fn(|context| match serving.iter_mut().any(|door| door.as_mut().poll(context).is_ready()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        })
        .await;
    }

    pub(super) async fn close(self) {
        let closing: Vec<_> = self.0.into_iter().map(Door::close).collect();
        for door in closing {
            door.await;
        }
    }
}
