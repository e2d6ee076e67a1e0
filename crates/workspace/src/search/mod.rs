//! Content of files: lines that match, with what stands around them, in the order of their paths. What is searched is what the
//! index has, so nothing ignored is, and an answer can go on behind any file.
//!
//! A search is bounded in lines, bytes and time, ends when nobody waits for it, and reads nothing but regular files beneath the
//! root. Patterns and files are hostile input.

mod file;
mod lines;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

pub use lines::{FoundLine, LINE_MAX};

use crate::beneath::Root;
use crate::index::{Filters, Index};
use file::{FileSearch, Outcome};

/// Lines of one answer.
pub const LINES_MAX: usize = 5000;
/// Lines around a match, on either side.
pub const CONTEXT_MAX: usize = 50;
/// Text of one answer.
const BYTES_MAX: usize = 2 << 20;
/// What a pattern may become: a hostile one is refused and not built.
const PATTERN_MAX: usize = 4 << 20;
/// Files that are handed to the threads at once: their lines are told in order, so a block is waited for as a whole.
const BLOCK: usize = 512;
/// More threads only wait for the same disk.
const THREADS_MAX: usize = 8;

/// How often it is looked whether anybody still waits.
const LOOKS: Duration = Duration::from_millis(10);

/// How letters are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// Small letters fit capitals, unless the pattern has capitals.
    #[default]
    Smart,
    /// As they are.
    Sensitive,
    /// Small letters fit capitals.
    Insensitive,
}

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentQuery {
    /// A text, or a pattern.
    pub pattern: String,
    /// The pattern is a regular expression, as ripgrep understands it.
    pub regex: bool,
    /// How letters are compared.
    pub case: Case,
    /// Only whole words.
    pub word: bool,
    /// Lines before and after each match that are told too.
    pub context: (usize, usize),
    /// Only in this folder; everywhere when empty.
    pub folder: PathBuf,
    /// Only in such files.
    pub filters: Filters,
    /// At most so many matching lines, up to [`LINES_MAX`].
    pub limit: usize,
    /// At most so many of one file; 0 for no bound of its own.
    pub each: usize,
    /// How long to look.
    pub within: Duration,
    /// Only in files behind this one.
    pub after: Option<PathBuf>,
}

/// A file with lines that match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundFile {
    /// From the root on.
    pub path: PathBuf,
    /// Matching lines and what stands around them, in their order.
    pub lines: Vec<FoundLine>,
    /// It has more of them.
    pub more: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundContent {
    /// In the order of their paths.
    pub files: Vec<FoundFile>,
    /// Matching lines in all of these.
    pub matches: u64,
    /// The last file that was looked at: go on after it.
    pub next: Option<PathBuf>,
    /// There are files that were not looked at.
    pub more: bool,
    /// Files that were looked through.
    pub searched: u64,
    /// Their bytes, as far as they were read.
    pub bytes: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Files that are no text, and were left when that showed.
    pub binary: u64,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// Looks through the files of an index. `gone` says when nobody waits any more.
pub fn search(
    root: &Root,
    index: &Index,
    query: &ContentQuery,
    gone: &dyn Fn() -> bool,
) -> Result<FoundContent, PatternError> {
    let matcher = matcher(query)?;
    let (until, stop) = (Instant::now() + query.within, AtomicBool::new(false));
    let limit = query.limit.clamp(1, LINES_MAX);
    let one = FileSearch {
        root,
        matcher: &matcher,
        context: (query.context.0.min(CONTEXT_MAX), query.context.1.min(CONTEXT_MAX)),
        most: if query.each == 0 { limit } else { query.each.min(limit) },
        until,
        stop: &stop,
    };
    let mut found = FoundContent { next: query.after.clone(), more: true, ..FoundContent::default() };
    let (mut told, mut after) = (0, query.after.clone());
    loop {
        let block = index.searched_after(after.as_deref(), &query.folder, &query.filters, BLOCK);
        let Some(last) = block.last().cloned() else {
            found.more = false;
            return Ok(found);
        };
        for (path, outcome) in block.iter().zip(outcomes(&one, &block, gone)) {
            // What was not looked at to its end is looked at next time.
            let Some(outcome) = outcome.filter(|outcome| !outcome.cut_off) else { return Ok(found) };
            found.take(path, outcome, &mut told);
            found.next = Some(path.clone());
            if found.matches >= limit as u64 || told >= BYTES_MAX {
                return Ok(found);
            }
        }
        if Instant::now() >= until || gone() {
            return Ok(found);
        }
        after = Some(last);
    }
}

impl FoundContent {
    fn take(&mut self, path: &Path, outcome: Outcome, told: &mut usize) {
        self.searched += 1;
        self.bytes += outcome.bytes;
        self.unreadable += u64::from(outcome.unreadable);
        self.binary += u64::from(outcome.binary);
        if !outcome.lines.is_empty() {
            self.matches += outcome.lines.iter().filter(|line| line.is_match()).count() as u64;
            *told += outcome.lines.iter().map(|line| line.text.len()).sum::<usize>();
            self.files.push(FoundFile { path: path.to_owned(), lines: outcome.lines, more: outcome.more });
        }
    }
}

/// What is in each file of a block; nothing for those that there was no time for.
fn outcomes(one: &FileSearch<'_>, block: &[PathBuf], gone: &dyn Fn() -> bool) -> Vec<Option<Outcome>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(block.len());
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![None; block.len()]));
    let waiting = std::thread::current();
    let worker = || {
        let mut searcher = one.searcher();
        while !one.is_over() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = block.get(at) else { break };
            let outcome = one.run(&mut searcher, path);
            if let Some(place) = done.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *place = Some(outcome);
            }
        }
        waiting.unpark();
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        // This thread looks whether anybody still waits.
        while !others.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if gone() {
                one.stop.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(LOOKS);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn matcher(query: &ContentQuery) -> Result<RegexMatcher, PatternError> {
    if query.pattern.is_empty() {
        return Err(PatternError("nothing to look for was given".into()));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.fixed_strings(!query.regex).word(query.word).size_limit(PATTERN_MAX).dfa_size_limit(PATTERN_MAX);
    match query.case {
        Case::Smart => builder.case_smart(true),
        Case::Insensitive => builder.case_insensitive(true),
        Case::Sensitive => &mut builder,
    };
    builder.line_terminator(Some(b'\n'));
    builder.build(&query.pattern).map_err(|error| PatternError(error.to_string()))
}
