//! Waiting for the word that lets a runner go. Whoever else writes to its stdin knows another one, and ends it.

use std::io::BufRead;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sha2::{Digest, Sha256};

use crate::capture::hex;
use crate::child::timespec;

/// Longer than any word; more is none.
const WORD_MAX: u64 = 256;
/// Longer than any question waits for its answer: who is not told by then never will be.
const TOLD_WITHIN: Duration = Duration::from_secs(15 * 60);

/// How long a runner waits whose daemon has died. The next one tells it what was decided before, or ends it, as soon as it
/// is there.
const ORPHANED_FOR: Duration = Duration::from_secs(20);

/// Waits until there is something to read; not for long once the process `daemon`, who alone knows the word, is gone.
pub(crate) fn comes_in_time(source: impl AsFd, daemon: Option<u32>) -> bool {
    comes_before(source, daemon, Instant::now() + TOLD_WITHIN, ORPHANED_FOR)
}

fn comes_before(source: impl AsFd, daemon: Option<u32>, mut deadline: Instant, orphaned_for: Duration) -> bool {
    let gone = |deadline: Instant| deadline.min(Instant::now() + orphaned_for);
    let open = |pid: u32| pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap_or(0))?, PidfdFlags::empty()).ok();
    let mut life = daemon.and_then(open);
    if daemon.is_some() && life.is_none() {
        deadline = gone(deadline);
    }
    loop {
        let left = timespec(deadline.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(&source, PollFlags::IN)];
        fds.extend(life.as_ref().map(|life| PollFd::new(life, PollFlags::IN)));
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        if fds.first().is_some_and(|source| !source.revents().is_empty()) {
            return true;
        }
        if fds.get(1).is_some_and(|life| !life.revents().is_empty()) {
            life = None;
            deadline = gone(deadline);
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
        assert!(comes_in_time(&reader, None));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let started = Instant::now();
        let _ = comes_in_time(&reader, None);
        assert!(started.elapsed() < Duration::from_secs(60), "a hang-up is not waited out");
    }

    #[test]
    fn a_runner_whose_daemon_is_gone_waits_a_little_and_no_longer() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut daemon = std::process::Command::new("sleep").arg("300").spawn().unwrap();
        let soon = Duration::from_millis(200);
        let ages = || Instant::now() + Duration::from_secs(300);
        daemon.kill().unwrap();
        let started = Instant::now();
        assert!(!comes_before(&reader, Some(daemon.id()), ages(), soon), "nobody said anything");
        assert!((soon..Duration::from_secs(100)).contains(&started.elapsed()));
        daemon.wait().unwrap();
        assert!(!comes_before(&reader, Some(daemon.id()), ages(), soon), "gone before it was looked for");
        std::io::Write::write_all(&mut writer, b"word\n").unwrap();
        assert!(comes_before(&reader, Some(daemon.id()), ages(), soon), "what the next daemon says is heard");
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
