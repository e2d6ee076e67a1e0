//! `session.read`: a session's records from the newest backwards. Only the records of a page are read, however many there are.

use std::collections::VecDeque;
use std::io;

use ostler_api::{RpcError, SessionPage, SessionReadParams, SessionRecord, Timestamp};
use ostler_engine::{EventHead, EventStep, MayWait, Session};
use ostler_story::Story;

use crate::call::Call;
use crate::info::{disk, of_session};
use crate::pieces;
use crate::record::objects;
use crate::session::own;

/// What a screen shows, and some more to scroll.
const RECORDS: u64 = 200;
/// Beyond this a page is no page.
const RECORDS_MAX: u64 = 1000;
/// A page of long records ends here: clients read lines of a bounded length.
const BYTES_MAX: usize = 1 << 20;

pub(crate) fn read(wait: &MayWait, call: &Call, params: SessionReadParams) -> Result<SessionPage, RpcError> {
    let session = own(call, &params.id)?;
    let limit = params.limit.unwrap_or(RECORDS).clamp(1, RECORDS_MAX);
    page(wait, &session, params.before.unwrap_or(u64::MAX), limit, params.pieces)
        .map_err(|error| disk(call.engine(), &format!("{} cannot be read", of_session(&session)), &error))
}

fn page(wait: &MayWait, session: &Session, before: u64, limit: u64, pieces: bool) -> io::Result<SessionPage> {
    let bounds = session.bounds(wait)?;
    let first = bounds.first.max(1);
    let end = before.min(bounds.last.saturating_add(1));
    let from = end.saturating_sub(limit).max(first);
    let (mut page, mut told, mut story) = (Newest::default(), Vec::new(), Story::default());
    let (mut cursor, mut payload) = (session.events(wait, from - 1)?, Vec::new());
    while cursor.position() + 1 < end {
        payload.clear();
        match cursor.next_blocking(&mut payload)? {
            EventStep::Event(head) if head.record < end => match pieces {
                true => told.extend(pieces::record(&mut story, &head, &payload)),
                false => page.add(&head, &payload),
            },
            // What the disk lost is not there; its place is.
            EventStep::Gap { .. } => {}
            EventStep::Event(_) | EventStep::UpToDate | EventStep::WouldBlock => break,
        }
    }
    pieces::without_words_of_whole_blocks(&mut told);
    let records: Vec<_> = page.records.into_iter().map(|(record, _)| record).collect();
    let first_read = records.first().map_or(from, |record| record.record);
    Ok(SessionPage { records, pieces: told, first: first_read, more: page.cut || from > first, last: bounds.last })
}

/// The newest of the records that were added, as far as they fit.
#[derive(Default)]
struct Newest {
    records: VecDeque<(SessionRecord, usize)>,
    bytes: usize,
    cut: bool,
}

impl Newest {
    fn add(&mut self, head: &EventHead, payload: &[u8]) {
        // What is in a journal is JSON; what is not is nobody's to repeat.
        let events = objects(payload).filter_map(|object| serde_json::from_slice(object).ok()).collect();
        let time = Timestamp::from_nanos(head.time_ns);
        let record = SessionRecord { record: head.record, time, source: head.source, src_end: head.src_end, events };
        self.records.push_back((record, payload.len()));
        self.bytes += payload.len();
        while self.bytes > BYTES_MAX && self.records.len() > 1 {
            let dropped = self.records.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes -= dropped;
            self.cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(sizes: &[usize]) -> (Vec<u64>, bool) {
        let mut page = Newest::default();
        for (record, size) in (1..).zip(sizes) {
            let payload = format!("{{\"type\":\"text\",\"text\":\"{}\"}}\n", "x".repeat(*size));
            let head = EventHead { record, source: 1, src_end: 0, time_ns: 0, len: payload.len() };
            page.add(&head, payload.as_bytes());
        }
        (page.records.iter().map(|(record, _)| record.record).collect(), page.cut)
    }

    #[test]
    fn of_long_records_the_newest_are_kept_and_at_least_one() {
        assert_eq!(added(&[10, 10, 10]), (vec![1, 2, 3], false));
        assert_eq!(added(&[10, BYTES_MAX / 2, BYTES_MAX / 2]), (vec![3], true));
        assert_eq!(added(&[10, 2 * BYTES_MAX]), (vec![2], true));
    }
}
