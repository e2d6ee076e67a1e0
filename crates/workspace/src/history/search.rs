//! Words in transcripts, found by reading on: raw bytes are looked through first, and only a line that may hold the words is
//! understood, so that what is found is something that was said, run or touched, and not a name of the format.

use std::fs::File;
use std::io;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::memmem;
use ostler_agents::transcript::line;
use ostler_story::{Element, Message, Speaker};

use super::identity::{Identity, Position};
use super::lines::{Line, end, forward};
use super::summary::shown;
use super::{Recorder, Transcript};

/// Bytes of a query: a sentence.
const QUERY_MAX: usize = 512;
/// Characters of what stands around a hit, on each side.
const AROUND: usize = 60;
/// How often somebody is asked whether to go on.
const ASK_EVERY: u64 = 1 << 20;

/// Says that there is no time left, or nobody who waits.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// What is looked for. Words without a capital letter are found in either case.
#[derive(Debug, Clone)]
pub struct Needle {
    words: String,
    any_case: bool,
    plain: Plain,
}

/// A part of it that every way to write JSON leaves as it is.
#[derive(Debug, Clone)]
enum Plain {
    /// There is none.
    Nothing,
    Exactly(memmem::Finder<'static>),
    /// Without a copy of every line in small letters, which would take most of the time.
    AnyCase(RegexMatcher),
}

impl Needle {
    /// Nothing for a query that is empty, or too long.
    pub fn new(query: &str) -> Option<Self> {
        let query = query.trim();
        if query.is_empty() || query.len() > QUERY_MAX {
            return None;
        }
        let any_case = !query.chars().any(char::is_uppercase);
        let escaped =
            |c: char| !c.is_ascii() || c.is_ascii_control() || matches!(c, '"' | '\\' | '/' | '<' | '>' | '&');
        let plain = query.split(escaped).max_by_key(|part| part.len()).unwrap_or_default();
        let plain = match (plain, any_case) {
            ("", _) => Plain::Nothing,
            (plain, false) => Plain::Exactly(memmem::Finder::new(plain).into_owned()),
            (plain, true) => {
                let mut builder = RegexMatcherBuilder::new();
                Plain::AnyCase(builder.fixed_strings(true).case_insensitive(true).unicode(false).build(plain).ok()?)
            }
        };
        Some(Self { words: query.to_owned(), any_case, plain })
    }

    /// Whether a line may hold it.
    pub(super) fn may_be_in(&self, line: &[u8]) -> bool {
        match &self.plain {
            Plain::Nothing => true,
            Plain::Exactly(plain) => plain.find(line).is_some(),
            // This matcher does not fail.
            Plain::AnyCase(plain) => plain.is_match(line).unwrap_or(true),
        }
    }

    /// Where it is in a text, and what stands around it.
    fn around(&self, text: &str) -> Option<String> {
        let at = match self.any_case {
            // As long as before, byte by byte.
            true => memmem::find(text.to_ascii_lowercase().as_bytes(), self.words.as_bytes())?,
            false => memmem::find(text.as_bytes(), self.words.as_bytes())?,
        };
        let from = text.get(..at)?.char_indices().rev().nth(AROUND - 1).map_or(0, |(from, _)| from);
        let rest = text.get(at + self.words.len()..)?;
        let to = rest.char_indices().nth(AROUND).map_or(text.len(), |(to, _)| at + self.words.len() + to);
        shown(text.get(from..to)?)
    }

    /// The element of a message that holds it.
    pub fn find(&self, message: &Message) -> Option<(usize, String)> {
        message.elements.iter().enumerate().find_map(|(index, element)| {
            let mut found = None;
            element.each_text(&mut |text| {
                if found.is_none() {
                    found = self.around(text);
                }
            });
            found.map(|around| (index, around))
        })
    }
}

/// Where words were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The message: a page from here begins with it.
    pub position: Position,
    /// When it was said.
    pub time_ms: Option<u64>,
    /// By whom.
    pub speaker: Speaker,
    /// What sort of element holds it: `text`, `thought`, `tool`, `result`.
    pub what: &'static str,
    /// What stands around it, in one line.
    pub around: String,
}

impl Hit {
    /// The hit of a message, if it is one.
    pub fn of(needle: &Needle, position: Position, message: &Message) -> Option<Self> {
        let (index, around) = needle.find(message)?;
        let what = match message.elements.get(index)? {
            Element::Text(_) => "text",
            Element::Thought(_) => "thought",
            Element::Image { .. } => "image",
            Element::Tool(_) => "tool",
            Element::Result { .. } => "result",
            Element::Compaction(_) => "compaction",
            Element::Notice(_) => "notice",
        };
        Some(Self { position, time_ms: message.time_ms, speaker: message.speaker, what, around })
    }
}

/// A search on its way through one transcript after another.
pub struct Search<'a> {
    /// What is looked for.
    pub needle: &'a Needle,
    /// Asked now and then whether to stop.
    pub stop: Stop<'a>,
    /// Hears of every hit; says whether to go on.
    pub told: &'a mut dyn FnMut(Hit) -> bool,
    /// Bytes that were looked through.
    pub bytes: u64,
    /// Lines that are too long, or not readable.
    pub unread: u64,
    /// It was stopped before the end of a transcript.
    pub stopped: bool,
}

pub(super) fn through(transcript: &Transcript, file: &File, search: &mut Search<'_>) -> io::Result<()> {
    let (identity, recorder) = (Identity::of(file)?, transcript.recorder);
    let whole = end(file, file.metadata()?.len())?;
    let mut asked = 0_u64;
    forward(file, 0, whole, &mut |start, next, text| {
        search.bytes += next - start;
        if search.bytes - asked >= ASK_EVERY {
            asked = search.bytes;
            search.stopped = (search.stop)();
        }
        let go_on = match text {
            Line::TooLong => {
                search.unread += 1;
                true
            }
            Line::Whole(bytes) => !search.needle.may_be_in(bytes) || one(recorder, bytes, start, identity, search),
        };
        go_on && !search.stopped
    })?;
    Ok(())
}

/// A line that may hold it; whether to go on.
fn one(recorder: Recorder, bytes: &[u8], offset: u64, identity: Identity, search: &mut Search<'_>) -> bool {
    let Some(told) = line(recorder, bytes) else {
        search.unread += 1;
        return true;
    };
    let position = Position { identity, offset };
    let hit = told.message.and_then(|message| Hit::of(search.needle, position, &message));
    hit.is_none_or(|hit| (search.told)(hit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Message {
        Message { id: None, time_ms: None, speaker: Speaker::Agent, elements: vec![Element::Text(text.to_owned())] }
    }

    #[test]
    fn small_letters_find_both_and_capitals_themselves() {
        let find = |query: &str, said: &str| Needle::new(query).unwrap().find(&text(said)).map(|(_, around)| around);
        assert_eq!(find("needle", "a NEEDLE here").as_deref(), Some("a NEEDLE here"));
        assert_eq!(find("Needle", "a NEEDLE here"), None);
        assert_eq!(find("é x", "caf\u{e9} x").as_deref(), Some("café x"));
        assert_eq!(find("say \"hi\"", "to say \"hi\"\nnow").as_deref(), Some("to say \"hi\" now"));
    }

    #[test]
    fn what_json_escapes_is_found_all_the_same() {
        for (query, line) in
            [("say \"hi\" there", r#"{"t":"say \"hi\" there"}"#), ("a/b", r#"{"t":"a\/b"}"#), ("\u{e9}", r#""\u00e9""#)]
        {
            assert!(Needle::new(query).unwrap().may_be_in(line.as_bytes()), "{query}");
        }
        assert!(!Needle::new("absent").unwrap().may_be_in(b"{\"t\":\"here\"}"));
        assert!(Needle::new("  ").is_none() && Needle::new(&"x".repeat(1000)).is_none());
    }

    #[test]
    fn what_stands_around_is_short_and_cannot_move_a_cursor() {
        let long = format!("{}\u{1b}[2J needle \r\n{}", "ä".repeat(500), "ö".repeat(500));
        let (_, around) = Needle::new("needle").unwrap().find(&text(&long)).unwrap();
        assert!(around.chars().count() < 140 && !around.chars().any(char::is_control), "{around}");
    }
}
