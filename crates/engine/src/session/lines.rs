//! What was said last in a session, in a few plain lines for lists. It is read from the end of the journal when somebody
//! asks, and kept until the journal has grown.

use std::io;
use std::sync::PoisonError;

use ostler_story::{Block, Event, ToolCall};

use super::{Fact, Said, Session, said};
use crate::MayWait;
use crate::lines::{LINES_MAX, last_lines};

/// As many records of the end as are looked at: a run of deltas has a word in each.
const RECORDS: u64 = 256;
/// As much text as lines are looked for in.
const TEXT_MAX: usize = 16 * 1024;

pub(super) type Lines = Vec<String>;

impl Session {
    /// Its last lines as plain text, what the person said among them. May wait for the disk.
    pub fn last_lines(&self, wait: &MayWait, count: usize) -> io::Result<Vec<String>> {
        let last = self.view().last;
        let mut kept = self.inner.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(of, _)| *of != last) {
            *kept = Some((last, self.read_lines(wait, last)?));
        }
        let lines = kept.as_ref().map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        Ok(lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().to_vec())
    }

    fn read_lines(&self, wait: &MayWait, last: u64) -> io::Result<Lines> {
        let mut heard = Heard::default();
        self.events(wait, last.saturating_sub(RECORDS))?.read_upto(last, |head, payload| {
            said(head.source, payload).iter().for_each(|said| heard.take(said));
        })?;
        Ok(heard.lines())
    }
}

/// What was heard so far; pieces of a block until the whole of it comes.
#[derive(Default)]
struct Heard {
    text: String,
    pieces: String,
}

impl Heard {
    fn take(&mut self, said: &Said) {
        match said {
            Said::Event(Event::TextDelta { text }) => self.pieces.push_str(text),
            Said::Event(Event::Text { text }) => self.whole(text),
            Said::Event(Event::ToolCall(ToolCall { title, name, .. })) => {
                self.whole(if title.is_empty() { name } else { title });
            }
            Said::Event(Event::Asked(asked)) => self.whole(&format!("asked: {}", asked.title)),
            Said::Event(Event::Error { message, .. })
            | Said::Fact(Fact::Said { event: Event::Error { message, .. } }) => {
                self.whole(message);
            }
            Said::Fact(Fact::Reworded { text, .. }) => {
                self.whole(&format!("> {}", text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()));
            }
            Said::Fact(Fact::Prompt { blocks, .. }) => {
                let words = blocks.iter().find_map(|block| match block {
                    Block::Text { text } => text.lines().find(|line| !line.trim().is_empty()),
                    _ => None,
                });
                self.whole(&format!("> {}", words.unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// Something whole: it stands for the pieces that came before.
    fn whole(&mut self, text: &str) {
        self.pieces.clear();
        self.text.push('\n');
        self.text.push_str(text);
        if self.text.len() > 2 * TEXT_MAX {
            let from = self.text.len() - TEXT_MAX;
            let from = (from..self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
            self.text.drain(..from);
        }
    }

    fn lines(mut self) -> Lines {
        self.text.push('\n');
        self.text.push_str(&self.pieces);
        let from = self.text.len().saturating_sub(TEXT_MAX);
        last_lines(self.text.as_bytes().get(from..).unwrap_or_default(), LINES_MAX, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(all: &[Event]) -> Lines {
        let mut heard = Heard::default();
        all.iter().for_each(|event| heard.take(&Said::Event(event.clone())));
        heard.lines()
    }

    fn delta(text: &str) -> Event {
        Event::TextDelta { text: text.into() }
    }

    #[test]
    fn pieces_are_joined_and_the_whole_takes_their_place() {
        assert_eq!(heard(&[delta("one t"), delta("wo\nthr"), delta("ee")]), ["one two", "three"]);
        let whole = Event::Text { text: "one two\nthree".into() };
        assert_eq!(heard(&[delta("one t"), whole, delta("more")]), ["one two", "three", "more"]);
    }

    #[test]
    fn an_endless_answer_costs_no_memory() {
        let mut heard = Heard::default();
        for _ in 0..100 {
            heard.take(&Said::Event(Event::Text { text: "é".repeat(TEXT_MAX) }));
        }
        assert!(heard.text.len() < 5 * TEXT_MAX);
        assert_eq!(heard.lines().len(), 1);
    }
}
