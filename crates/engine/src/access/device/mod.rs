//! Devices: who is far away, how they become known, and what they may do.
//!
//! # Theory of operation
//! A person, or a device with the right to admit others, makes an offer ([`offers`]): a link, and a code to be typed. Whoever
//! comes with one of them claims the offer; a person is asked once more unless it is a program of this machine that opened a
//! link. Then the device is paired: one record of the audit says what it is called, what it may do ([`Rights`]), and the key or
//! the hashes of the tokens by which it shows who it is. The sum of those records is the [`roster`], published with every
//! change, so that whoever only looks never waits.
//!
//! Nobody is let in because of an address. The listener says who is at the other end, and a hosted process that shows a code, a
//! link or a token is turned away and recorded, whatever it shows. Rows in the file are vouched for as rules are: see
//! `approval::vouch`.

mod backoff;
mod guest;
pub(crate) mod key;
mod offers;
#[cfg(test)]
mod offers_tests;
mod pairing;
pub(crate) mod roster;
mod secret;
mod tailnet;

use std::time::Duration;

pub use guest::{Guest, Required, SignedAnswer, Visitor};
pub use key::{Challenge, PublicKey};
pub use offers::{Asks, Introduction, OfferError, OfferView, Offered, Standing, Terms};
pub(crate) use pairing::Pairing;
pub use pairing::{Admitter, Paired, Redeemed, Ticket};
pub use roster::{Device, Grant, HeldDevice, Lifetimes, NotIn, Tokens};
pub use secret::Secret;
pub use tailnet::Tailnet;

pub use ostler_story::{NoRight, Preset, Right, Rights};

use crate::approval::StoreError;

/// Why a device was not served.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// It is a hosted process that shows it.
    #[error("programs that run in ostler ({0}) cannot act as a device")]
    Hosted(String),
    /// Nobody knows what program shows it.
    #[error("cannot check which program is calling, so it cannot act as a device")]
    Unknown,
    /// Only a person decides this.
    #[error("{0}")]
    NotAPerson(String),
    /// Nobody can tell who is hosted.
    #[error("{0}")]
    Locked(&'static str),
    /// Codes are tried too fast.
    #[error("too many wrong codes; try again in {} s", wait.as_secs().max(1))]
    TooOften {
        /// How long to wait.
        wait: Duration,
    },
    /// The offer is not there, or not for it.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// It is not let in.
    #[error(transparent)]
    NotIn(#[from] NotIn),
    /// It may not do this.
    #[error("this device may not do that (it has no right to `{0}`)")]
    Right(Right),
    /// What it says is not signed by its key.
    #[error("{0}")]
    Unsigned(&'static str),
    /// There are too many devices.
    #[error("too many devices are paired; revoke some: ostler devices revoke NAME")]
    TooMany,
    /// No device is called that.
    #[error("no device is called {0:?}")]
    NotFound(String),
    /// It could not be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
}
