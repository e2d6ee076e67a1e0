//! The tokens of auth mode. Only their hashes are kept in memory, and comparing takes the same time for every guess.

use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::yaml;

/// More than anybody hands out.
const TOKENS_MAX: usize = 1024;

/// Every token that lets somebody in.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// Those of a file, which may be missing: then nobody comes in without being our own user.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = match yaml::read(path)? {
            Some(text) => text,
            None => return Ok(Self::default()),
        };
        let tokens = yaml::tokens(&text).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
        Ok(Self::of(tokens.iter().map(String::as_str).take(TOKENS_MAX)))
    }

    pub(crate) fn of<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Self {
        let worth = tokens.into_iter().map(str::trim).filter(|token| !token.is_empty());
        Self(worth.map(|token| Sha256::digest(token.as_bytes()).into()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them. Looks at all, whichever it is.
    pub(crate) fn know(&self, token: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(token).into();
        self.0.iter().fold(subtle::Choice::from(0), |found, token| found | token.ct_eq(&shown)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tokens_as_the_head_node_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.yaml");
        assert!(Tokens::read(&path).unwrap().is_empty());
        std::fs::write(
            &path,
            "tokens:\n- token: ccast_ab\n  label: t\n  created: '2026-01-01T00:00:00+00:00'\n- token: second\n",
        )
        .unwrap();
        let tokens = Tokens::read(&path).unwrap();
        assert!(tokens.know(b"ccast_ab") && tokens.know(b"second"));
        for bad in [&b""[..], b"ccast_a", b"ccast_abc", b"t", b"CCAST_AB"] {
            assert!(!tokens.know(bad), "{bad:?}");
        }
    }

    #[test]
    fn an_empty_token_lets_nobody_in() {
        assert!(Tokens::of(["", "  "]).is_empty());
        assert!(!Tokens::of([""]).know(b""));
    }

    #[test]
    fn a_file_that_does_not_read_is_an_error_not_an_open_door() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.yaml");
        std::fs::write(&path, "tokens: [").unwrap();
        assert!(Tokens::read(&path).is_err());
    }
}
