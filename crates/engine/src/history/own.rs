//! A session's own journal, message by message, for agents that record nothing themselves. A place is the number of a record.

use std::io;

use ostler_story::{Element, Message, Speaker, said};
use ostler_workspace::history::{Begin, Changed, Page, Placed, Position};

use crate::MayWait;
use crate::session::Session;

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Records that are read at once: a run of deltas has a word in each.
const WINDOW: u64 = 512;
/// Records of the beginning in which a first prompt is.
const FIRST: u64 = 32;
/// Records that are looked through for one page.
const LOOK_THROUGH: u64 = 64 * WINDOW;
/// Messages of a page, and their bytes.
const PAGE_MAX: usize = 500;
const PAGE_BYTES: usize = 1 << 20;
/// Characters of what is shown in a list.
const SHOWN: usize = 200;

/// The messages of these records: after the first, up to the last.
pub(super) fn messages(wait: &MayWait, session: &Session, after: u64, last: u64) -> io::Result<Vec<(u64, Message)>> {
    let mut found = Vec::new();
    session.events(wait, after)?.read_upto(last, |head, payload| {
        let message = Message::of_record(head.record, head.time_ns / NANOS_PER_MILLI, &said(head.source, payload));
        found.extend(message.map(|message| (head.record, message)));
    })?;
    Ok(found)
}

/// What was asked first, in one line.
pub(super) fn first_prompt(wait: &MayWait, session: &Session) -> Option<String> {
    let messages = messages(wait, session, 0, FIRST).ok()?;
    let (_, first) = messages.into_iter().find(|(_, message)| message.speaker == Speaker::Person)?;
    first.elements.iter().find_map(|element| match element {
        Element::Text(text) => {
            let plain: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
            Some(plain).filter(|text| !text.is_empty())
        }
        _ => None,
    })
}

pub(super) fn page(wait: &MayWait, session: &Session, begin: Begin, limit: usize) -> io::Result<Page> {
    let (last, limit) = (session.bounds(wait)?.last, limit.clamp(1, PAGE_MAX));
    let mut page = Page::default();
    let mut known = |position: Position, anew: u64| match position.number() {
        number if number <= last + 1 => number,
        _ => {
            page.changed = Some(Changed::Truncated);
            anew
        }
    };
    // Places are before a record: the first is 1.
    match begin {
        Begin::First => on(wait, session, 1, last, limit, &mut page)?,
        Begin::From(position) => {
            let from = known(position, 1).max(1);
            on(wait, session, from, last, limit, &mut page)?;
        }
        Begin::Number(number) => {
            let from = record_of(wait, session, number, last)?;
            on(wait, session, from, last, limit, &mut page)?;
        }
        Begin::Last => back(wait, session, last + 1, limit, &mut page)?,
        Begin::Before(position) => {
            let before = known(position, last + 1).max(1);
            back(wait, session, before, limit, &mut page)?;
        }
    }
    page.older = page.before.number() > 1;
    page.newer = page.next.number() <= last;
    Ok(page)
}

/// The record of the message with this number; after the last, for one that is not there yet.
fn record_of(wait: &MayWait, session: &Session, number: u64, last: u64) -> io::Result<u64> {
    let (mut at, mut left) = (0, number);
    while at < last {
        let to = (at + WINDOW).min(last);
        let found = messages(wait, session, at, to)?;
        match usize::try_from(left).ok().and_then(|left| found.get(left)) {
            Some((record, _)) => return Ok(*record),
            None => left -= found.len() as u64,
        }
        at = to;
    }
    Ok(last + 1)
}

fn placed(record: u64, mut message: Message) -> Placed {
    let cut = message.bound();
    Placed { position: Position::numbered(record), message, cut }
}

fn on(wait: &MayWait, session: &Session, from: u64, last: u64, limit: usize, page: &mut Page) -> io::Result<()> {
    let (mut at, mut bytes) = (from, 0);
    'window: while at <= last && at < from + LOOK_THROUGH {
        let to = (at + WINDOW - 1).min(last);
        for (record, message) in messages(wait, session, at - 1, to)? {
            if page.messages.len() >= limit || bytes >= PAGE_BYTES {
                at = record;
                break 'window;
            }
            let placed = placed(record, message);
            bytes += placed.message.weight();
            page.messages.push(placed);
        }
        at = to + 1;
    }
    (page.before, page.next) = (Position::numbered(from), Position::numbered(at));
    Ok(())
}

fn back(wait: &MayWait, session: &Session, before: u64, limit: usize, page: &mut Page) -> io::Result<()> {
    let (mut first, mut bytes) = (before, 0);
    'window: while first > 1 && first + LOOK_THROUGH > before {
        let from = first.saturating_sub(WINDOW).max(1);
        for (record, message) in messages(wait, session, from - 1, first - 1)?.into_iter().rev() {
            if page.messages.len() >= limit || bytes >= PAGE_BYTES {
                break 'window;
            }
            let placed = placed(record, message);
            bytes += placed.message.weight();
            page.messages.push(placed);
            first = record;
        }
        if page.messages.len() >= limit {
            break;
        }
        first = from;
    }
    page.messages.reverse();
    (page.before, page.next) = (Position::numbered(first), Position::numbered(before));
    Ok(())
}
