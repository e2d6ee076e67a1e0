//! Waiting for the word that lets a runner go. Whoever else writes to its stdin knows another one, and ends it.

use std::io::BufRead;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::capture::hex;
use crate::child::timespec;

/// Longer than any word; more is none.
const WORD_MAX: u64 = 256;
/// Longer than any question waits for its answer: who is not told by then never will be.
const TOLD_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Waits until there is something to read.
pub(crate) fn comes_in_time(source: impl AsFd) -> bool {
    let deadline = Instant::now() + TOLD_WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&timespec(left))) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

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
    fn what_is_said_already_or_never_will_be_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut &writer, b"word\n").unwrap();
        assert!(comes_in_time(&reader));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let started = Instant::now();
        let _ = comes_in_time(&reader);
        assert!(started.elapsed() < Duration::from_secs(60), "a hang-up is not waited out");
    }

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
