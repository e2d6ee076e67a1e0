//! What git prints about a work tree, and what files of ignore rules say: whoever makes a repository writes both. Whatever the bytes
//! are, they are read or refused, in time that grows with their length. Shared with `fuzz/`, so it uses nothing of this program.

use std::path::Path;
use std::time::{Duration, Instant};

use ostler_workspace::git::work::Porcelain;
use ostler_workspace::index::ignored_by;

/// One input is a few kilobytes.
const SOON: Duration = Duration::from_secs(5);
/// Paths that every set of rules is asked about.
const PATHS: [&str; 5] = ["a", "src/main.rs", "target/debug/x", "a b/[c]/*.log", "deep/er/and/deep/er"];

/// A porcelain listing, NUL by NUL.
pub(crate) fn porcelain(input: &[u8]) -> Result<(), String> {
    let began = Instant::now();
    if let Some(read) = Porcelain::read(input) {
        let told = read.changed.len() + read.conflicted.len() + read.untracked.len();
        let records = input.iter().filter(|byte| **byte == 0).count() + 1;
        if told > records {
            return Err(format!("{told} paths in {records} records"));
        }
    }
    in_time(began)
}

/// Rules; the first line is one more path to ask about.
pub(crate) fn ignores(input: &[u8]) -> Result<(), String> {
    let began = Instant::now();
    let (path, rules) = input.split_at(input.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let path = String::from_utf8_lossy(path);
    let named = path.trim_start_matches('/');
    for path in PATHS.iter().copied().chain((!named.is_empty()).then_some(named)) {
        for folder in [false, true] {
            let (once, again) =
                (ignored_by(rules, Path::new(path), folder), ignored_by(rules, Path::new(path), folder));
            if once != again {
                return Err(format!("{path}: ignored, and then not"));
            }
        }
    }
    in_time(began)
}

fn in_time(began: Instant) -> Result<(), String> {
    if began.elapsed() > SOON { Err(format!("took {:?}", began.elapsed())) } else { Ok(()) }
}
