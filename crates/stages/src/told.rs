//! Waiting for the word that lets a runner go. Whoever else writes to its stdin knows another one, and ends it.

use std::io::BufRead;

use sha2::{Digest, Sha256};

use crate::capture::hex;

/// Longer than any word; more is none.
const WORD_MAX: u64 = 256;

/// Waits for a line; whether it is the one with this hash.
pub(crate) fn waits_for(sha256_hex: &str, source: impl BufRead) -> bool {
    let mut line = Vec::new();
    let read = source.take(WORD_MAX).read_until(b'\n', &mut line);
    let word = line.strip_suffix(b"\n");
    read.is_ok() && word.is_some_and(|word| hex(&Sha256::digest(word)) == sha256_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_lets_go() {
        let hash = hex(&Sha256::digest(b"word"));
        let tell = |text: &str| waits_for(&hash, text.as_bytes());
        assert!(tell("word\n") && tell("word\nand more"));
        for other in ["", "\n", "word", "wor\n", "words\n", " word\n", "go\nword\n", &hash] {
            assert!(!tell(other), "{other:?}");
        }
        assert!(!tell(&format!("{}word\n", "x".repeat(300))));
    }
}
