//! Who vouches for the log. Whoever can write the file can write entries with right hashes, so hashes alone prove nothing: the
//! daemon has a random key that no file ever holds, signs the last entry of every commit with it, and has the keeper remember
//! key and head. The next daemon gets both from the keeper; a keeper that is lost is replaced by one that the daemon tells.
//! When both are lost nobody can vouch for what is in the file, and nothing in it grants anything until a person affirms it.

use std::io;

use sha2::{Digest, Sha256};

use super::chain::{HASH_LEN, Hash};

/// As long as what it makes.
const KEY_LEN: usize = 32;
/// SHA-256 works on blocks of this size.
const BLOCK: usize = 64;
/// What the keeper is given: the key, a position, a hash.
const ENCODED: usize = KEY_LEN + 8 + HASH_LEN;

const _: () = assert!(ENCODED <= ostler_keeper::ENTRUSTED_MAX);

/// The key, and the last entry that somebody else remembers too.
#[derive(Clone)]
pub(super) struct Vouch {
    key: [u8; KEY_LEN],
    pub(super) head: (u64, Hash),
}

impl Vouch {
    /// With a key that nobody had before.
    pub(super) fn fresh() -> io::Result<Self> {
        let mut key = [0; KEY_LEN];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { key, head: (0, [0; HASH_LEN]) })
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<KEY_LEN>()?;
        let (seq, hash) = rest.split_first_chunk::<8>()?;
        Some(Self { key: *key, head: (u64::from_le_bytes(*seq), hash.try_into().ok()?) })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.key[..], &self.head.0.to_le_bytes(), &self.head.1].concat()
    }

    /// What is stored with an entry that this key wrote: HMAC-SHA-256 over its position and its hash, which covers all before.
    pub(super) fn sign(&self, seq: u64, hash: &Hash) -> Hash {
        let mut pads = [[0x36; BLOCK], [0x5c; BLOCK]];
        for pad in &mut pads {
            pad.iter_mut().zip(self.key).for_each(|(byte, key)| *byte ^= key);
        }
        let [inner, outer] = pads;
        let inner = Sha256::new().chain_update(inner).chain_update(seq.to_le_bytes()).chain_update(hash).finalize();
        Sha256::new().chain_update(outer).chain_update(inner).finalize().into()
    }
}

/// Tells somebody; must not wait.
type Tell = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Who else remembers the head: what they gave us, and how they are told.
pub(crate) struct Witness {
    given: Vec<u8>,
    tell: Tell,
}

impl Witness {
    /// `given` is what the daemon before us left with it; `tell` must not wait.
    pub(crate) fn new(given: Vec<u8>, tell: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self { given, tell: Box::new(tell) }
    }

    pub(super) fn vouch(&self) -> Option<Vouch> {
        Vouch::decode(&self.given)
    }

    pub(super) fn tell(&self, vouch: &Vouch) {
        (self.tell)(&vouch.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_hmac_that_everybody_computes() {
        // RFC 4231 has no message of 40 bytes; this one was computed with Python's hmac.
        let vouch = Vouch { key: [7; KEY_LEN], head: (0, [0; HASH_LEN]) };
        let want = "55d56861e6dc654db55e2f78d2b6fb18dcfc383aebbbe88f1d21262e1bd3ce4b";
        assert_eq!(crate::approval::hex(&vouch.sign(5, &[9; HASH_LEN])), want);
    }

    #[test]
    fn what_is_handed_over_comes_back_and_anything_else_is_nothing() {
        let mut vouch = Vouch::fresh().unwrap();
        vouch.head = (9, [3; HASH_LEN]);
        let back = Vouch::decode(&vouch.encode()).unwrap();
        assert_eq!((back.key, back.head), (vouch.key, vouch.head));
        assert!(Vouch::decode(&[]).is_none());
        assert!(Vouch::decode(&vouch.encode()[1..]).is_none());
        assert_ne!(Vouch::fresh().unwrap().key, vouch.key);
    }
}
