//! Messages from a place on, or back from it. Nothing else of the file is read: the last fifty of 200 MB cost what `tail` costs.

use std::fs::File;
use std::io;

use ostler_agents::transcript::line;
use ostler_story::Message;

use super::identity::{Changed, Identity, Position, check};
use super::lines::{Line, backward, end, forward};
use super::{Recorder, offsets};

/// Messages of a page, and their bytes.
pub(super) const PAGE_MAX: usize = 500;
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// Bytes that are looked through for one page: a transcript without a message is answered all the same.
const LOOK_THROUGH: u64 = 64 << 20;

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At the first message.
    First,
    /// With the last messages.
    Last,
    /// At this place, and on.
    From(Position),
    /// Before this place, and back.
    Before(Position),
    /// At the message with this number, from 0. Counts all of them first.
    Number(u64),
}

/// A message and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Where it begins.
    pub position: Position,
    /// The message, cut to what can be shown.
    pub message: Message,
    /// Whether anything was cut.
    pub cut: bool,
}

/// Messages in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The messages.
    pub messages: Vec<Placed>,
    /// Where to go back from for older ones.
    pub before: Position,
    /// Whether there may be older ones.
    pub older: bool,
    /// Where to go on from for newer ones.
    pub next: Position,
    /// Whether there may be newer ones already.
    pub newer: bool,
    /// The place that was asked for is not one of this transcript any more: the page begins anew.
    pub changed: Option<Changed>,
    /// Lines that could not be read, or are too long.
    pub unread: u64,
}

pub(super) fn read(recorder: Recorder, file: &File, begin: Begin, limit: usize) -> io::Result<Page> {
    let (identity, size) = (Identity::of(file)?, file.metadata()?.len());
    let whole = end(file, size)?;
    let at = |offset| Position { identity, offset };
    let (mut changed, limit) = (None, limit.clamp(1, PAGE_MAX));
    let mut known = |position: Position, anew: u64| -> io::Result<u64> {
        Ok(match check(file, identity, whole, position)? {
            Ok(offset) => offset,
            Err(how) => {
                changed = Some(how);
                anew
            }
        })
    };
    let mut taken = Taken { recorder, identity, limit, page: Page::default(), bytes: 0, looked: 0 };
    match begin {
        Begin::First | Begin::From(_) | Begin::Number(_) => {
            let from = if let Begin::From(position) = begin { known(position, 0)? } else { 0 };
            let next = forward(file, from, whole, &mut |start, next, line| taken.take(start, next, line))?;
            let page = &mut taken.page;
            (page.before, page.older) = (at(from), from > 0);
            (page.next, page.newer) = (at(next), next < whole);
        }
        Begin::Last | Begin::Before(_) => {
            let before = if let Begin::Before(position) = begin { known(position, whole)? } else { whole };
            let mut first = before;
            backward(file, before, &mut |start, next, line| {
                first = start;
                taken.take(start, next, line)
            })?;
            let page = &mut taken.page;
            page.messages.reverse();
            (page.before, page.older) = (at(first), first > 0);
            (page.next, page.newer) = (at(before), before < whole);
        }
    }
    let mut page = taken.page;
    page.changed = changed;
    newest_only(&mut page.messages);
    Ok(page)
}

/// A message that is written again under its id is told once, as it was last.
fn newest_only(messages: &mut Vec<Placed>) {
    let mut last = offsets::Recent::default();
    let mut keep: Vec<bool> = messages.iter().rev().map(|placed| last.is_new(placed.message.id.as_deref())).collect();
    messages.retain(|_| keep.pop().unwrap_or(true));
}

struct Taken {
    recorder: Recorder,
    identity: Identity,
    limit: usize,
    page: Page,
    bytes: usize,
    looked: u64,
}

impl Taken {
    fn take(&mut self, start: u64, next: u64, text: Line<'_>) -> bool {
        self.looked += next - start;
        let told = match text {
            Line::Whole(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => return true,
            Line::Whole(bytes) => line(self.recorder, bytes),
            Line::TooLong => None,
        };
        match told.map(|told| told.message) {
            None => self.page.unread += 1,
            Some(None) => {}
            Some(Some(mut message)) => {
                let cut = message.bound();
                self.bytes += message.weight();
                let position = Position { identity: self.identity, offset: start };
                self.page.messages.push(Placed { position, message, cut });
            }
        }
        self.page.messages.len() < self.limit && self.bytes < PAGE_BYTES && self.looked < LOOK_THROUGH
    }
}
