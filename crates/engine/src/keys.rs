//! Keys of requests that must not be carried out twice and leave no other trace: signals, interrupts, changes, deletions.
//! Remembered across daemons, up to a bound, as hashes: a key may be long, and is nobody's business. A process's, prompt's or
//! session's own key is kept with it.

use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ostler_workspace::{Durable, read_small, replace};

use crate::MayWait;
use crate::approval::content_hash;

/// Far more than clients retry at once, and little memory.
const REMEMBERED: usize = 4096;
/// SHA-256 in hexadecimal; a line of another length was cut off.
const HASH: usize = 64;
/// The longest file: it is written anew before it has more lines.
const MOST: u64 = ((2 * REMEMBERED + 1) * (HASH + 1)) as u64;

#[derive(Default)]
pub(crate) struct Keys {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    set: HashSet<String>,
    order: VecDeque<String>,
    file: Option<Log>,
}

/// One line for each key, the oldest first.
struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl Keys {
    /// What earlier daemons remembered in this file.
    pub(crate) fn open(path: &Path) -> Self {
        let mut seen = Seen::default();
        let text = match read_small(path, MOST) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{}: the keys of earlier requests are not known: {error}", path.display());
                String::new()
            }
            text => text.unwrap_or_default(),
        };
        text.lines().filter(|line| line.len() == HASH).for_each(|line| _ = seen.insert(line.to_owned()));
        seen.file = Log::anew(path, &seen.order).inspect_err(|error| warn(path, error)).ok();
        Self { seen: Mutex::new(seen) }
    }

    /// Whether this key has come before.
    pub(crate) fn has_seen(&self, _wait: &MayWait, key: &str) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).set.contains(&content_hash(key))
    }

    /// Whether this key comes for the first time; from now on it does not.
    pub(crate) fn first_use(&self, _wait: &MayWait, key: &str) -> bool {
        let hash = content_hash(key);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.insert(hash.clone()) {
            return false;
        }
        seen.write_down(&hash);
        true
    }
}

impl Seen {
    fn insert(&mut self, hash: String) -> bool {
        if !self.set.insert(hash.clone()) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }

    fn write_down(&mut self, hash: &str) {
        let Some(log) = &mut self.file else { return };
        let written = match log.lines < 2 * REMEMBERED {
            true => log.append(hash),
            false => Log::anew(&log.path, &self.order).map(|fresh| *log = fresh),
        };
        if let Err(error) = written {
            warn(&log.path, &error);
        }
    }
}

impl Log {
    fn anew(path: &Path, order: &VecDeque<String>) -> io::Result<Self> {
        let lines: String = order.iter().flat_map(|hash| [hash, "\n"]).collect();
        replace(path, &path.with_extension("new"), lines.as_bytes(), Durable::No)?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, lines: order.len() })
    }

    fn append(&mut self, hash: &str) -> io::Result<()> {
        self.lines += 1;
        self.file.write_all(format!("{hash}\n").as_bytes())
    }
}

fn warn(path: &Path, error: &io::Error) {
    tracing::warn!("{}: keys are remembered in memory only: {error}", path.display());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::may_wait::IN_A_TEST as WAIT;

    #[test]
    fn a_key_counts_once_and_memory_is_bounded() {
        let keys = Keys::default();
        assert!(
            !keys.has_seen(WAIT, "a")
                && keys.first_use(WAIT, "a")
                && !keys.first_use(WAIT, "a")
                && keys.has_seen(WAIT, "a")
        );
        for number in 0..REMEMBERED {
            assert!(keys.first_use(WAIT, &number.to_string()));
        }
        assert!(keys.first_use(WAIT, "a"), "the oldest key goes first");
        assert_eq!(keys.seen.lock().unwrap().set.len(), REMEMBERED);
    }

    #[test]
    fn the_next_daemon_knows_them_and_the_file_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        assert!(Keys::open(&path).first_use(WAIT, "a\nb"));
        // A line that was cut off is no key.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"0123").unwrap();
        let next = Keys::open(&path);
        assert!(!next.first_use(WAIT, "a\nb") && next.first_use(WAIT, "0123"));
        for number in 0..3 * REMEMBERED {
            assert!(next.first_use(WAIT, &number.to_string()));
        }
        let last = (3 * REMEMBERED - 1).to_string();
        assert!(Keys::open(&path).has_seen(WAIT, &last) && !Keys::open(&path).has_seen(WAIT, "0"));
        assert!(fs::metadata(&path).unwrap().len() <= (2 * REMEMBERED * (HASH + 1)) as u64);
        assert!(!fs::read_to_string(&path).unwrap().contains("a\nb\n"));
    }
}
