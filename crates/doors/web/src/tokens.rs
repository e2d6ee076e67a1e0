//! The tokens that let somebody in. Only their hashes are kept in memory, and comparing takes the same time for every guess.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// More than anybody hands out.
const TOKENS_MAX: usize = 1024;

/// Every token that lets somebody in.
#[derive(Debug, Default)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// These; blank ones are none.
    pub fn of<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Self {
        let worth = tokens.into_iter().take(TOKENS_MAX).map(str::trim).filter(|token| !token.is_empty());
        Self(worth.map(|token| Sha256::digest(token.as_bytes()).into()).collect())
    }

    /// Whether nobody can come in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them. Looks at all, whichever it is.
    pub fn know(&self, token: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(token).into();
        self.0.iter().fold(subtle::Choice::from(0), |found, token| found | token.ct_eq(&shown)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_whole_or_not_at_all() {
        let tokens = Tokens::of(["ccast_ab", "second"]);
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
}
