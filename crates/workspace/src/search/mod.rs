//! Content of files: lines that match, with what stands around them, in the order of their paths. What is searched is what the
//! index has, so nothing ignored is, and an answer can go on behind any file.
//!
//! A search is bounded in lines, bytes and time, ends when nobody waits for it, and reads nothing but regular files beneath the
//! root. Patterns and files are hostile input.

mod ahead;
mod file;
mod lines;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
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
    let limit = query.limit.clamp(1, LINES_MAX);
    let one = FileSearch {
        root,
        matcher: &matcher,
        context: (query.context.0.min(CONTEXT_MAX), query.context.1.min(CONTEXT_MAX)),
        most: if query.each == 0 { limit } else { query.each.min(limit) },
        until: Instant::now() + query.within,
        stopped: AtomicBool::new(false),
    };
    let mut found = FoundContent { next: query.after.clone(), more: true, ..FoundContent::default() };
    let mut told = 0;
    let whole = ahead::run(&one, index, query, gone, |block| {
        block.into_iter().all(|(path, outcome)| {
            // What was not looked at to its end is looked at next time.
            if outcome.cut_off {
                return false;
            }
            told += outcome.text();
            found.take(path, outcome);
            found.matches < limit as u64 && told < BYTES_MAX
        })
    });
    found.more = !whole;
    Ok(found)
}

impl FoundContent {
    fn take(&mut self, path: PathBuf, outcome: Outcome) {
        self.searched += 1;
        self.bytes += outcome.bytes;
        self.unreadable += u64::from(outcome.unreadable);
        self.binary += u64::from(outcome.binary);
        if !outcome.lines.is_empty() {
            self.matches += outcome.lines.iter().filter(|line| line.is_match()).count() as u64;
            self.files.push(FoundFile { path: path.clone(), lines: outcome.lines, more: outcome.more });
        }
        self.next = Some(path);
    }
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
