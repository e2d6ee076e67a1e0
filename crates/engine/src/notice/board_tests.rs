//! The table of states by time: none too many, and none too few. The clock is the test's own.

use std::collections::HashMap;

use super::board::{Board, Now, Standing};
use super::{For, Hours, Kind, Rules, What};

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600_000;
/// Ten in the morning of some day.
const START: u64 = 1_700_000_000_000;
const NEEDS: What = What::Needs(For::Permission);

/// A board with a clock that is put forward by hand, second by second.
struct Desk {
    board: Board,
    rules: Rules,
    now: u64,
    looked: HashMap<String, u64>,
    looking: Vec<String>,
    /// When each notice went out, in seconds, and of whom.
    told: Vec<(u64, String)>,
    /// How often something was to be written down because somebody saw it end.
    seen: usize,
}

impl Desk {
    fn new() -> Self {
        let board = Board::new("0".into(), START);
        Self {
            board,
            rules: Rules::default(),
            now: START,
            looked: HashMap::new(),
            looking: Vec::new(),
            told: Vec::new(),
            seen: 0,
        }
    }

    fn stands(&mut self, id: &str, what: What, mark: u64) {
        self.board.take(id, Some(Standing { what, mark: [mark, 0, 0, 0] }), self.now);
    }

    fn answered(&mut self, id: &str) {
        self.board.take(id, None, self.now);
    }

    fn leaves(&mut self, id: &str) {
        self.looking.retain(|looking| looking != id);
        self.looked.insert(id.to_owned(), self.now);
    }

    /// As the daemon would look at it now; ten in the morning is minute 600.
    fn look(&mut self) {
        let now = Now { ms: self.now, minute: (600 + (self.now - START) / 60_000).rem_euclid(1440) as u16 };
        let (looking, looked) = (&self.looking, &self.looked);
        let seen = |id: &str| match looking.iter().any(|looking| looking == id) {
            true => Some(now.ms),
            false => looked.get(id).copied(),
        };
        let due = self.board.due(&now, &self.rules, seen);
        assert!(due.next_ms.is_none_or(|next| (1..=60_000).contains(&next)), "{due:?}");
        self.seen += usize::from(due.seen);
        if !due.of.is_empty() {
            let ids: Vec<&str> = due.of.iter().map(|(id, _)| id.as_str()).collect();
            self.told.push(((self.now - START) / SECOND, ids.join(" ")));
            self.board.tell(&due.of, String::new(), None, self.now);
        }
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SECOND;
            self.look();
        }
    }

    /// The daemon dies, and the next one reads what was written.
    fn dies(&mut self) {
        let text = serde_json::to_string(&self.board).unwrap();
        self.board = serde_json::from_str(&text).unwrap();
        (self.looked, self.looking) = (HashMap::new(), Vec::new());
    }

    fn told(&self) -> Vec<(u64, &str)> {
        self.told.iter().map(|(at, ids)| (*at, ids.as_str())).collect()
    }
}

#[test]
fn what_has_stood_for_ten_seconds_is_told_once() {
    for what in [NEEDS, What::Failed, What::Ended] {
        let mut desk = Desk::new();
        desk.stands("s1", what, 1);
        desk.pass(9);
        assert_eq!(desk.told(), [], "{what:?}");
        desk.pass(7200);
        assert_eq!(desk.told(), [(10, "s1")], "{what:?}");
    }
}

#[test]
fn what_is_answered_meanwhile_is_told_to_nobody() {
    let mut desk = Desk::new();
    desk.stands("s1", NEEDS, 1);
    desk.pass(9);
    desk.answered("s1");
    desk.pass(60);
    assert_eq!(desk.told(), []);
}

#[test]
fn the_next_question_is_told_of_and_an_older_one_that_is_left_is_not() {
    let mut desk = Desk::new();
    desk.stands("s1", NEEDS, 1);
    desk.pass(11);
    desk.stands("s1", NEEDS, 2);
    desk.pass(30);
    assert_eq!(desk.told(), [(10, "s1"), (21, "s1")]);
    // The second was answered, the first still waits: it was told of.
    desk.stands("s1", NEEDS, 1);
    desk.pass(60);
    assert_eq!(desk.told().len(), 2);
}

#[test]
fn the_same_state_seen_again_is_not_new() {
    let mut desk = Desk::new();
    desk.stands("s1", What::Ended, 3);
    desk.pass(5);
    desk.stands("s1", What::Ended, 3);
    desk.pass(5);
    desk.stands("s1", What::Ended, 3);
    desk.answered("s1");
    desk.stands("s1", What::Ended, 3);
    desk.pass(60);
    assert_eq!(desk.told(), [(10, "s1")]);
}

#[test]
fn nobody_is_told_of_what_they_look_at() {
    let mut desk = Desk::new();
    desk.looking = vec!["s1".into(), "s2".into(), "s3".into()];
    desk.stands("s1", NEEDS, 1);
    desk.stands("s2", What::Ended, 1);
    desk.stands("s3", What::Failed, 1);
    desk.pass(100);
    assert_eq!(desk.told(), []);
    // Who leaves a question open is told of it; what ended in front of them they know.
    for id in ["s1", "s2", "s3"] {
        desk.leaves(id);
    }
    desk.pass(100);
    assert_eq!(desk.told(), [(110, "s1")]);
}

#[test]
fn what_ended_in_front_of_somebody_is_written_down_once() {
    let mut desk = Desk::new();
    desk.looking = vec!["s1".into(), "p1".into()];
    desk.stands("s1", NEEDS, 1);
    desk.pass(2);
    assert_eq!(desk.seen, 0, "a question stays open");
    desk.stands("p1", What::Ended, 1);
    desk.pass(20);
    assert_eq!(desk.seen, 1);
}

#[test]
fn who_left_just_before_it_ended_knows_that_it_did_and_who_left_long_before_does_not() {
    let mut desk = Desk::new();
    desk.looking = vec!["p1".into(), "p2".into()];
    desk.pass(1);
    desk.leaves("p1");
    desk.leaves("p2");
    desk.pass(2);
    desk.stands("p1", What::Ended, 1);
    desk.pass(10);
    desk.stands("p2", What::Ended, 1);
    desk.pass(30);
    assert_eq!(desk.told(), [(23, "p2")]);
}

#[test]
fn several_are_one_notice_and_who_needs_somebody_comes_first() {
    let mut desk = Desk::new();
    desk.stands("s1", What::Ended, 1);
    desk.stands("s2", NEEDS, 1);
    desk.stands("s3", What::Failed, 1);
    desk.pass(10);
    assert_eq!(desk.told(), [(10, "s2 s3 s1")]);
    // Those that come one after the other wait for each other.
    desk.stands("s4", NEEDS, 1);
    desk.pass(3);
    desk.stands("s5", NEEDS, 1);
    desk.pass(6);
    desk.stands("s6", NEEDS, 1);
    desk.pass(60);
    assert_eq!(desk.told()[1..], [(20, "s4"), (30, "s5 s6")]);
}

#[test]
fn a_restart_tells_nothing_twice_and_loses_nothing() {
    let mut desk = Desk::new();
    desk.stands("s1", NEEDS, 1);
    desk.pass(11);
    desk.stands("s2", NEEDS, 1);
    desk.pass(5);
    for _ in 0..3 {
        desk.dies();
        // What the feed tells again is the same.
        desk.stands("s1", NEEDS, 1);
        desk.stands("s2", NEEDS, 1);
    }
    desk.pass(60);
    assert_eq!(desk.told(), [(10, "s1"), (21, "s2")]);
}

#[test]
fn one_that_asks_all_the_time_is_told_of_six_times_an_hour() {
    let mut desk = Desk::new();
    for mark in 0..240 {
        desk.stands("s1", NEEDS, mark);
        desk.pass(30);
    }
    let times: Vec<u64> = desk.told().iter().map(|(at, _)| *at).collect();
    let within = |from: u64| times.iter().filter(|at| (from..from + 3600).contains(*at)).count();
    assert!((0..3600).all(|from| within(from) <= 6), "{times:?}");
    assert_eq!(times.len(), 12, "{times:?}");
}

#[test]
fn all_together_are_bounded_too() {
    let mut desk = Desk::new();
    for number in 0..360 {
        desk.stands(&format!("s{number}"), NEEDS, 1);
        desk.pass(10);
    }
    assert_eq!(desk.told.len(), 60);
    desk.pass(30);
    let all: usize = desk.told.iter().map(|(_, ids)| ids.split(' ').count()).sum();
    assert_eq!(all, 360, "nobody was left out");
}

#[test]
fn quiet_hours_tell_nothing_and_then_all_of_it_at_once() {
    let mut desk = Desk::new();
    desk.rules.quiet = Some(Hours { from: 22 * 60, to: 7 * 60 });
    desk.pass(12 * 3600 + 60);
    desk.stands("s1", NEEDS, 1);
    desk.stands("s2", NEEDS, 1);
    desk.stands("s3", What::Ended, 1);
    desk.pass(3600);
    desk.answered("s2");
    desk.pass(7 * 3600 + 3530);
    assert_eq!(desk.told(), []);
    desk.pass(3600);
    assert_eq!(desk.told(), [(21 * 3600, "s1 s3")]);
}

#[test]
fn hours_may_go_over_midnight() {
    let night = Hours { from: 22 * 60, to: 7 * 60 };
    let noon = Hours { from: 12 * 60, to: 13 * 60 };
    assert!(night.holds(23 * 60) && night.holds(0) && night.holds(419) && !night.holds(420) && !night.holds(1319));
    assert!(noon.holds(720) && noon.holds(779) && !noon.holds(780) && !noon.holds(0));
}

#[test]
fn only_the_kinds_that_are_wanted_are_told() {
    let mut desk = Desk::new();
    desk.rules.kinds = vec![Kind::Needs];
    desk.stands("s1", What::Ended, 1);
    desk.stands("s2", NEEDS, 1);
    desk.pass(60);
    assert_eq!(desk.told(), [(10, "s2")]);
}

#[test]
fn a_clock_that_is_put_back_silences_nobody_for_long() {
    let mut desk = Desk::new();
    desk.stands("s1", NEEDS, 1);
    desk.pass(20);
    desk.now -= HOUR;
    desk.stands("s2", NEEDS, 1);
    let before = desk.told.len();
    for _ in 0..60 {
        desk.now += SECOND;
        let now = Now { ms: desk.now, minute: 600 };
        let due = desk.board.due(&now, &desk.rules, |_| None);
        if !due.of.is_empty() {
            desk.told.push((0, "s2".into()));
            desk.board.tell(&due.of, String::new(), None, desk.now);
        }
    }
    assert_eq!(desk.told.len(), before + 1, "{:?}", desk.told);
}

#[test]
fn what_ended_before_anybody_listened_is_nobodys_news_and_what_still_asks_is() {
    let mut desk = Desk::new();
    desk.board.take("s1", Some(Standing { what: What::Ended, mark: [1, 0, 0, 0] }), START - HOUR);
    desk.board.skip("s1");
    desk.board.take("s2", Some(Standing { what: NEEDS, mark: [1, 0, 0, 0] }), START - HOUR);
    desk.board.skip("s2");
    desk.pass(60);
    assert_eq!(desk.told(), [(1, "s2")]);
}

#[test]
fn memory_is_bounded_and_who_was_not_told_of_stays() {
    let mut desk = Desk::new();
    desk.stands("first", NEEDS, 1);
    for number in 0..5000 {
        desk.stands(&format!("s{number}"), What::Ended, 1);
    }
    assert_eq!(desk.board.subjects.len(), 4096);
    let mut desk = Desk::new();
    for number in 0..4096 {
        desk.stands(&format!("s{number}"), What::Ended, 1);
    }
    desk.pass(11);
    desk.now += SECOND;
    desk.stands("new", NEEDS, 1);
    desk.stands("newer", NEEDS, 1);
    assert!(desk.board.subjects.contains_key("new") && desk.board.subjects.contains_key("newer"));
    assert_eq!(desk.board.subjects.len(), 4096);
}
