//! Names under which secrets are kept. A name is a hint and no more: nothing is refused because of it.

/// Endings of keys and stores of keys.
const ENDINGS: [&[u8]; 7] = [b".env", b".key", b".pem", b".p12", b".pfx", b".jks", b".keystore"];
/// Whole names.
const NAMES: [&[u8]; 5] = [b".netrc", b".npmrc", b".pypirc", b".htpasswd", b".git-credentials"];
/// Files of settings that are nothing but secrets: stem and endings.
const STEMS: [&[u8]; 2] = [b"credentials", b"secrets"];
const STEM_ENDINGS: [&[u8]; 4] = [b"", b".json", b".yaml", b".yml"];
/// Private keys of SSH; their public halves are none.
const SSH: [&[u8]; 4] = [b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519"];

/// Whether a file of this name may hold secrets.
pub(super) fn is_sensitive(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_slice();
    let stem = |stem: &&[u8]| name.strip_prefix(*stem).is_some_and(|rest| STEM_ENDINGS.contains(&rest));
    let ssh = |key: &&[u8]| name.strip_prefix(*key).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"_"));
    name == b".env"
        || name.starts_with(b".env.")
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || NAMES.contains(&name)
        || STEMS.iter().any(stem)
        || (SSH.iter().any(ssh) && !name.ends_with(b".pub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_and_their_neighbours_are_not() {
        for name in
            [".env", ".env.local", "prod.env", "server.key", "a.PEM", "credentials.json", "secrets.yml", "id_rsa"]
        {
            assert!(is_sensitive(name.as_bytes()), "{name}");
        }
        for name in ["environment", "keys.rs", "id_rsa.pub", "secrets.rs", "credentials_test.py", ".envrc", "monkey"] {
            assert!(!is_sensitive(name.as_bytes()), "{name}");
        }
    }
}
