//! The key of a device that has one (a browser's, which it cannot take out either): ECDSA over P-256 with SHA-256, as WebCrypto
//! speaks it. It signs the challenge of each connection, and each answer.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// An uncompressed point of P-256.
const POINT: usize = 65;
/// What an uncompressed point begins with.
const UNCOMPRESSED: u8 = 4;

/// A public key: the uncompressed point, in base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey(String);

impl PublicKey {
    /// The key that this text is, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == POINT && bytes.first() == Some(&UNCOMPRESSED)).then(|| Self(text.to_owned()))
    }

    /// Whether its holder signed this; `signature` is `r` and `s` one after the other, in base64url.
    pub fn signed(&self, text: &str, signature: &str) -> bool {
        let (Ok(key), Ok(signature)) = (URL_SAFE_NO_PAD.decode(&self.0), URL_SAFE_NO_PAD.decode(signature)) else {
            return false;
        };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(text.as_bytes(), &signature).is_ok()
    }
}

/// What one connection asks its device to sign; it belongs to that connection and is used once.
#[derive(Debug)]
pub struct Challenge(Secret);

impl Challenge {
    /// One that nobody has seen.
    pub fn fresh() -> io::Result<Self> {
        Secret::fresh().map(Self)
    }

    /// As it is sent.
    pub fn text(&self) -> &str {
        self.0.reveal()
    }

    /// What is to be signed. The host is the one that the device believes to talk to, so that nobody passes a challenge on.
    pub fn to_sign(&self, device: &str, host: &str) -> String {
        format!("ostler connect\n{}\n{device}\n{host}", self.text())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    /// The key of a browser.
    pub(crate) struct Browser(EcdsaKeyPair);

    impl Browser {
        pub(crate) fn new() -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
            Self(pair.unwrap())
        }

        pub(crate) fn public(&self) -> PublicKey {
            PublicKey::parse(&URL_SAFE_NO_PAD.encode(self.0.public_key())).unwrap()
        }

        pub(crate) fn sign(&self, text: &str) -> String {
            URL_SAFE_NO_PAD.encode(self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap())
        }
    }

    #[test]
    fn only_the_holder_of_the_key_signs_and_only_what_was_signed_counts() {
        let (own, other) = (Browser::new(), Browser::new());
        let signature = own.sign("yes");
        assert!(own.public().signed("yes", &signature));
        assert!(!own.public().signed("no", &signature));
        assert!(!other.public().signed("yes", &signature));
        assert!(!own.public().signed("yes", "") && !own.public().signed("yes", "%%%"));
    }

    #[test]
    fn what_is_no_point_is_no_key() {
        assert!(PublicKey::parse("").is_none() && PublicKey::parse(&"A".repeat(87)).is_none());
        assert!(PublicKey::parse("not base64!").is_none());
    }

    #[test]
    fn a_challenge_names_the_device_and_the_host() {
        let (one, two) = (Challenge::fresh().unwrap(), Challenge::fresh().unwrap());
        assert_ne!(one.to_sign("d1", "box"), two.to_sign("d1", "box"));
        assert_ne!(one.to_sign("d1", "box"), one.to_sign("d1", "evil"));
        assert_ne!(one.to_sign("d1", "box"), one.to_sign("d2", "box"));
    }
}
