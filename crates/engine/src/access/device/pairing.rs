//! From an offer to a device. Each step asks who takes it: offers are made and accepted at a person's place, or by a device with
//! the right to admit others; codes and links are redeemed by anybody but hosted processes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_story::By;

use super::Rights;
use super::backoff::Backoff;
use super::offers::{Claim, MakeError, Offers};
use super::roster::DEVICES_MAX;
use super::{
    Device, DeviceError, Grant, Guest, HeldDevice, Introduction, OfferError, OfferView, Offered, Preset, Right, Secret,
    Terms, Visitor,
};
use crate::approval::clock;
use crate::{Engine, MayWait, Peer};

/// A name is shown in lists.
const NAME_MAX: usize = 64;
/// What an unnamed device is called.
const UNNAMED: &str = "device";

/// Who offers and admits.
#[derive(Debug, Clone, Copy)]
pub enum Admitter<'a> {
    /// Whoever is at the other end of a socket of this machine, who has to be a person at a terminal of their own.
    Here(Option<&'a Peer>),
    /// A device.
    Device(&'a Guest),
    /// Whoever asks a protocol whose user lets its clients pair: a program of this machine that nobody hosts.
    Protocol {
        /// Who that is.
        visitor: &'a Visitor,
        /// The protocol.
        name: &'a str,
        /// Its user said that others than programs of this machine may, too.
        anybody: bool,
    },
}

/// What a code was exchanged for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Redeemed as a link is.
    pub secret: Secret,
    /// How long it is good, in milliseconds.
    pub left_ms: u64,
}

/// A device that was just paired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paired {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    /// It has no key to sign with, so it was given less than was offered.
    pub limited: bool,
    /// Its tokens, if it has no key.
    pub grant: Option<Grant>,
}

/// What comes of a link or a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed {
    /// A person is asked; come again with the same.
    Waits {
        /// What the person sees it as.
        offer: String,
        /// How long that takes at most, in milliseconds.
        left_ms: u64,
    },
    /// It is paired.
    Paired(Paired),
}

/// What is under way; in memory only.
#[derive(Default)]
pub(crate) struct Pairing {
    offers: Mutex<Offers>,
    backoff: Mutex<Backoff>,
    /// When and where each device was last, since the audit noted it.
    seen: Mutex<HashMap<String, (u64, String)>>,
}

impl Pairing {
    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn saw(&self, device: &str, now: u64, address: String) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= DEVICES_MAX && !seen.contains_key(device) {
            // Those of devices that are long gone; who is left out is shown as the audit has it.
            seen.clear();
        }
        seen.insert(device.to_owned(), (now, address));
    }
}

impl Engine {
    /// The person or device that admits others, and what they can give. Who may not is recorded.
    fn admitter(&self, wait: &MayWait, who: Admitter<'_>) -> Result<(By, Rights), DeviceError> {
        match who {
            Admitter::Here(peer) => match self.person(wait, peer, "devices") {
                Ok(by) => Ok((by, Rights::all())),
                Err(why) => Err(DeviceError::NotAPerson(why)),
            },
            Admitter::Device(guest) => {
                let refused = |error: DeviceError| {
                    self.guest_refused(wait, guest, "devices", &error.to_string());
                    error
                };
                if let Some(why) = self.locked() {
                    return Err(refused(DeviceError::Locked(why)));
                }
                self.guest_may(guest, Right::AdmitDevices).map_err(refused)?;
                Ok((By::Device { name: guest.name.clone(), signed: None }, self.rights_of(guest)))
            }
            Admitter::Protocol { visitor, name, anybody } => {
                self.check_visitor(wait, visitor, "devices")?;
                let why = match self.locked() {
                    Some(why) => DeviceError::Locked(why),
                    None if anybody || visitor.is_here() => {
                        let by = By::Client { door: name.to_owned(), uid: rustix::process::geteuid().as_raw() };
                        return Ok((by, Preset::Work.rights()));
                    }
                    None => DeviceError::NotAPerson("devices are paired at the machine itself".to_owned()),
                };
                self.turned_away(wait, visitor, "devices", &why);
                Err(why)
            }
        }
    }

    /// Whether somebody may let others in, and see who waits. Who may not is recorded.
    pub fn may_admit(&self, wait: &MayWait, who: Admitter<'_>) -> Result<(), DeviceError> {
        self.admitter(wait, who).map(drop)
    }

    /// Offers a place to a device. Only a person, or a device with the right to.
    pub fn offer(&self, wait: &MayWait, who: Admitter<'_>, terms: Terms) -> Result<Offered, DeviceError> {
        let (by, own) = self.admitter(wait, who)?;
        let terms = Terms { name: terms.name.map(|name| clean(&name)), ..terms };
        let offered = self.inner.pairing.offers().make(terms, by, own, clock::boot_ms())?;
        Ok(offered)
    }

    /// Exchanges a code for a ticket, which is redeemed as a link is.
    pub fn redeem_code(&self, wait: &MayWait, code: &str, visitor: &Visitor) -> Result<Ticket, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let now = clock::boot_ms();
        self.inner.pairing.backoff().may_try(visitor.address, now).map_err(|wait| DeviceError::TooOften { wait })?;
        let found = self.inner.pairing.offers().use_code(code, now);
        match found {
            Ok((secret, left_ms)) => {
                self.inner.pairing.backoff().was_right(visitor.address);
                Ok(Ticket { secret, left_ms })
            }
            Err(error) => {
                self.inner.pairing.backoff().was_wrong(visitor.address, now);
                let error = error.into();
                self.turned_away(wait, visitor, "devices", &error);
                Err(error)
            }
        }
    }

    /// Claims an offer by its link, or by the ticket for its code; comes back with the same until a person has decided.
    pub fn redeem_link(
        &self,
        wait: &MayWait,
        link: &str,
        who: Introduction,
        visitor: &Visitor,
    ) -> Result<Redeemed, DeviceError> {
        self.check_visitor(wait, visitor, "devices")?;
        let (pairing, now) = (&self.inner.pairing, clock::boot_ms());
        let who = Introduction { name: clean(&who.name), key: who.key };
        let address = visitor.address.to_string();
        let claim = pairing.offers().claim(link, &who, &address, visitor.is_here(), now);
        let (offer, terms, by) = match claim {
            Ok(Claim::Waits { offer, left_ms }) => return Ok(Redeemed::Waits { offer, left_ms }),
            Ok(Claim::Goes { offer, terms, by }) => (offer, terms, by),
            Err(error) => {
                let error = DeviceError::from(error);
                self.turned_away(wait, visitor, "devices", &error);
                return Err(error);
            }
        };
        // Of two that ask at once, one goes.
        if !pairing.offers().take(&offer) {
            return Err(OfferError::Nobody.into());
        }
        let paired = self.pair(wait, terms, by, who, address);
        match &paired {
            Ok(paired) => pairing.offers().paired(&offer, paired.id.clone(), now),
            Err(_) => pairing.offers().give_back(&offer),
        }
        paired.map(Redeemed::Paired)
    }

    fn pair(
        &self,
        wait: &MayWait,
        terms: Terms,
        by: By,
        who: Introduction,
        address: String,
    ) -> Result<Paired, DeviceError> {
        // A browser that has a key can keep it from everybody; a token in its storage it cannot.
        let most = if who.key.is_some() || terms.keyless { Rights::all() } else { Preset::Answer.rights() };
        let rights = terms.rights.within(most);
        let limited = rights != terms.rights;
        let fresh = match &who.key {
            Some(_) => None,
            None => Some(Grant::fresh(None, terms.lifetimes, clock::wall_ms()).map_err(DeviceError::Random)?),
        };
        let (grant, tokens) = fresh.unzip();
        let name = terms.name.filter(|name| !name.is_empty()).unwrap_or(who.name);
        let id = crate::id::device().map_err(DeviceError::Random)?;
        let device = Device { id, name, rights, key: who.key, by };
        let Device { id, name, .. } = self.inbox().pair(wait, device, tokens, address)?;
        Ok(Paired { id, name, rights, limited, grant })
    }

    /// Lets in who waits for this offer.
    pub fn admit(&self, wait: &MayWait, who: Admitter<'_>, offer: &str) -> Result<(), DeviceError> {
        let (by, own) = self.admitter(wait, who)?;
        self.inner.pairing.offers().admit(offer, by, own, clock::boot_ms())?;
        Ok(())
    }

    /// Refuses who waits for this offer, or takes the offer back.
    pub fn refuse(&self, wait: &MayWait, who: Admitter<'_>, offer: &str) -> Result<(), DeviceError> {
        let (by, _) = self.admitter(wait, who)?;
        let came = self.inner.pairing.offers().refuse(offer, &by, clock::boot_ms())?;
        if let Some((who, address)) = came {
            self.inbox().attempted(
                wait,
                "devices",
                format!("{} at {address}", who.name),
                format!("refused by {by}"),
            )?;
        }
        Ok(())
    }

    /// Pairings that are under way or were settled a moment ago.
    pub fn offers(&self) -> Vec<OfferView> {
        self.inner.pairing.offers().views(clock::boot_ms())
    }

    /// Every device, with when and where it was last.
    pub fn devices(&self) -> Vec<HeldDevice> {
        let roster = self.inbox().roster();
        let seen = self.inner.pairing.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let with = |held: &HeldDevice| {
            let mut held = held.clone();
            if let Some((at, address)) = seen.get(&held.device.id).filter(|(at, _)| *at > held.seen_at) {
                (held.seen_at, held.address) = (*at, address.clone());
            }
            held
        };
        roster.iter().map(with).collect()
    }

    /// Puts a device out, by its name or id; a device may always put out itself.
    pub fn revoke_device(&self, wait: &MayWait, who: Admitter<'_>, device: &str) -> Result<HeldDevice, DeviceError> {
        let roster = self.inbox().roster();
        let held = roster.get(device).or_else(|| roster.named(device)).cloned();
        let held = held.ok_or_else(|| DeviceError::NotFound(device.to_owned()))?;
        let by = match who {
            Admitter::Device(guest) if guest.id == held.device.id => {
                By::Device { name: guest.name.clone(), signed: None }
            }
            who => self.admitter(wait, who)?.0,
        };
        self.inbox().revoke_devices(wait, std::slice::from_ref(&held.device.id), "revoked", by)?;
        Ok(held)
    }

    /// Puts out all devices; gives how many.
    pub fn revoke_all_devices(&self, wait: &MayWait, who: Admitter<'_>) -> Result<usize, DeviceError> {
        let by = self.admitter(wait, who)?.0;
        let ids: Vec<String> = self.inbox().roster().iter().map(|held| held.device.id.clone()).collect();
        Ok(self.inbox().revoke_devices(wait, &ids, "revoked with all others", by)?)
    }

    /// Devices with these digests count again; for a person at a terminal only. Gives their names.
    pub fn affirm_devices(
        &self,
        wait: &MayWait,
        peer: Option<&Peer>,
        digests: &[String],
    ) -> Result<Vec<String>, DeviceError> {
        let by = self.person(wait, peer, "devices").map_err(DeviceError::NotAPerson)?;
        Ok(self.inbox().affirm_devices(wait, digests, by)?)
    }
}

impl Engine {
    /// Devices that a protocol paired unasked count again. Only for a protocol that pairs every program of this machine unasked
    /// and nobody else: it would pair them anew at once, and nobody elsewhere could use a token that was made up in the file.
    pub fn affirm_devices_of(&self, wait: &MayWait, protocol: &str) -> Result<Vec<String>, DeviceError> {
        let roster = self.inbox().roster();
        let own = |held: &&HeldDevice| {
            held.suspended
                && Preset::Work.rights().cover(held.device.rights)
                && matches!(&held.device.by, By::Client { door, .. } if door == protocol)
        };
        let digests: Vec<String> = roster.iter().filter(own).map(HeldDevice::digest).collect();
        if digests.is_empty() {
            return Ok(Vec::new());
        }
        let by = By::Client { door: protocol.to_owned(), uid: rustix::process::geteuid().as_raw() };
        Ok(self.inbox().affirm_devices(wait, &digests, by)?)
    }
}

impl From<MakeError> for DeviceError {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Offer(error) => error.into(),
            MakeError::Random(error) => Self::Random(error),
        }
    }
}

/// A name as it can be shown: one line, no signs that a terminal obeys, not too long.
fn clean(name: &str) -> String {
    let shown: String = name.chars().filter(|sign| !sign.is_control()).take(NAME_MAX).collect();
    match shown.trim() {
        "" => UNNAMED.to_owned(),
        name => name.to_owned(),
    }
}
