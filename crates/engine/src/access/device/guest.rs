//! A device that has come: by an access token, or by signing the challenge of its connection. What it may do is looked up with
//! each request, so that what is revoked ends at once.

use std::net::IpAddr;

use ostler_story::{By, Signed};

use super::DeviceError;
use super::key::Challenge;
use super::roster::{Grant, HeldDevice, Lifetimes, NotIn};
use super::{Right, Rights};
use crate::approval::clock;
use crate::{Caller, Engine, MayWait};

/// Who shows a code, a link, a token or a signature, as the listener found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// Where it is; behind a proxy that is trusted, what that says.
    pub address: IpAddr,
    /// What program it is. [`Caller::Elsewhere`] only for what is truly not of this machine, or a tunnel's daemon.
    pub caller: Caller,
}

impl Visitor {
    /// Whether it is a program of this machine.
    pub(super) fn is_here(&self) -> bool {
        self.caller != Caller::Elsewhere
    }
}

/// What a device must have to call a method of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// Nothing: it tells nothing and changes nothing, or a device may always do it for itself.
    Nothing,
    /// This right. Some methods look further, at what they are asked to do.
    Right(Right),
    /// It is for a person at a terminal of the machine itself: no device may.
    Person,
}

/// A device on one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its id.
    pub id: String,
    /// What it was called when it came.
    pub name: String,
    /// What program it is.
    pub caller: Caller,
}

/// An answer that a device signed. The text says what is answered; what stands beside it counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedAnswer {
    /// What was signed.
    pub text: String,
    /// `r` and `s`, in base64url.
    pub signature: String,
    /// Until when it may count, in milliseconds since 1970, as the text says.
    pub until_ms: u64,
}

impl Engine {
    /// Turns away whoever may not act as a device, and records that.
    pub(crate) fn check_visitor(&self, wait: &MayWait, visitor: &Visitor, about: &str) -> Result<(), DeviceError> {
        let error = match &visitor.caller {
            Caller::Elsewhere => return Ok(()),
            Caller::Free => match self.locked() {
                None => return Ok(()),
                Some(why) => DeviceError::Locked(why),
            },
            Caller::Hosted(host) => DeviceError::Hosted(host.clone()),
            Caller::Unknown => DeviceError::Unknown,
        };
        self.turned_away(wait, visitor, about, &error);
        Err(error)
    }

    /// Whether somebody is to be heard who has shown nothing yet: nobody who is hosted, or hides, and that goes on record.
    pub fn may_arrive(&self, wait: &MayWait, visitor: &Visitor) -> Result<(), DeviceError> {
        match visitor.caller {
            Caller::Hosted(_) | Caller::Unknown => self.check_visitor(wait, visitor, "devices"),
            Caller::Free | Caller::Elsewhere => Ok(()),
        }
    }

    /// Records who was turned away; of many, how many.
    pub(crate) fn turned_away(&self, wait: &MayWait, visitor: &Visitor, about: &str, why: &dyn std::fmt::Display) {
        let who = match &visitor.caller {
            Caller::Hosted(host) => format!("{host} at {}", visitor.address),
            _ => visitor.address.to_string(),
        };
        if let Err(error) = self.inbox().attempted(wait, about, who, why.to_string()) {
            tracing::error!("a device that was turned away could not be recorded: {error}");
        }
    }

    /// Whoever shows this access token.
    pub fn authenticate(&self, wait: &MayWait, access: &str, visitor: &Visitor) -> Result<Guest, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let roster = self.inbox().roster();
        match roster.with_access(access, clock::wall_ms()) {
            Ok(held) => {
                self.inbox().device_seen(wait, &held.device.id, &visitor.address.to_string())?;
                Ok(self.came(held, visitor))
            }
            Err(why) => Err(self.not_in(wait, why, visitor)),
        }
    }

    /// New tokens for a refresh token, which is used up. One that comes twice revokes its device, unless the answer to the
    /// first time was lost: soon after it, and nobody has used what it held.
    pub fn refresh(
        &self,
        wait: &MayWait,
        refresh: &str,
        lifetimes: Lifetimes,
        visitor: &Visitor,
    ) -> Result<Grant, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let fresh = Grant::fresh(Some(refresh), lifetimes, clock::wall_ms()).map_err(DeviceError::Random)?;
        match self.inbox().renew(wait, refresh, fresh, lifetimes.forgive_ms, visitor.address.to_string())? {
            Ok(grant) => Ok(grant),
            Err(why) => Err(self.not_in(wait, why, visitor)),
        }
    }

    /// Puts out the device whose refresh token this is; it may always put out itself. One that was used before does so too, and
    /// is told that it did.
    pub fn revoke_by_refresh(&self, wait: &MayWait, refresh: &str, visitor: &Visitor) -> Result<String, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let roster = self.inbox().roster();
        let Some((held, is_newest)) = roster.of_family(refresh) else {
            return Err(self.not_in(wait, NotIn::Nobody, visitor));
        };
        let by = By::Device { name: held.device.name.clone(), signed: None };
        let why = if is_newest { "revoked by itself" } else { "revoked by a refresh token that was used before" };
        self.inbox().revoke_devices(wait, std::slice::from_ref(&held.device.id), why, by)?;
        if is_newest { Ok(held.device.id.clone()) } else { Err(self.not_in(wait, NotIn::Reused, visitor)) }
    }

    /// What a device with a key is asked to sign, for one connection.
    pub fn challenge(&self) -> Result<Challenge, DeviceError> {
        Challenge::fresh().map_err(DeviceError::Random)
    }

    /// The device that signed this challenge, for the host that it believes to talk to; `host` is the one it came to.
    pub fn prove(
        &self,
        wait: &MayWait,
        challenge: Challenge,
        device: &str,
        signature: &str,
        host: &str,
        visitor: &Visitor,
    ) -> Result<Guest, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let (roster, now) = (self.inbox().roster(), clock::wall_ms());
        let text = challenge.to_sign(device, host);
        let signed = |held: &&HeldDevice| held.device.key.as_ref().is_some_and(|key| key.signed(&text, signature));
        let held = roster.standing(device, now).and_then(|held| Some(held).filter(signed).ok_or(NotIn::Nobody));
        match held {
            Ok(held) => {
                self.inbox().device_seen(wait, device, &visitor.address.to_string())?;
                Ok(self.came(held, visitor))
            }
            Err(why) => Err(self.not_in(wait, why, visitor)),
        }
    }

    fn came(&self, held: &HeldDevice, visitor: &Visitor) -> Guest {
        self.inner.pairing.saw(&held.device.id, clock::wall_ms(), visitor.address.to_string());
        Guest { id: held.device.id.clone(), name: held.device.name.clone(), caller: visitor.caller.clone() }
    }

    fn not_in(&self, wait: &MayWait, why: NotIn, visitor: &Visitor) -> DeviceError {
        let error = DeviceError::from(why);
        // An access token that has run out is every phone's daily bread.
        if why != NotIn::Expired {
            self.turned_away(wait, visitor, "devices", &error);
        }
        error
    }

    /// What a guest may do now; nothing once it was revoked.
    pub fn rights_of(&self, guest: &Guest) -> Rights {
        let roster = self.inbox().roster();
        roster.standing(&guest.id, clock::wall_ms()).map_or(Rights::NONE, |held| held.device.rights)
    }

    /// Whether a guest may do this now.
    pub fn guest_may(&self, guest: &Guest, right: Right) -> Result<(), DeviceError> {
        let roster = self.inbox().roster();
        let held = roster.standing(&guest.id, clock::wall_ms())?;
        if held.device.rights.has(right) { Ok(()) } else { Err(DeviceError::Right(right)) }
    }

    /// Where notices for a guest are pushed to: from now on there, or nowhere.
    pub fn subscribe_guest(&self, wait: &MayWait, guest: &Guest, endpoint: Option<String>) -> Result<(), DeviceError> {
        self.inbox().subscribe_device(wait, &guest.id, endpoint)
    }

    /// A push service says that nobody is there any more; what the device named since stays.
    pub fn subscription_gone(&self, wait: &MayWait, device: &str, endpoint: &str) -> Result<(), DeviceError> {
        let named = self.inbox().roster().get(device).and_then(|held| held.endpoint.clone());
        match named.as_deref() == Some(endpoint) {
            true => self.inbox().subscribe_device(wait, device, None),
            false => Ok(()),
        }
    }

    /// Records that a guest was refused; of many, how many.
    pub fn guest_refused(&self, wait: &MayWait, guest: &Guest, about: &str, why: &str) {
        if let Err(lost) = self.inbox().attempted(wait, about, format!("device {}", guest.name), why.to_owned()) {
            tracing::error!("a refused device could not be recorded: {lost}");
        }
    }

    /// Comes back when the guest may do nothing any more: its connections end then.
    pub async fn until_revoked(&self, guest: &Guest) {
        let mut revision = self.inbox().revision();
        let stands = || self.inbox().roster().standing(&guest.id, clock::wall_ms()).is_ok();
        while stands() {
            // The inbox goes with the engine.
            if revision.changed().await.is_err() {
                return;
            }
        }
    }

    /// A guest as the one who decides. Where it has a key, the answer must be signed by it. Whether it may give this answer the
    /// inbox says; see [`Roster::may_decide`](super::roster::Roster::may_decide).
    pub fn guest_decides(
        &self,
        wait: &MayWait,
        guest: &Guest,
        answer: Option<SignedAnswer>,
        about: &str,
    ) -> Result<By, DeviceError> {
        let refused = |error: DeviceError| {
            self.guest_refused(wait, guest, about, &error.to_string());
            error
        };
        if let Some(why) = self.locked() {
            return Err(refused(DeviceError::Locked(why)));
        }
        let (roster, now) = (self.inbox().roster(), clock::wall_ms());
        let held = roster.standing(&guest.id, now).map_err(|why| refused(why.into()))?;
        let signed = match (&held.device.key, answer) {
            (None, _) => None,
            (Some(_), None) => return Err(refused(DeviceError::Unsigned("this device signs its answers"))),
            (Some(key), Some(answer)) => {
                if !key.signed(&answer.text, &answer.signature) {
                    return Err(refused(DeviceError::Unsigned("the answer is not signed by this device's key")));
                }
                if now > answer.until_ms {
                    return Err(refused(DeviceError::Unsigned(
                        "the answer came too late; is the device's clock right?",
                    )));
                }
                Some(Signed { text: answer.text, signature: answer.signature })
            }
        };
        Ok(By::Device { name: held.device.name.clone(), signed })
    }
}
