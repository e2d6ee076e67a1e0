//! Who pushes, as push services want it shown (RFC 8292): a token signed by a key of this instance, which browsers were given
//! when they subscribed. Whoever has the key could ring, and say nothing: there is no payload.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ostler_workspace::{Durable, replace};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use ureq::http::Uri;

/// In the folder of the instance.
const FILE: &str = "push.key";
/// How long a token is good for; push services allow a day.
const GOOD_FOR: Duration = Duration::from_secs(12 * 3600);

pub(super) struct Vapid {
    file: PathBuf,
    /// Whom a push service may complain to.
    contact: String,
    /// Whoever is first makes the key, and the others get the same.
    making: Mutex<()>,
}

impl Vapid {
    pub(super) fn new(dir: &Path, contact: String) -> Self {
        Self { file: dir.join(FILE), contact, making: Mutex::default() }
    }

    /// The key's public half: an uncompressed point, in base64url. Made when there is none.
    pub(super) fn public(&self) -> io::Result<String> {
        self.key().map(|key| URL_SAFE_NO_PAD.encode(key.public_key().as_ref()))
    }

    fn key(&self) -> io::Result<EcdsaKeyPair> {
        let (random, bad) = (SystemRandom::new(), |_| io::Error::other(format!("{}: not a key", self.file.display())));
        let _only = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let document = match std::fs::read(&self.file) {
            Ok(document) => document,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                let made = made.map_err(|_| io::Error::other("the system gives no random numbers"))?;
                replace(&self.file, &self.file.with_extension("new"), made.as_ref(), Durable::Yes)?;
                made.as_ref().to_vec()
            }
            Err(error) => return Err(error),
        };
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &document, &random).map_err(bad)
    }

    /// What a request to this endpoint shows.
    pub(super) fn authorization(&self, endpoint: &Uri) -> io::Result<String> {
        let key = self.key()?;
        let until = SystemTime::now() + GOOD_FOR;
        let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let (scheme, authority) = (endpoint.scheme_str().unwrap_or("https"), endpoint.authority());
        let to = format!("{scheme}://{}", authority.map(|authority| authority.as_str()).unwrap_or_default());
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(serde_json::json!({"typ": "JWT", "alg": "ES256"}));
        let claims = part(serde_json::json!({"aud": to, "exp": until, "sub": self.contact}));
        let text = format!("{head}.{claims}");
        let signed = key.sign(&SystemRandom::new(), text.as_bytes());
        let signed = signed.map_err(|_| io::Error::other("the key of pushes signs nothing"))?;
        let public = URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
        Ok(format!("vapid t={text}.{}, k={public}", URL_SAFE_NO_PAD.encode(signed.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_token_names_its_push_service_and_is_signed_by_the_key_that_browsers_were_given() {
        let dir = tempfile::tempdir().unwrap();
        let vapid = Vapid::new(dir.path(), "mailto:me@example.com".into());
        let public = vapid.public().unwrap();
        let shown = vapid.authorization(&"https://push.example:444/send/x?y".parse().unwrap()).unwrap();
        let (token, key) = shown.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(key, public, "the same key, also from its file");
        let parts: Vec<&str> = token.split('.').collect();
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&decoded(parts[1])).unwrap();
        assert_eq!(
            (&claims["aud"], &claims["sub"]),
            (&"https://push.example:444".into(), &"mailto:me@example.com".into())
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!((now..now + 24 * 3600).contains(&claims["exp"].as_u64().unwrap()));
        let point = decoded(key);
        assert_eq!((point.len(), point[0]), (65, 4));
        let text = format!("{}.{}", parts[0], parts[1]);
        let verify = |text: &str| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).verify(text.as_bytes(), &decoded(parts[2]))
        };
        assert!(verify(&text).is_ok() && verify("other").is_err());
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(dir.path().join(FILE)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}
