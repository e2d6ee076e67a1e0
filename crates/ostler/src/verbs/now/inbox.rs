//! Requests that wait for a person, and what a key may do about the one that is shown. A decision is taken only about what
//! a person had in front of them, whole and long enough to be read as what it is; nothing here draws, waits or talks to a
//! daemon.

use std::time::{Duration, Instant};

use ostler_api::{ApprovalInfo, ApprovalKind, ApprovalState, Verdict};
use ostler_story::Answers;

use super::keys::Key;
use crate::request::{self, Attention, NotNow};
use crate::verbs::approvals::{Answering, Step};

/// Keys that come in a row are words that somebody types, not decisions.
const TYPING_FOR: Duration = Duration::from_secs(1);
/// A word for the asker, not a letter.
const MESSAGE_MAX: usize = 500;

/// A request, or something that is hosted, in whichever instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::verbs) struct Which {
    pub(in crate::verbs) instance: String,
    pub(in crate::verbs) id: String,
}

/// Where an entry stands, as far as this surface knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    /// It was settled, here or elsewhere; in words.
    Over(String),
    /// Its instance does not answer.
    Away(String),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) which: Which,
    pub(super) info: ApprovalInfo,
    pub(super) standing: Standing,
    /// When it is too late, by our own clock.
    pub(super) until: Option<Instant>,
}

/// What of a request is on the screen.
pub(super) type Sight = request::Sight<Which>;

/// What the person has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decide {
    pub(super) which: Which,
    pub(super) hash: String,
    pub(super) verdict: Verdict,
    pub(super) message: String,
    pub(super) interrupt: bool,
    pub(super) answers: Option<Answers>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Look,
    /// A message for the asker is being typed; what it will deny was fixed when that began.
    Message {
        which: Which,
        hash: String,
        text: String,
    },
    /// Questions are being answered.
    Answer(Answering),
}

pub(super) struct Inbox {
    pub(super) entries: Vec<Entry>,
    selected: Option<Which>,
    pub(super) top: usize,
    pub(super) mode: Mode,
    /// The last thing that happened.
    pub(super) notice: String,
    attention: Attention<Which>,
    /// When a key came last that did nothing.
    vain: Option<Instant>,
}

impl Inbox {
    pub(super) fn new(now: Instant) -> Self {
        let (entries, notice) = (Vec::new(), String::new());
        let attention = Attention::new(now);
        Self { entries, selected: None, top: 0, mode: Mode::Look, notice, attention, vain: None }
    }

    pub(super) fn selected(&self) -> Option<&Entry> {
        let which = self.selected.as_ref()?;
        self.entries.iter().find(|entry| entry.which == *which)
    }

    fn position(&self) -> usize {
        let found = self.entries.iter().position(|entry| Some(&entry.which) == self.selected.as_ref());
        found.unwrap_or(0)
    }

    /// Whether the one that is shown was settled, and stays only to be read.
    pub(super) fn is_settled(&self) -> bool {
        self.selected().is_some_and(|entry| matches!(entry.standing, Standing::Over(_)))
    }

    /// Everything that waits in one instance. What is on the screen stays there, whatever comes or goes.
    pub(super) fn update(&mut self, instance: &str, pending: Vec<ApprovalInfo>, now: Instant) {
        for info in pending {
            let which = Which { instance: instance.to_owned(), id: info.id.clone() };
            let until = info.expires_in_ms.map(|left| now + Duration::from_millis(left));
            let fresh = Entry { which, info, standing: Standing::Open, until };
            match self.entries.iter_mut().find(|entry| entry.which == fresh.which) {
                // What was decided here may be on its way still.
                Some(entry) if matches!(entry.standing, Standing::Over(_)) => {}
                Some(entry) => *entry = fresh,
                None => self.entries.push(fresh),
            }
        }
    }

    /// A request no longer waits, and this is why.
    pub(super) fn over(&mut self, which: &Which, how: String) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.which == *which) {
            entry.standing = Standing::Over(how);
        }
        self.drop_settled();
    }

    /// An instance does not answer; what it asked cannot be decided until it does.
    pub(super) fn away(&mut self, instance: &str, why: &str) {
        for entry in self.entries.iter_mut().filter(|entry| entry.which.instance == instance) {
            if entry.standing == Standing::Open {
                entry.standing = Standing::Away(why.to_owned());
            }
        }
    }

    /// An instance is gone for good: nobody will ever settle what it asked.
    pub(super) fn gone(&mut self, instance: &str) {
        for entry in self.entries.iter_mut().filter(|entry| entry.which.instance == instance) {
            entry.standing = Standing::Over(format!("`{instance}` has stopped"));
        }
        self.drop_settled();
    }

    /// Only the selected one stays after it was settled: somebody may be reading it.
    fn drop_settled(&mut self) {
        let selected = self.selected.clone();
        self.entries
            .retain(|entry| !matches!(entry.standing, Standing::Over(_)) || Some(&entry.which) == selected.as_ref());
    }

    /// What was just drawn.
    pub(super) fn drawn(&mut self, sight: Option<Sight>, now: Instant) {
        self.attention.drawn(sight, now);
    }

    /// Whether a key decides what is on the screen, and if not, why.
    pub(super) fn may_decide(&self, now: Instant) -> Result<(), NotNow> {
        let entry = self.selected().ok_or(NotNow::Nothing)?;
        if entry.standing != Standing::Open || entry.info.state != ApprovalState::Pending {
            return Err(NotNow::Settled);
        }
        let fits =
            |sight: &&Sight| sight.which == entry.which && sight.hash == entry.info.hash && sight.top == self.top;
        if !self.attention.sight().as_ref().is_some_and(fits) {
            return Err(NotNow::TooSoon);
        }
        self.attention.may_answer(now)?;
        if self.is_typing(now) {
            return Err(NotNow::Typing);
        }
        Ok(())
    }

    fn is_typing(&self, now: Instant) -> bool {
        self.vain.is_some_and(|vain| now.saturating_duration_since(vain) < TYPING_FOR)
    }

    /// A key was pressed that is none of ours. The spaces between words, and their letters that move, are typed too.
    pub(super) fn pressed_elsewhere(&mut self, now: Instant) {
        self.notice.clear();
        if self.is_typing(now) {
            self.vain = Some(now);
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key, now: Instant) -> Option<Decide> {
        match self.mode {
            Mode::Message { .. } => return self.type_message(key),
            Mode::Answer(_) => return self.answer(key),
            Mode::Look => {}
        }
        self.pressed_elsewhere(now);
        let page = self.attention.sight().map_or(1, |sight| sight.height.max(1));
        match key {
            Key::Enter | Key::Char(' ') if self.is_settled() => self.go_on(),
            Key::PageDown | Key::Char(' ') => self.scroll(self.top.saturating_add(page)),
            Key::PageUp | Key::Char('b') => self.scroll(self.top.saturating_sub(page)),
            Key::Enter => self.scroll(self.top.saturating_add(1)),
            Key::Home | Key::Char('g') => self.scroll(0),
            Key::Char('y') => return self.decide(Verdict::Once, false, now),
            Key::Char('s') => return self.decide(Verdict::Session, false, now),
            Key::Char('a') => return self.decide(Verdict::Always, false, now),
            Key::Char('n') => return self.decide(Verdict::Deny, false, now),
            Key::Char('i') => return self.decide(Verdict::Deny, true, now),
            Key::Char('m') => self.begin_message(now),
            Key::Char('t' | '1'..='9') => return self.begin_answer(key, now),
            _ => self.vain = Some(now),
        }
        None
    }

    fn decide(&mut self, verdict: Verdict, interrupt: bool, now: Instant) -> Option<Decide> {
        let question = self.selected().is_some_and(|entry| entry.info.kind == ApprovalKind::Question);
        let allowed = self.may_decide(now).and(match question && verdict != Verdict::Deny {
            true => Err(NotNow::Unfit),
            false => Ok(()),
        });
        if let Err(why) = allowed {
            self.notice = why.words();
            return None;
        }
        let Entry { which, info, .. } = self.selected()?;
        let (which, hash) = (which.clone(), info.hash.clone());
        Some(Decide { which, hash, verdict, message: String::new(), interrupt, answers: None })
    }

    fn begin_message(&mut self, now: Instant) {
        match (self.may_decide(now), self.selected()) {
            (Ok(()), Some(Entry { which, info, .. })) => {
                self.mode = Mode::Message { which: which.clone(), hash: info.hash.clone(), text: String::new() };
            }
            (Err(why), _) => {
                self.notice = why.words();
                // Words follow that were meant for something else than what their letters would do.
                self.vain = Some(now);
            }
            (Ok(()), None) => {}
        }
    }

    fn type_message(&mut self, key: Key) -> Option<Decide> {
        let Mode::Message { which, hash, text } = &mut self.mode else { return None };
        match key {
            Key::Char(c) if text.chars().count() < MESSAGE_MAX => text.push(c),
            Key::Backspace => drop(text.pop()),
            Key::Escape | Key::Interrupt => {
                self.mode = Mode::Look;
                self.notice = "not denied".into();
            }
            Key::Enter => {
                let (which, hash, message) = (which.clone(), hash.clone(), std::mem::take(text));
                self.mode = Mode::Look;
                return Some(Decide { which, hash, verdict: Verdict::Deny, message, interrupt: false, answers: None });
            }
            _ => {}
        }
        None
    }

    /// The first key of an answer: what it answers is fixed from here on.
    fn begin_answer(&mut self, key: Key, now: Instant) -> Option<Decide> {
        let Entry { which, info, .. } = self.selected()?;
        let Some(answering) = Answering::begin(which.clone(), info.hash.clone(), &info.content) else {
            self.vain = Some(now);
            return None;
        };
        if let Err(why) = self.may_decide(now) {
            self.notice = why.words();
            return None;
        }
        self.mode = Mode::Answer(answering);
        self.answer(key)
    }

    fn answer(&mut self, key: Key) -> Option<Decide> {
        let Mode::Answer(answering) = &mut self.mode else { return None };
        let step = answering.press(key);
        if step == Step::More {
            return None;
        }
        let (which, hash) = (answering.which.clone(), answering.hash.clone());
        self.mode = Mode::Look;
        let Step::Done(answers) = step else {
            self.notice = "not answered".into();
            return None;
        };
        let (verdict, message, answers) = (Verdict::Answers, String::new(), Some(answers));
        Some(Decide { which, hash, verdict, message, interrupt: false, answers })
    }

    fn scroll(&mut self, to: usize) {
        let last = self.attention.sight().map_or(0, |sight| sight.rows.saturating_sub(sight.height));
        self.top = to.min(last);
    }

    /// From a settled request to the next one that waits, or to none.
    fn go_on(&mut self) {
        let at = self.position();
        let open = |entry: &&Entry| !matches!(entry.standing, Standing::Over(_));
        let next = self.entries.iter().skip(at).find(open).or_else(|| self.entries.iter().rfind(open));
        let which = next.map(|entry| entry.which.clone());
        self.show(which);
    }

    /// Puts this request before the person, or none. A settled one that was left goes.
    pub(super) fn show(&mut self, which: Option<Which>) {
        if which != self.selected {
            (self.selected, self.top) = (which, 0);
            self.attention.forget();
            self.drop_settled();
        }
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
