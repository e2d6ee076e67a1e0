//! Lines of one file, as they are found: matches with where they are, and what stands around them.

use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use super::BYTES_MAX;

/// Of a line so many bytes are told, around its first match.
pub const LINE_MAX: usize = 2000;
/// Matches of one line that are told.
const SPANS_MAX: usize = 100;
/// Bytes before the first match of a line that is cut.
const BEFORE: usize = 200;

/// A line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLine {
    /// From 1 on.
    pub number: u64,
    /// Without its end, and not more than [`LINE_MAX`] of it.
    pub text: Vec<u8>,
    /// Where in `text` the matches are; empty for a line that only stands beside one.
    pub spans: Vec<(usize, usize)>,
    /// It is longer.
    pub cut: bool,
}

impl FoundLine {
    /// Whether it matches itself.
    pub fn is_match(&self) -> bool {
        !self.spans.is_empty()
    }
}

/// What is found in a file.
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    most: usize,
    matches: usize,
    text: usize,
    pub(super) found: Vec<FoundLine>,
    pub(super) more: bool,
    pub(super) binary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, most: usize) -> Self {
        Self { matcher, most, matches: 0, text: 0, found: Vec::new(), more: false, binary: false }
    }

    fn push(&mut self, number: Option<u64>, line: &[u8], is_match: bool) {
        let line = self.line(number, line, is_match);
        self.text += line.text.len();
        self.found.push(line);
    }

    fn line(&self, number: Option<u64>, line: &[u8], is_match: bool) -> FoundLine {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut spans = if is_match { spans(self.matcher, line) } else { Vec::new() };
        let first = spans.first().map_or(0, |(start, _)| *start);
        let from = if line.len() > LINE_MAX { first.saturating_sub(BEFORE) } else { 0 };
        let text = line.get(from..).unwrap_or_default();
        let text = text.get(..LINE_MAX).unwrap_or(text);
        spans.retain(|(start, _)| *start < from + text.len());
        for (start, end) in &mut spans {
            (*start, *end) = (start.saturating_sub(from), (end.saturating_sub(from)).min(text.len()));
        }
        FoundLine { number: number.unwrap_or(0), text: text.to_vec(), spans, cut: text.len() < line.len() }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches == self.most || self.text >= BYTES_MAX {
            self.more = true;
            return Ok(false);
        }
        self.matches += 1;
        self.push(found.line_number(), found.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let wanted = self.matches < self.most || *context.kind() == SinkContextKind::After;
        if wanted && self.text < BYTES_MAX {
            self.push(context.line_number(), context.bytes(), false);
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Where a pattern is in a line.
fn spans(matcher: &RegexMatcher, line: &[u8]) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    // This matcher does not fail.
    let _ = matcher.find_iter(line, |found| {
        spans.push((found.start(), found.end()));
        spans.len() < SPANS_MAX
    });
    if spans.is_empty() {
        // It matched with its end: the line as a whole.
        spans.push((0, line.len()));
    }
    spans
}
