//! When somebody is told: a pure function over what stands, since when, who looks and what was told before. Its clock is handed
//! in. What is told is noted here before anybody hears of it, so that no death in between tells it twice.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Answerable, Hours, Kind, Rules, What};

/// The words of the file. Newer reads older; an older program begins anew beside a newer file.
pub(super) const VERSION: u32 = 1;
/// Who is remembered: more than anybody has in a month. The oldest that were told of go first.
const SUBJECTS_MAX: usize = 4096;
/// Notices that are remembered, for people and for the bounds of an hour.
pub(super) const SENT_MAX: usize = 100;
/// Notices of all together in an hour: less than the log holds, so that it can be counted there.
const HOURLY_MAX: usize = 60;
/// Whom one notice names; of more it says how many.
pub(super) const NAMED_MAX: usize = 50;
const HOUR_MS: u64 = 3_600_000;
/// Whoever looked this shortly before something ended saw it end: leaving is often what ends it.
const SAW_MS: u64 = 3_000;
/// How often quiet hours are looked at.
const MINUTE_MS: u64 = 60_000;

/// Which one of a subject's states it is, in their order: what was told of covers everything before.
pub(super) type Mark = [u64; 4];

/// What stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) what: What,
    pub(super) mark: Mark,
}

/// A session, terminal program or request that stands in a state that somebody may want to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) what: What,
    pub(super) mark: Mark,
    /// Since when, in milliseconds since 1970.
    since_ms: u64,
    /// The newest state that somebody was told of, or saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Mark>,
}

impl Subject {
    fn is_told(&self) -> bool {
        self.told.is_some_and(|told| self.mark <= told)
    }
}

/// A notice that went out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at_ms: u64,
    /// Of whom, with what.
    pub(super) of: Vec<(String, What)>,
    pub(super) text: String,
    /// What can be answered from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Answerable>,
    /// What came of it, by each way. A way that is missing was not heard of before the daemon died.
    #[serde(default)]
    pub(super) ways: BTreeMap<String, Result<String, String>>,
}

/// Everything that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Board {
    pub(super) version: u32,
    /// How far the feed was read.
    pub(super) after: String,
    /// When that was.
    pub(super) read_ms: u64,
    pub(super) number: u64,
    pub(super) subjects: BTreeMap<String, Subject>,
    pub(super) sent: VecDeque<Sent>,
}

/// What the time comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) ms: u64,
    /// The minute of the day where the machine is.
    pub(super) minute: u16,
}

/// What is to be done now, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Due {
    /// To be told of now, in one notice; the most urgent first.
    pub(super) of: Vec<(String, What)>,
    /// Milliseconds until something else may be due.
    pub(super) next_ms: Option<u64>,
    /// Somebody saw something end, which is to be written down: the next daemon does not know who looked.
    pub(super) seen: bool,
}

impl Board {
    /// Nothing was told; what ended before now is nobody's news.
    pub(super) fn new(after: String, now_ms: u64) -> Self {
        Self { version: VERSION, after, read_ms: now_ms, number: 0, subjects: BTreeMap::new(), sent: VecDeque::new() }
    }

    /// This stands since then; or nothing does. `true` if that is new.
    pub(super) fn take(&mut self, id: &str, standing: Option<Standing>, since_ms: u64) -> bool {
        let Some(Standing { what, mark }) = standing else {
            // What was told of is remembered: the same state may be back after a rename.
            let known = self.subjects.get_mut(id);
            return match known {
                Some(subject) if subject.told.is_none() => self.subjects.remove(id).is_some(),
                Some(subject) if subject.what != What::Nothing => {
                    subject.what = What::Nothing;
                    true
                }
                _ => false,
            };
        };
        match self.subjects.get_mut(id) {
            Some(subject) if (subject.what, subject.mark) == (what, mark) => return false,
            Some(subject) => (subject.what, subject.mark, subject.since_ms) = (what, mark, since_ms),
            None => {
                self.subjects.insert(id.to_owned(), Subject { what, mark, since_ms, told: None });
                self.bound();
            }
        }
        true
    }

    /// What is deleted is nobody's news.
    pub(super) fn forget(&mut self, id: &str) -> bool {
        self.subjects.remove(id).is_some()
    }

    /// When there is no room, what somebody was told of goes first, and the oldest of it.
    fn bound(&mut self) {
        while self.subjects.len() > SUBJECTS_MAX {
            let oldest = self.subjects.iter().min_by_key(|(_, subject)| (!subject.is_told(), subject.since_ms));
            let Some(id) = oldest.map(|(id, _)| id.clone()) else { return };
            self.subjects.remove(&id);
        }
    }

    /// Whoever is to be told now. `looked` says when somebody last looked at one, which is now while they do.
    pub(super) fn due(&mut self, now: &Now, rules: &Rules, looked: impl Fn(&str) -> Option<u64>) -> Due {
        let after = u64::try_from(rules.after.as_millis()).unwrap_or(u64::MAX);
        let mut due = Due::default();
        let mut next = u64::MAX;
        let (open, hourly) = (self.open_from(now.ms, after), hourly(&self.sent, now.ms));
        for (id, subject) in &mut self.subjects {
            if subject.is_told() || !rules.kinds.contains(&subject.what.kind()) {
                continue;
            }
            // A clock that was put back makes nothing wait for ever.
            subject.since_ms = subject.since_ms.min(now.ms);
            let since = subject.since_ms;
            let seen = looked(id).unwrap_or(0);
            let needs = matches!(subject.what, What::Needs(_));
            if !needs && seen.saturating_add(SAW_MS) >= since && seen > 0 {
                subject.told = Some(subject.mark);
                due.seen = true;
                continue;
            }
            // Whoever looks at a question and leaves it open is told again.
            let begin = if needs { since.max(seen) } else { since };
            let told = hourly.get(id.as_str()).map_or(&[][..], Vec::as_slice);
            let at = begin.saturating_add(after).max(open).max(free_from(told, rules.per_hour as usize));
            match at <= now.ms && !rules.quiet.is_some_and(|quiet| quiet.holds(now.minute)) {
                true => due.of.push((id.clone(), subject.what)),
                false => next = next.min(at.max(now.ms)),
            }
        }
        due.of.sort_by_key(|(_, what)| what.kind());
        due.next_ms = (next != u64::MAX).then(|| (next - now.ms).clamp(1, MINUTE_MS));
        due
    }

    /// From when on anything may be told: those that come together are one notice, and there are only so many in an hour.
    fn open_from(&self, now_ms: u64, after: u64) -> u64 {
        let times: Vec<u64> = lately(&self.sent, now_ms).map(|sent| sent.at_ms).collect();
        let last = times.first().map_or(0, |at_ms| at_ms.saturating_add(after));
        last.max(free_from(&times, HOURLY_MAX))
    }

    /// Somebody is told of these: noted before anybody is.
    pub(super) fn tell(
        &mut self,
        of: &[(String, What)],
        text: String,
        answer: Option<Answerable>,
        now_ms: u64,
    ) -> Sent {
        for (id, _) in of {
            if let Some(subject) = self.subjects.get_mut(id) {
                subject.told = Some(subject.mark);
            }
        }
        self.number += 1;
        let sent = Sent { number: self.number, at_ms: now_ms, of: of.to_vec(), text, answer, ways: BTreeMap::new() };
        self.sent.push_back(sent.clone());
        self.sent.drain(..self.sent.len().saturating_sub(SENT_MAX));
        sent
    }

    /// What came of a notice.
    pub(super) fn came(&mut self, number: u64, way: &str, result: Result<String, String>) {
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.number == number) {
            sent.ways.insert(way.to_owned(), result);
        }
    }

    /// What ended while nobody read the feed, and before it was read last, is nobody's news.
    pub(super) fn skip(&mut self, id: &str) {
        let old = |subject: &&mut Subject| subject.what.kind() != Kind::Needs && subject.since_ms < self.read_ms;
        if let Some(subject) = self.subjects.get_mut(id).filter(old) {
            subject.told = Some(subject.mark);
        }
    }
}

/// When each was told of in the last hour, newest first.
fn hourly(sent: &VecDeque<Sent>, now_ms: u64) -> HashMap<&str, Vec<u64>> {
    let mut hourly: HashMap<&str, Vec<u64>> = HashMap::new();
    for sent in lately(sent, now_ms) {
        for (id, _) in &sent.of {
            hourly.entry(id).or_default().push(sent.at_ms);
        }
    }
    hourly
}

/// The notices of the last hour, newest first. One that is still to come is of a clock that was put back.
fn lately(sent: &VecDeque<Sent>, now_ms: u64) -> impl Iterator<Item = &Sent> {
    let within = move |sent: &&Sent| sent.at_ms <= now_ms && sent.at_ms.saturating_add(HOUR_MS) > now_ms;
    sent.iter().rev().filter(within)
}

/// From when on there may be one more than these of the last hour, which are newest first.
fn free_from(times: &[u64], most: usize) -> u64 {
    match most.checked_sub(1) {
        Some(before) => times.get(before).map_or(0, |at_ms| at_ms.saturating_add(HOUR_MS)),
        None => u64::MAX,
    }
}

impl Hours {
    /// Whether this minute of the day is one of them; they may go over midnight.
    pub fn holds(self, minute: u16) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}
