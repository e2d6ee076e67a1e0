//! Now without its screen: what is listed, which row is chosen, and what a key does there. Nothing here draws, waits or
//! talks to a daemon.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ostler_api::Timestamp;

use super::inbox::{Decide, Inbox, Mode, Which};
use super::keys::Key;
use super::pager::{Pager, Turned};
use super::rows::{About, Row, asking, rows};
use super::start::{Filled, Form, Start};
use crate::verbs::listing::Listed;

/// A filter is a few words.
const FILTER_MAX: usize = 80;
/// A daemon that was killed is back within a moment; only after this nobody is expected any more.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// What fills the screen.
pub(super) enum View {
    List,
    /// The filter is being typed.
    Filter,
    /// Something to read: the keys, or what was changed.
    Page(Pager),
    /// An agent is being chosen.
    Start(Form),
}

/// What the person wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Quit,
    Decide(Decide),
    Attach(Which),
    /// It has ended: there are only its last words to read.
    Read(Which),
    /// Look at what was changed in this folder since then.
    Changes {
        title: String,
        folder: String,
        began: Timestamp,
    },
    /// Run what has ended once more, or go on with what the machine's restart stopped.
    Again(Which),
    /// Ask for an agent.
    Choose,
    Start(Start),
    /// Start the daemon.
    Up,
}

pub(super) struct State {
    pub(super) inbox: Inbox,
    pub(super) listed: Vec<Listed>,
    pub(super) view: View,
    pub(super) filter: String,
    pub(super) rows: Vec<Row>,
    selected: Option<About>,
    /// The person chose the row; else it is the first one that waits.
    chosen: bool,
    /// The last lines of the row, as far as they are known.
    pub(super) lines: Option<(Which, Vec<String>)>,
    /// How many rules of each instance wait to be affirmed, and whether nobody can decide there.
    pub(super) suspended: BTreeMap<String, (u64, bool)>,
    /// A record of decisions takes nothing at the moment.
    pub(super) busy: bool,
    /// How many instances live, and since when none does.
    pub(super) living: usize,
    none_since: Option<Instant>,
    /// Nothing was heard from any instance yet.
    pub(super) fresh: bool,
}

impl State {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            inbox: Inbox::new(now),
            listed: Vec::new(),
            view: View::List,
            filter: String::new(),
            rows: Vec::new(),
            selected: None,
            chosen: false,
            lines: None,
            suspended: Default::default(),
            busy: false,
            living: 0,
            none_since: None,
            fresh: true,
        }
    }

    /// What one instance hosts now.
    pub(super) fn update(&mut self, instance: &str, hosted: Vec<ostler_api::Hosted>) {
        self.listed.retain(|one| one.instance != instance);
        self.listed.extend(hosted.into_iter().map(|hosted| Listed { instance: instance.to_owned(), hosted }));
        self.fresh = false;
    }

    /// The instances that live. What the others had goes, once they have had time to come back.
    pub(super) fn live(&mut self, living: &[String], now: Instant) {
        self.living = living.len();
        match living.is_empty() {
            true => _ = self.none_since.get_or_insert(now),
            false => self.none_since = None,
        }
    }

    /// An instance is gone for good.
    pub(super) fn gone(&mut self, instance: &str) {
        self.listed.retain(|one| one.instance != instance);
        self.suspended.remove(instance);
        self.inbox.gone(instance);
    }

    /// Whether there is no daemon, and none is about to come back.
    pub(super) fn is_down(&self, now: Instant) -> bool {
        let patience = if self.fresh { Duration::ZERO } else { BACK_WITHIN };
        self.none_since.is_some_and(|since| now.saturating_duration_since(since) >= patience)
    }

    /// Makes the rows anew and keeps what is chosen. The row that somebody reads stays, whatever comes or goes.
    pub(super) fn refresh(&mut self) {
        let before = self.position();
        self.rows = rows(&self.inbox, &self.listed, &self.filter);
        let is_there = |about: &About| self.rows.iter().any(|row| row.about == *about);
        let asks = matches!(self.selected, Some(About::Request(_)));
        // Until somebody chooses, what waits for them is what they came for.
        if !self.chosen && !asks && self.rows.first().is_some_and(|row| matches!(row.about, About::Request(_))) {
            self.selected = None;
        }
        if !self.selected.as_ref().is_some_and(is_there) {
            let at = if self.selected.is_some() { before.min(self.rows.len().saturating_sub(1)) } else { self.first() };
            self.selected = self.rows.get(at).map(|row| row.about.clone());
        }
        self.show();
    }

    /// The first row that stays where it is: not that of a session whose request was answered this moment, or is not known yet.
    fn first(&self) -> usize {
        let moves = |row: &Row| match &row.about {
            About::Hosted(which) => {
                let session = self.find(which).and_then(|one| one.hosted.session.as_ref());
                session.is_some_and(|session| !session.approvals.is_empty())
            }
            About::Request(_) => false,
        };
        self.rows.iter().position(|row| !moves(row)).unwrap_or(0)
    }

    fn show(&mut self) {
        let request = match &self.selected {
            Some(About::Request(which)) => Some(which.clone()),
            _ => None,
        };
        self.inbox.show(request);
    }

    pub(super) fn position(&self) -> usize {
        self.rows.iter().position(|row| Some(&row.about) == self.selected.as_ref()).unwrap_or(0)
    }

    /// What is hosted and stands on the chosen row, or asks there.
    pub(super) fn hosted(&self) -> Option<&Listed> {
        match self.selected.as_ref()? {
            About::Hosted(which) => self.find(which),
            About::Request(which) => asking(&self.inbox.selected()?.info, &which.instance, &self.listed),
        }
    }

    /// The hosted one whose last lines are of interest.
    pub(super) fn focus(&self) -> Option<Which> {
        match (&self.view, self.selected.as_ref()?) {
            (View::List | View::Filter, About::Hosted(which)) => Some(which.clone()),
            _ => None,
        }
    }

    fn find(&self, which: &Which) -> Option<&Listed> {
        self.listed.iter().find(|one| one.instance == which.instance && one.hosted.id == which.id)
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key, now: Instant) -> Option<Act> {
        match &mut self.view {
            View::List => {}
            View::Filter => return self.type_filter(key),
            View::Page(pager) => {
                if pager.press(key) == Turned::Left {
                    self.view = View::List;
                }
                return None;
            }
            View::Start(_) => return self.fill(key),
        }
        if self.inbox.mode != Mode::Look {
            return self.inbox.press(key, now).map(Act::Decide);
        }
        let act = self.press_in_list(key, now);
        self.follow_inbox();
        act
    }

    fn press_in_list(&mut self, key: Key, now: Instant) -> Option<Act> {
        let request = matches!(self.selected, Some(About::Request(_)));
        let nothing = self.rows.is_empty() && self.is_down(now);
        match key {
            Key::Char('q') | Key::Interrupt => return Some(Act::Quit),
            Key::Char('u') if self.is_down(now) => return Some(Act::Up),
            // The screen says which keys there are.
            _ if nothing => {}
            Key::Up | Key::Char('k') => self.step(-1, now),
            Key::Down | Key::Char('j') => self.step(1, now),
            Key::Escape if !self.filter.is_empty() => self.filter.clear(),
            Key::Char('/') => self.view = View::Filter,
            Key::Char('?') => self.view = View::Page(Pager::keys()),
            Key::Char('c') => return Some(Act::Choose),
            Key::Char('d') => return self.changes(),
            Key::Char('r') if self.may_start() => return self.which().map(Act::Again),
            Key::Enter if !self.inbox.is_settled() && self.hosted().is_some() => return self.attach(),
            _ if request => return self.inbox.press(key, now).map(Act::Decide),
            Key::PageDown | Key::Char(' ') => self.step(10, now),
            Key::PageUp | Key::Char('b') => self.step(-10, now),
            Key::Home | Key::Char('g') => self.step(isize::MIN, now),
            Key::Char('y' | 'n' | 's' | 'a' | 'm' | 'i') if !self.rows.is_empty() => {
                self.inbox.pressed_elsewhere(now);
                self.inbox.notice = "nothing to approve here".into();
            }
            _ => drop(self.inbox.press(key, now)),
        }
        None
    }

    /// A settled request was left, for another or for none.
    fn follow_inbox(&mut self) {
        let Some(About::Request(which)) = &self.selected else { return };
        match self.inbox.selected() {
            Some(entry) if entry.which == *which => {}
            Some(entry) => self.selected = Some(About::Request(entry.which.clone())),
            None => (self.selected, self.chosen) = (None, false),
        }
    }

    fn step(&mut self, by: isize, now: Instant) {
        self.inbox.pressed_elsewhere(now);
        let last = self.rows.len().saturating_sub(1);
        let next = self.position().saturating_add_signed(by).min(last);
        self.selected = self.rows.get(next).map(|row| row.about.clone());
        self.chosen = true;
        self.show();
    }

    fn which(&self) -> Option<Which> {
        let one = self.hosted()?;
        Some(Which { instance: one.instance.clone(), id: one.hosted.id.clone() })
    }

    /// Whether something is chosen that could be run again, or goes on when somebody says so.
    fn may_start(&self) -> bool {
        self.hosted().is_some_and(|one| {
            let over = one.hosted.process.as_ref().is_some_and(|process| process.exit.is_some());
            over || one.hosted.session.as_ref().is_some_and(|session| session.rebooted)
        })
    }

    fn attach(&self) -> Option<Act> {
        let over = self.hosted()?.hosted.ended.is_some();
        self.which().map(if over { Act::Read } else { Act::Attach })
    }

    fn changes(&mut self) -> Option<Act> {
        let Some(one) = self.hosted() else {
            self.inbox.notice = "no changes to show".into();
            return None;
        };
        let folder = one.hosted.workspace.clone()?;
        Some(Act::Changes { title: super::rows::name(&one.hosted), folder, began: one.hosted.began })
    }

    fn type_filter(&mut self, key: Key) -> Option<Act> {
        match key {
            Key::Char(c) if self.filter.chars().count() < FILTER_MAX => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape | Key::Interrupt => {
                self.filter.clear();
                self.view = View::List;
            }
            Key::Enter => self.view = View::List,
            _ => {}
        }
        None
    }

    fn fill(&mut self, key: Key) -> Option<Act> {
        let View::Start(form) = &mut self.view else { return None };
        match form.press(key) {
            Filled::More => None,
            Filled::Left => {
                self.view = View::List;
                None
            }
            Filled::Done(start) => Some(Act::Start(start)),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
