use super::super::rows::Section;
use super::super::rows::tests::{listed, process, session};
use super::*;
use crate::request::{STANDS_FOR, sample};

/// A screen that is tall enough for any request.
fn draw(state: &mut State, now: Instant) {
    let sight = state.inbox.selected().map(|entry| super::super::inbox::Sight {
        which: entry.which.clone(),
        hash: entry.info.hash.clone(),
        width: 80,
        rows: 5,
        top: 0,
        height: 5,
    });
    state.inbox.drawn(sight, now);
}

fn state(requests: &[&str]) -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(now);
    state.live(&["main".into()], now);
    state.update("main", vec![session("s1", "running", 1).into(), process("p2", true, 2).into()]);
    state.inbox.update("main", requests.iter().map(|id| sample(id, &[&["id"]])).collect(), now);
    state.refresh();
    draw(&mut state, now);
    (state, now)
}

fn chosen(state: &State) -> String {
    state.rows.get(state.position()).map(|row| row.name.clone()).unwrap_or_default()
}

fn press(state: &mut State, key: char, now: Instant) -> Option<Act> {
    let act = state.press(Key::Char(key), now);
    state.refresh();
    draw(state, now);
    act
}

#[test]
fn a_request_is_answered_by_the_rules_of_every_surface() {
    let (mut state, now) = state(&["a1"]);
    assert_eq!(press(&mut state, 'y', now), None, "it has only just appeared");
    let Some(Act::Decide(decide)) = press(&mut state, 'y', now + STANDS_FOR) else { panic!() };
    assert_eq!(decide.which.id, "a1");
}

#[test]
fn until_somebody_chooses_what_waits_is_what_they_came_for() {
    let (mut state, now) = state(&[]);
    assert_eq!(chosen(&state), "fix");
    state.inbox.update("main", vec![sample("a1", &[&["id"]])], now);
    state.refresh();
    assert_eq!(state.rows[state.position()].section, Section::NeedsYou);
    press(&mut state, 'j', now);
    press(&mut state, 'j', now);
    assert_eq!(chosen(&state), "p2");
    state.inbox.update("main", vec![sample("a2", &[&["id"]])], now);
    state.refresh();
    assert_eq!(chosen(&state), "p2", "what arrives takes nobody's place");
    assert!(state.inbox.selected().is_none());
}

#[test]
fn a_settled_request_makes_room_for_the_next_and_then_for_the_list() {
    let (mut state, now) = state(&["a1", "a2"]);
    let which = |id: &str| Which { instance: "main".into(), id: id.into() };
    state.inbox.over(&which("a1"), "denied".into());
    state.refresh();
    assert!(state.inbox.is_settled(), "it stays to be read");
    state.press(Key::Enter, now);
    state.refresh();
    assert_eq!(state.inbox.selected().map(|entry| entry.which.id.clone()).as_deref(), Some("a2"));
    state.inbox.over(&which("a2"), "denied".into());
    state.press(Key::Enter, now);
    state.refresh();
    assert_eq!((chosen(&state).as_str(), state.inbox.entries.len()), ("fix", 0));
}

#[test]
fn enter_attaches_to_what_lives_and_reads_what_is_over() {
    let (mut state, now) = state(&[]);
    let which = |id: &str| Which { instance: "main".into(), id: id.into() };
    assert_eq!(state.press(Key::Enter, now), Some(Act::Attach(which("s1"))));
    let mut over = process("p9", false, 9);
    over.exit = Some(ostler_api::Exit { code: Some(0), signal: None, time: None });
    state.update("main", vec![over.into()]);
    state.refresh();
    assert_eq!(state.press(Key::Enter, now), Some(Act::Read(which("p9"))));
}

#[test]
fn a_row_that_goes_leaves_its_place_to_the_next() {
    let (mut state, now) = state(&[]);
    press(&mut state, 'j', now);
    assert_eq!(chosen(&state), "p2");
    state.update("main", vec![session("s1", "running", 1).into()]);
    state.refresh();
    assert_eq!(chosen(&state), "fix");
    state.gone("main");
    state.refresh();
    assert!(state.rows.is_empty() && state.press(Key::Enter, now).is_none());
}

#[test]
fn letters_of_a_filter_do_nothing_else() {
    let (mut state, now) = state(&["a1"]);
    let later = now + STANDS_FOR * 10;
    for key in "/yqmake".chars() {
        assert_eq!(press(&mut state, key, later), None, "{key}");
    }
    assert_eq!(state.filter, "yqmake");
    state.press(Key::Escape, later);
    assert!(state.filter.is_empty());
}

#[test]
fn a_daemon_that_was_killed_is_waited_for_and_one_that_never_was_is_not() {
    let now = Instant::now();
    let mut fresh = State::new(now);
    fresh.live(&[], now);
    assert!(fresh.is_down(now));
    assert_eq!(fresh.press(Key::Char('u'), now), Some(Act::Up));
    assert_eq!(fresh.press(Key::Char('c'), now), None, "the screen offers nothing but u and q");
    assert_eq!(fresh.press(Key::Char('q'), now), Some(Act::Quit));
    let (mut state, now) = state(&[]);
    state.live(&[], now);
    assert!(!state.is_down(now) && state.is_down(now + BACK_WITHIN));
    state.live(&["main".into()], now);
    assert!(!state.is_down(now + BACK_WITHIN));
}

#[test]
fn a_yes_where_nothing_is_asked_says_so() {
    let (mut state, now) = state(&[]);
    assert_eq!(press(&mut state, 'y', now), None);
    assert!(state.inbox.notice.contains("nothing to approve"), "{}", state.inbox.notice);
    assert_eq!(state.hosted().map(|one| one.hosted.id.as_str()), Some("s1"));
    assert_eq!(listed(session("s1", "running", 1)).instance, "main");
}

#[test]
fn one_key_goes_on_with_what_a_reboot_stopped_and_does_nothing_to_others() {
    let (mut state, now) = state(&[]);
    let which = Which { instance: "main".into(), id: "s1".into() };
    assert_eq!(press(&mut state, 'r', now), None, "it is running");
    let mut stopped = session("s1", "interrupted", 1);
    state.update("main", vec![stopped.clone().into()]);
    state.refresh();
    assert_eq!(press(&mut state, 'r', now), None, "somebody stopped it");
    stopped.rebooted = true;
    state.update("main", vec![stopped.into()]);
    state.refresh();
    assert_eq!(state.rows[0].state, "rebooted");
    assert_eq!(press(&mut state, 'r', now), Some(Act::Again(which)));
}

#[test]
fn after_an_answer_the_row_of_who_asked_is_not_chosen_because_it_is_about_to_move() {
    let (mut state, now) = state(&["a1"]);
    let mut asks = session("s1", "waiting", 1);
    asks.approvals = vec!["a1".into()];
    state.update("main", vec![asks.into(), process("p2", true, 2).into()]);
    state.refresh();
    state.inbox.over(&Which { instance: "main".into(), id: "a1".into() }, "approved".into());
    state.press(Key::Enter, now);
    state.refresh();
    assert_eq!(state.which().map(|which| which.id).as_deref(), Some("p2"));
}
