//! Pairings that are under way: what a person offered, who came for it, and whether they were let in. In memory only: a hash of
//! six digits is no secret to who can read the file. A daemon that dies takes them along, and the person offers again.
//!
//! An offer has a code, a link, or both, and is used once: the code is exchanged for a ticket, and whoever has the ticket or the
//! link claims the offer, says what it is, and asks again until a person has decided. Pure: the clock is passed in.

use std::io;

use ostler_story::By;

use super::Rights;
use super::key::PublicKey;
use super::roster::Lifetimes;
use super::secret::{self, Digest, Secret};

/// Pairings that may be under way at once: each code makes guessing that much easier.
const OFFERS_MAX: usize = 8;
/// Of one protocol whose clients ask for themselves: each look at its page is one, and the oldest that nobody came for goes.
const OF_PROTOCOL_MAX: usize = 64;
/// Of those, how many may have a code.
const CODES_OF_PROTOCOL_MAX: usize = 4;
/// How long a settled offer can still be asked about.
const SETTLED_MS: u64 = 60_000;

/// When a person is asked whether the device that came is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Whatever it is.
    Always,
    /// Where it is no program of this machine.
    Elsewhere,
    /// Not at all: only for a protocol whose user said that.
    Never,
}

/// What is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What the device will be called; else it says so itself.
    pub name: Option<String>,
    /// What it will be allowed to do.
    pub rights: Rights,
    /// How long the offer stands, in milliseconds.
    pub stands_ms: u64,
    /// Whether there is a code to be typed. A link there is always.
    pub code: bool,
    /// Whether a device that has no key to keep is given all of it. Else it is given less.
    pub keyless: bool,
    /// When a person is asked once more, once the device is there.
    pub asks: Asks,
    /// How long its tokens are good for, if it has no key.
    pub lifetimes: Lifetimes,
}

/// An offer, as whoever made it gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// `o` and twelve letters.
    pub id: String,
    /// Six digits.
    pub code: Option<Secret>,
    /// What the link has behind its `#`.
    pub link: Secret,
    /// How long it stands, in milliseconds.
    pub stands_ms: u64,
}

/// What a device says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    /// What it would be called.
    pub name: String,
    /// Its key, where it can keep one.
    pub key: Option<PublicKey>,
}

/// Where an offer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has come.
    Open,
    /// Somebody has, and waits for a person.
    Claimed,
    /// A person let it in; it has not come back for that yet.
    Admitted,
    /// A person refused it, or took the offer back.
    Refused,
    /// It is paired, as the device with this id.
    Paired(String),
    /// Nobody came in time, or it did not come back.
    Expired,
}

/// An offer as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferView {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub standing: Standing,
    /// What the device will be allowed to do.
    pub rights: Rights,
    /// What it will be called, or what the one who came calls itself.
    pub name: Option<String>,
    /// Where the one who came is.
    pub address: Option<String>,
    /// How long ago they came, in milliseconds.
    pub waited_ms: u64,
    /// The protocol that offered it by itself, because its user said so.
    pub protocol: Option<String>,
    /// How long it still stands, in milliseconds.
    pub left_ms: u64,
}

/// Why nothing came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// There is no such code, link or offer.
    #[error("this code or link is wrong, was used, or has expired; get another at the machine itself")]
    Nobody,
    /// Too many are under way.
    #[error("too many pairings are under way; finish one first")]
    TooMany,
    /// A person said no.
    #[error("refused at the machine itself")]
    Refused,
    /// Somebody else came with what was another's.
    #[error("this link was opened by another device already")]
    Another,
    /// Whoever decides has less than is offered.
    #[error("nobody can give rights that they do not have")]
    MoreThanOwn,
    /// Nobody waits there.
    #[error("no device waits for this")]
    NotClaimed,
}

/// What comes of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// A person is asked.
    Waits { offer: String, left_ms: u64 },
    /// It may be paired, on these terms, because of this person.
    Goes { offer: String, terms: Terms, by: By },
}

#[derive(Debug)]
struct Offer {
    id: String,
    code: Option<Digest>,
    ticket: Digest,
    terms: Terms,
    by: By,
    /// The protocol that offered it by itself.
    protocol: Option<String>,
    until: u64,
    standing: Standing,
    came: Option<(Introduction, String)>,
    came_at: u64,
    /// It is being written down: nobody else gets it meanwhile.
    taken: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Offers(Vec<Offer>);

impl Offers {
    /// Makes an offer for somebody who has these rights.
    pub(super) fn make(&mut self, terms: Terms, by: By, own: Rights, now: u64) -> Result<Offered, MakeError> {
        self.tidy(now);
        if !own.cover(terms.rights) {
            return Err(OfferError::MoreThanOwn.into());
        }
        self.make_room(&by, terms.code)?;
        let (id, link) = (crate::id::offer()?, Secret::fresh()?);
        let code = if terms.code { Some(self.free_code()?) } else { None };
        let offered = Offered { id: id.clone(), code: code.clone(), link: link.clone(), stands_ms: terms.stands_ms };
        self.0.push(Offer {
            id,
            code: code.map(|code| code.digest()),
            ticket: link.digest(),
            until: now + terms.stands_ms,
            terms,
            protocol: protocol(&by).map(str::to_owned),
            by,
            standing: Standing::Open,
            came: None,
            came_at: now,
            taken: false,
        });
        Ok(offered)
    }

    /// Sees that one more can be under way. What a person offered stays; what a protocol did makes room for newer.
    fn make_room(&mut self, by: &By, code: bool) -> Result<(), OfferError> {
        let Some(protocol) = protocol(by) else {
            let under_way = self.0.iter().filter(|offer| !offer.is_settled() && offer.protocol().is_none()).count();
            return if under_way < OFFERS_MAX { Ok(()) } else { Err(OfferError::TooMany) };
        };
        for of_codes in [false, true].into_iter().take(if code { 2 } else { 1 }) {
            let most = if of_codes { CODES_OF_PROTOCOL_MAX } else { OF_PROTOCOL_MAX };
            let counts = |offer: &Offer| {
                let own = !offer.is_settled() && offer.protocol() == Some(protocol);
                own && (!of_codes || offer.code.is_some())
            };
            if self.0.iter().filter(|offer| counts(offer)).count() >= most {
                let oldest = self.0.iter().position(|offer| counts(offer) && offer.standing == Standing::Open);
                self.0.remove(oldest.ok_or(OfferError::TooMany)?);
            }
        }
        Ok(())
    }

    /// A code that no other offer has.
    fn free_code(&self) -> io::Result<Secret> {
        loop {
            let code = secret::code()?;
            let digest = code.digest();
            if !self.0.iter().any(|offer| offer.code.is_some_and(|other| other.is(&digest))) {
                return Ok(code);
            }
        }
    }

    /// Exchanges a code for a ticket, and says how long that is good. Neither the code nor the link works from now on.
    pub(super) fn use_code(&mut self, code: &str, now: u64) -> Result<(Secret, u64), MakeError> {
        self.tidy(now);
        let shown = Digest::of(code);
        let is = |offer: &&mut Offer| offer.code.is_some_and(|code| code.is(&shown)) && !offer.is_settled();
        // Looks at all, whichever it is.
        let offer = self.0.iter_mut().filter(is).last().ok_or(OfferError::Nobody)?;
        let ticket = Secret::fresh()?;
        (offer.code, offer.ticket) = (None, ticket.digest());
        Ok((ticket, offer.until.saturating_sub(now)))
    }

    /// Somebody comes with a ticket or a link, for the first time or again. `here`: a program of this machine.
    pub(super) fn claim(
        &mut self,
        ticket: &str,
        who: &Introduction,
        address: &str,
        here: bool,
        now: u64,
    ) -> Result<Claim, OfferError> {
        self.tidy(now);
        let shown = Digest::of(ticket);
        let offer = self.0.iter_mut().filter(|offer| offer.ticket.is(&shown)).last().ok_or(OfferError::Nobody)?;
        match &offer.came {
            Some((first, _)) if first != who => return Err(OfferError::Another),
            Some(_) => {}
            // Who comes when it is over brings nothing back.
            None if offer.is_settled() => {}
            None => {
                (offer.came, offer.came_at) = (Some((who.clone(), address.to_owned())), now);
                // The person who made the link sits at this machine; whoever is elsewhere could be anybody who read it.
                let asked = match offer.terms.asks {
                    Asks::Always => true,
                    Asks::Elsewhere => !here,
                    Asks::Never => false,
                };
                offer.standing = if asked { Standing::Claimed } else { Standing::Admitted };
                offer.code = None;
            }
        }
        match offer.standing {
            Standing::Claimed => Ok(Claim::Waits { offer: offer.id.clone(), left_ms: offer.until.saturating_sub(now) }),
            Standing::Admitted if !offer.taken => {
                Ok(Claim::Goes { offer: offer.id.clone(), terms: offer.terms.clone(), by: offer.by.clone() })
            }
            Standing::Refused => Err(OfferError::Refused),
            Standing::Admitted | Standing::Open | Standing::Paired(_) | Standing::Expired => Err(OfferError::Nobody),
        }
    }

    /// A person lets in who waits. They grant no more than they have.
    pub(super) fn admit(&mut self, id: &str, by: By, own: Rights, now: u64) -> Result<(), OfferError> {
        self.tidy(now);
        let offer = self.decided_by(id, &by)?;
        if offer.standing != Standing::Claimed {
            return Err(OfferError::NotClaimed);
        }
        if !own.cover(offer.terms.rights) {
            return Err(OfferError::MoreThanOwn);
        }
        (offer.standing, offer.by) = (Standing::Admitted, by);
        Ok(())
    }

    /// A person refuses who waits, or takes the offer back. Gives who had come.
    pub(super) fn refuse(&mut self, id: &str, by: &By, now: u64) -> Result<Option<(Introduction, String)>, OfferError> {
        self.tidy(now);
        let offer = self.decided_by(id, by)?;
        if offer.is_settled() {
            return Err(OfferError::NotClaimed);
        }
        offer.settle(Standing::Refused, now);
        Ok(offer.came.clone())
    }

    /// It is paired now: nothing of the offer works any more.
    pub(super) fn paired(&mut self, id: &str, device: String, now: u64) {
        if let Ok(offer) = self.find(id) {
            offer.settle(Standing::Paired(device), now);
        }
    }

    /// Whether this may still be paired: asked again while the device is being written down, so that it happens once.
    pub(super) fn take(&mut self, id: &str) -> bool {
        let Ok(offer) = self.find(id) else { return false };
        let goes = offer.standing == Standing::Admitted && !offer.taken;
        offer.taken |= goes;
        goes
    }

    /// It could not be written down: the device may try again.
    pub(super) fn give_back(&mut self, id: &str) {
        if let Ok(offer) = self.find(id) {
            offer.taken = false;
        }
    }

    pub(super) fn views(&self, now: u64) -> Vec<OfferView> {
        self.0.iter().map(|offer| offer.view(now)).collect()
    }

    /// The offer, for whoever decides about it: a client of a protocol only about what that protocol offered.
    fn decided_by(&mut self, id: &str, by: &By) -> Result<&mut Offer, OfferError> {
        let offer = self.find(id)?;
        match protocol(by) {
            Some(own) if offer.protocol() != Some(own) => Err(OfferError::Nobody),
            _ => Ok(offer),
        }
    }

    fn find(&mut self, id: &str) -> Result<&mut Offer, OfferError> {
        self.0.iter_mut().find(|offer| offer.id == id).ok_or(OfferError::Nobody)
    }

    /// What nobody came for in time is over, and what is over is forgotten after a while.
    fn tidy(&mut self, now: u64) {
        for offer in self.0.iter_mut().filter(|offer| !offer.is_settled() && now >= offer.until) {
            offer.settle(Standing::Expired, now);
        }
        self.0.retain(|offer| !offer.is_settled() || now < offer.until);
    }
}

/// The protocol that asks for itself.
fn protocol(by: &By) -> Option<&str> {
    match by {
        By::Client { door, .. } => Some(door),
        _ => None,
    }
}

impl Offer {
    /// The protocol that offered it.
    fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Refused | Standing::Paired(_) | Standing::Expired)
    }

    fn settle(&mut self, standing: Standing, now: u64) {
        (self.standing, self.code, self.until) = (standing, None, now + SETTLED_MS);
    }

    fn view(&self, now: u64) -> OfferView {
        let late = !self.is_settled() && now >= self.until;
        let came = self.came.as_ref();
        OfferView {
            id: self.id.clone(),
            standing: if late { Standing::Expired } else { self.standing.clone() },
            rights: self.terms.rights,
            name: self.terms.name.clone().or_else(|| came.map(|(who, _)| who.name.clone())),
            address: came.map(|(_, address)| address.clone()),
            waited_ms: came.map_or(0, |_| now.saturating_sub(self.came_at)),
            protocol: self.protocol.clone(),
            left_ms: if self.is_settled() { 0 } else { self.until.saturating_sub(now) },
        }
    }
}

/// Why no offer was made, or no code taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum MakeError {
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] io::Error),
}
