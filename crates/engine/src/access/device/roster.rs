//! The devices that are paired, as the sum of what the audit says of them. Pure: the clock is passed in, and what is to be
//! written is given back.
//!
//! A device that nobody vouches for is suspended like a rule: it is listed, and shows who it is in vain.

use std::collections::BTreeMap;

use ostler_story::{By, Decision};
use serde::{Deserialize, Serialize};

use super::key::PublicKey;
use super::secret::{Digest, Secret, was_given};
use super::{Right, Rights};
use crate::approval::{Record, content_hash};

/// More than anybody has. Each costs some hundred bytes, and a look at each token compares with all of them.
pub(crate) const DEVICES_MAX: usize = 256;
/// A device with a key that was not seen for so long has to be paired again.
const IDLE_MS: u64 = 90 * 24 * 3600 * 1000;
/// How often it is noted that one with a key was here.
const NOTE_EVERY_MS: u64 = 3600 * 1000;
/// An answer that was lost on its way: so long the refresh token before may be shown again, if nobody has used what it was
/// exchanged for. A minute: a phone tries again at once, or when it has a network again.
const GRACE_MS: u64 = 60_000;
/// What a device has written of itself, new tokens and where it is pushed to, waits for the disk and stays in the audit: so much
/// at once, and then one entry in this time.
const ENTRIES: u64 = 32;
const ENTRY_EVERY_MS: u64 = 60_000;

/// A device as it was paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `d` and twelve letters.
    pub id: String,
    /// What people call it; no two that are paired have the same.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    /// Its key; without one it shows tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Who let it in.
    pub by: By,
}

/// What is kept of the tokens of a device: hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The part that every refresh token of the device begins with.
    family: Digest,
    /// The part that changes.
    refresh: Digest,
    /// The one that was exchanged for it; nothing in what older programs wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Digest>,
    /// Until when it may be used, in milliseconds since 1970.
    refresh_until: u64,
    access: Digest,
    access_until: u64,
}

/// How long tokens are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// An access token, in milliseconds.
    pub access_ms: u64,
    /// A refresh token.
    pub refresh_ms: u64,
    /// How soon after its use a refresh token may come again without its device being put out: an answer can be lost on its way
    /// to a phone. It is refused all the same.
    pub forgive_ms: u64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { access_ms: 15 * 60 * 1000, refresh_ms: 30 * 24 * 3600 * 1000, forgive_ms: 0 }
    }
}

/// Tokens as the device gets them, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Shown with every request.
    pub access: Secret,
    /// Until when, in milliseconds since 1970.
    pub access_until: u64,
    /// Good for one more of these.
    pub refresh: Secret,
    /// Until when.
    pub refresh_until: u64,
}

impl Grant {
    /// Fresh tokens, and what is kept of them. `shown` is the refresh token that they are exchanged for, whatever it is.
    pub(crate) fn fresh(shown: Option<&str>, lifetimes: Lifetimes, now: u64) -> std::io::Result<(Self, Tokens)> {
        let access = Secret::fresh()?;
        let (family, before) = match shown.and_then(|shown| shown.split_once('.')) {
            Some((family, before)) => (Secret::again(family), Some(Digest::of(before))),
            None => (Secret::fresh()?, None),
        };
        let own = Secret::of_family(&family)?;
        let (access_until, refresh_until) = (now + lifetimes.access_ms, now + lifetimes.refresh_ms);
        let (access_kept, refresh_kept) = (access.digest(), own.digest());
        let family_kept = family.digest();
        let tokens = Tokens {
            family: family_kept,
            refresh: refresh_kept,
            before,
            refresh_until,
            access: access_kept,
            access_until,
        };
        Ok((Self { access, access_until, refresh: Secret::joined(&family, &own), refresh_until }, tokens))
    }
}

/// A device, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDevice {
    /// The device.
    pub device: Device,
    pub(crate) tokens: Option<Tokens>,
    /// When it was paired, in milliseconds since 1970.
    pub paired_at: u64,
    /// When it was last noted to be there.
    pub seen_at: u64,
    /// From where.
    pub address: String,
    /// Where notices are pushed to.
    pub endpoint: Option<String>,
    /// Nobody vouches for it: it may do nothing until a person affirms it.
    pub suspended: bool,
    /// When its tokens were renewed, for the first time since somebody used them.
    renewed_at: u64,
    /// Nobody has used the new ones.
    unused: bool,
    /// The time up to which its entries are spent; it runs ahead of the clock by at most `ENTRIES`.
    spent: u64,
}

impl HeldDevice {
    /// When it has to be paired again unless it comes before.
    pub fn until(&self) -> u64 {
        self.tokens.map_or(self.seen_at.saturating_add(IDLE_MS), |tokens| tokens.refresh_until)
    }

    /// SHA-256 of what a person affirms, in hex.
    pub fn digest(&self) -> String {
        // Text, numbers and hashes: there is nothing that could fail.
        content_hash(&serde_json::to_string(&(&self.device, &self.tokens, self.paired_at)).unwrap_or_default())
    }

    /// Whether this refresh token was exchanged for the newest one.
    fn was_exchanged_for(&self, shown: &str) -> bool {
        let own = shown.split_once('.').map(|(_, own)| Digest::of(own));
        self.tokens.and_then(|tokens| tokens.before).zip(own).is_some_and(|(before, own)| before.is(&own))
    }

    /// One more entry is its own doing.
    fn spend(&mut self, now: u64) {
        self.spent = self.spent.max(now) + ENTRY_EVERY_MS;
    }

    /// Whether it may have one more written.
    pub(crate) fn may_spend(&self, now: u64) -> Result<(), NotIn> {
        if self.spent < now + ENTRIES * ENTRY_EVERY_MS { Ok(()) } else { Err(NotIn::TooOften) }
    }

    fn counts(&self, now: u64) -> Result<(), NotIn> {
        match () {
            () if self.suspended => Err(NotIn::Suspended),
            () if now >= self.until() => Err(NotIn::Expired),
            () => Ok(()),
        }
    }
}

/// Why a device is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotIn {
    /// No such token, key or device.
    #[error("this device is not paired here, or not any more")]
    Nobody,
    /// Its time is over.
    #[error("this token has expired")]
    Expired,
    /// Nobody vouches for it.
    #[error("this device waits to be affirmed at the machine itself: ostler devices affirm")]
    Suspended,
    /// A refresh token came a second time, so somebody else has it too.
    #[error("this refresh token was used before, so the device was revoked; pair it again")]
    Reused,
    /// A refresh token came again at once.
    #[error("this refresh token was used a moment ago; use the one that it was exchanged for")]
    Again,
    /// Too many entries in a row.
    #[error("too many changes of this device in a row; wait a minute")]
    TooOften,
}

/// What a refresh token is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The newest of this device, or the one before it whose answer may have been lost.
    Good(String),
    /// An older one of this device.
    Old(String),
}

/// All devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    all: BTreeMap<String, HeldDevice>,
}

impl Roster {
    /// Adds what the audit says.
    pub(crate) fn take(&mut self, record: &Record, at_ms: u64) {
        match record {
            Record::DevicePaired { device, tokens, address } => {
                let held = HeldDevice {
                    device: device.clone(),
                    tokens: *tokens,
                    paired_at: at_ms,
                    seen_at: at_ms,
                    address: address.clone(),
                    endpoint: None,
                    suspended: false,
                    renewed_at: at_ms,
                    unused: false,
                    spent: 0,
                };
                self.all.insert(device.id.clone(), held);
            }
            Record::DeviceRenewed { device, tokens, address } => {
                if let Some(held) = self.all.get_mut(device) {
                    (held.tokens, held.seen_at, held.address) = (Some(*tokens), at_ms, address.clone());
                    // Who shows the old one once more has no more time than before.
                    held.renewed_at = if held.unused { held.renewed_at } else { at_ms };
                    held.unused = true;
                    held.spend(at_ms);
                }
            }
            Record::DeviceSeen { device, address } => {
                if let Some(held) = self.all.get_mut(device) {
                    (held.seen_at, held.address, held.unused) = (at_ms, address.clone(), false);
                }
            }
            Record::DeviceSubscribed { device, endpoint } => {
                if let Some(held) = self.all.get_mut(device) {
                    held.endpoint.clone_from(endpoint);
                    held.spend(at_ms);
                }
            }
            Record::DeviceRevoked { device, .. } => drop(self.all.remove(device)),
            Record::DevicesAffirmed { devices, .. } => {
                let seen = self.all.values_mut().filter(|held| devices.contains(&held.device.id));
                seen.for_each(|held| held.suspended = false);
            }
            // Nobody vouches for where notices go, either: the device says so again when it comes.
            Record::Suspended => {
                self.all.values_mut().for_each(|held| (held.suspended, held.endpoint) = (true, None));
            }
            _ => {}
        }
    }

    /// Whether a record made something that is still so: a checkpoint keeps it.
    pub(crate) fn needs(&self, record: &Record, at_ms: u64) -> bool {
        match record {
            Record::DevicePaired { device, .. } => self.all.contains_key(&device.id),
            Record::DeviceRenewed { device, tokens, .. } => {
                self.all.get(device).is_some_and(|held| held.tokens.as_ref() == Some(tokens))
            }
            Record::DeviceSeen { device, .. } => self.all.get(device).is_some_and(|held| held.seen_at == at_ms),
            Record::DeviceSubscribed { device, endpoint } => {
                endpoint.is_some() && self.all.get(device).is_some_and(|held| held.endpoint == *endpoint)
            }
            Record::DevicesAffirmed { devices, .. } => devices.iter().any(|id| self.all.contains_key(id)),
            _ => false,
        }
    }

    /// Whether it is to be noted that a device is here: now and then that of one with a key, and the first use of new tokens.
    pub(crate) fn is_due(&self, id: &str, now: u64) -> bool {
        let late = |held: &HeldDevice| now >= held.seen_at.saturating_add(NOTE_EVERY_MS);
        self.all.get(id).is_some_and(|held| match held.device.key {
            Some(_) => late(held),
            None => held.unused,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HeldDevice> {
        self.all.values()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&HeldDevice> {
        self.all.get(id)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&HeldDevice> {
        self.all.values().find(|held| held.device.name == name)
    }

    /// The device with this id, if it may come in.
    pub(crate) fn standing(&self, id: &str, now: u64) -> Result<&HeldDevice, NotIn> {
        let held = self.all.get(id).ok_or(NotIn::Nobody)?;
        held.counts(now).map(|()| held)
    }

    /// The device with such tokens. Looks at all, whichever it is.
    fn whose(&self, is: impl Fn(&Tokens) -> bool) -> Option<&HeldDevice> {
        self.all.values().fold(None, |found, held| match held.tokens.as_ref().is_some_and(&is) {
            true => Some(held),
            false => found,
        })
    }

    /// Whose access token this is.
    pub(crate) fn with_access(&self, shown: &str, now: u64) -> Result<&HeldDevice, NotIn> {
        let shown = Digest::of(shown);
        let held = self.whose(|tokens| tokens.access.is(&shown)).ok_or(NotIn::Nobody)?;
        held.counts(now)?;
        let good = held.tokens.is_some_and(|tokens| now < tokens.access_until);
        if good { Ok(held) } else { Err(NotIn::Expired) }
    }

    /// Whose refresh token this is, and whether it is the newest. An old one is known by its first part, however old it is; one that
    /// was never given is nobody's.
    pub(crate) fn of_family(&self, shown: &str) -> Option<(&HeldDevice, bool)> {
        let (family, own) = shown.split_once('.')?;
        let (known, newest) = (Digest::of(family), Digest::of(own));
        let held = self.whose(|tokens| tokens.family.is(&known))?;
        let is_newest = held.tokens.is_some_and(|tokens| tokens.refresh.is(&newest));
        let was_given = is_newest || held.was_exchanged_for(shown) || was_given(family, own);
        was_given.then_some((held, is_newest))
    }

    /// What this refresh token is. An old one that comes so soon after its use is just refused.
    pub(crate) fn with_refresh(&self, shown: &str, forgive_ms: u64, now: u64) -> Result<Refresh, NotIn> {
        let (held, is_newest) = self.of_family(shown).ok_or(NotIn::Nobody)?;
        let id = held.device.id.clone();
        // Who forgives refuses all the same; else an answer that was lost is given once more.
        let since_renewed = |span: u64| now < held.renewed_at.saturating_add(span);
        match () {
            () if is_newest => {}
            () if since_renewed(forgive_ms) => return Err(NotIn::Again),
            () if forgive_ms == 0 && held.unused && since_renewed(GRACE_MS) && held.was_exchanged_for(shown) => {}
            () => return Ok(Refresh::Old(id)),
        }
        held.counts(now)?;
        held.may_spend(now).map(|()| Refresh::Good(id))
    }

    /// A name that no other device has, like this one.
    pub(crate) fn free_name(&self, wanted: &str) -> String {
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| self.named(name).is_none()).unwrap_or_else(|| wanted.to_owned())
    }

    /// Whether a device may say this to a request; the reason if not. The only place that says so.
    pub(crate) fn may_decide(
        &self,
        by: &By,
        privileged: bool,
        decision: &Decision,
        now: u64,
    ) -> Result<(), &'static str> {
        let By::Device { name, signed } = by else { return Ok(()) };
        let held = self.named(name).filter(|held| held.counts(now).is_ok());
        let held = held.ok_or("this device is not paired here, or waits to be affirmed")?;
        let rights = held.device.rights;
        let lasts = matches!(decision, Decision::Session | Decision::Always);
        match () {
            () if lasts && !rights.has(Right::AnswerLastingly) => {
                Err("this device may answer once, not for a session or for good")
            }
            () if !lasts && !rights.has(Right::AnswerOnce) => Err("this device may not answer"),
            () if privileged && decision.is_yes() && !rights.has(Right::AnswerPrivileged) => {
                Err("this device may not approve what runs as another user; use a terminal of your own")
            }
            () if held.device.key.is_some() && signed.is_none() => {
                Err("this device signs its answers, and this one is not signed")
            }
            () => Ok(()),
        }
    }

    /// The same for making or revoking a rule.
    pub(crate) fn may_rule(&self, by: &By, privileged: bool, now: u64) -> Result<(), &'static str> {
        let By::Device { name, .. } = by else { return Ok(()) };
        let held = self.named(name).filter(|held| held.counts(now).is_ok());
        let rights = held.map_or(Rights::NONE, |held| held.device.rights);
        let wanted = [Some(Right::AnswerLastingly), privileged.then_some(Right::AnswerPrivileged)];
        match wanted.into_iter().flatten().all(|right| rights.has(right)) {
            true => Ok(()),
            false => Err("this device may not make such a rule"),
        }
    }
}
