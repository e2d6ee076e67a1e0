//! Secrets that let somebody in. Each is random and shown once; what is kept is its hash, and comparing takes the same time for
//! every guess.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// 256 bits: nobody guesses one, so tries need not be counted.
const BYTES: usize = 32;
/// Letters of the end that follows from the rest: nobody who slips, or tries, hits it by chance.
const SEAL: usize = 8;
/// A code has six digits, so that a person can type it.
const CODES: u32 = 1_000_000;

/// A secret on its way to whoever it is for. It is in no log and in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn fresh() -> io::Result<Self> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random::<BYTES>()?)))
    }

    /// Two in one: the first stays the same for a device, so that one of the second that is not the newest is known as an old one.
    pub(super) fn joined(family: &Self, own: &Self) -> Self {
        Self(format!("{}.{}", family.0, own.0))
    }

    /// The second of such two. Its end follows from the rest, so that what somebody made up is told from what was given once.
    pub(super) fn of_family(family: &Self) -> io::Result<Self> {
        let own = Self::fresh()?.0;
        let seal = seal(&family.0, &own);
        Ok(Self(own + &seal))
    }

    /// One that came back.
    pub(super) fn again(shown: &str) -> Self {
        Self(shown.to_owned())
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// As it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Whether the second part may have been given with this first one.
pub(super) fn was_given(family: &str, own: &str) -> bool {
    let parts = own.len().checked_sub(SEAL).and_then(|at| own.split_at_checked(at));
    parts.is_some_and(|(own, end)| end == seal(family, own))
}

fn seal(family: &str, own: &str) -> String {
    let digest = Sha256::digest(format!("{family}.{own}").as_bytes());
    let mut text = URL_SAFE_NO_PAD.encode(digest);
    text.truncate(SEAL);
    text
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Six digits, each as likely as every other.
pub(super) fn code() -> io::Result<Secret> {
    loop {
        let number = u32::from_le_bytes(random()?);
        // The last piece of the range is shorter than the others, and would favour small numbers.
        if number < u32::MAX - u32::MAX % CODES {
            return Ok(Secret(format!("{:06}", number % CODES)));
        }
    }
}

/// What is kept of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(shown: &str) -> Self {
        Self(Sha256::digest(shown.as_bytes()).into())
    }

    /// Whether they are of one secret.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("not a hash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_random_and_not_in_debug_output() {
        let (one, two) = (Secret::fresh().unwrap(), Secret::fresh().unwrap());
        assert_eq!(one.reveal().len(), 43);
        assert_ne!(one, two);
        assert!(!format!("{one:?} {:?}", one.digest()).contains(one.reveal()));
        assert!(one.digest().is(&Digest::of(one.reveal())) && !one.digest().is(&two.digest()));
    }

    #[test]
    fn a_code_has_six_digits() {
        for _ in 0..200 {
            let code = code().unwrap();
            assert!(code.reveal().len() == 6 && code.reveal().bytes().all(|byte| byte.is_ascii_digit()));
        }
    }

    #[test]
    fn what_is_kept_comes_back_from_the_disk_and_holds_no_secret() {
        let secret = Secret::fresh().unwrap();
        let text = serde_json::to_string(&secret.digest()).unwrap();
        assert!(!text.contains(secret.reveal()));
        assert!(serde_json::from_str::<Digest>(&text).unwrap().is(&secret.digest()));
        assert!(serde_json::from_str::<Digest>("\"short\"").is_err());
    }
}
