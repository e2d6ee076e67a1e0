use serde_json::json;

use super::*;
use crate::request::{STANDS_FOR, sample};

const STEP: Duration = Duration::from_millis(1);

/// A person in front of a screen that shows so many rows.
struct Desk {
    state: Inbox,
    now: Instant,
    height: usize,
    rows: usize,
}

impl Desk {
    fn new(ids: &[&str], rows: usize, height: usize) -> Self {
        let now = Instant::now();
        let mut desk = Self { state: Inbox::new(now), now, height, rows };
        desk.arrive("main", ids);
        desk
    }

    fn arrive(&mut self, instance: &str, ids: &[&str]) {
        let list = ids.iter().map(|id| sample(id, &[&["id", id]])).collect();
        self.state.update(instance, list, self.now);
        if self.state.selected().is_none() {
            self.show_first();
        }
        self.draw();
    }

    fn show_first(&mut self) {
        let first = self.state.entries.first().map(|entry| entry.which.clone());
        self.state.show(first);
    }

    fn draw(&mut self) {
        let sight = self.state.selected().map(|entry| Sight {
            which: entry.which.clone(),
            hash: entry.info.hash.clone(),
            width: 80,
            rows: self.rows,
            top: self.state.top,
            height: self.height,
        });
        self.state.drawn(sight, self.now);
    }

    fn wait(&mut self, span: Duration) {
        self.now += span;
        self.draw();
    }

    fn press(&mut self, key: char) -> Option<Decide> {
        let act = self.state.press(Key::Char(key), self.now);
        self.draw();
        act
    }

    fn selected(&self) -> String {
        self.state.selected().map(|entry| entry.which.id.clone()).unwrap_or_default()
    }
}

fn decided(act: Option<Decide>) -> Option<(String, Verdict)> {
    match act {
        Some(Decide { which, verdict, .. }) => Some((which.id, verdict)),
        _ => None,
    }
}

#[test]
fn a_key_decides_only_what_was_unchanged_for_300_milliseconds() {
    let mut desk = Desk::new(&["a1"], 5, 10);
    desk.wait(STANDS_FOR - STEP);
    assert_eq!(desk.press('y'), None);
    assert!(desk.state.notice.contains("just appeared"), "{}", desk.state.notice);
    desk.wait(STEP);
    assert_eq!(decided(desk.press('y')), Some(("a1".into(), Verdict::Once)));
}

#[test]
fn a_key_decides_only_after_the_whole_content_was_visible() {
    let mut desk = Desk::new(&["a1"], 25, 10);
    desk.wait(STANDS_FOR);
    for key in ['y', 'n', 's', 'a', 'i', 'm'] {
        assert_eq!(desk.press(key), None, "{key}");
        assert_eq!(desk.state.mode, Mode::Look, "{key}");
    }
    assert_eq!(desk.state.may_decide(desk.now), Err(NotNow::Unread(15)));
    desk.press(' ');
    desk.wait(STANDS_FOR);
    assert_eq!(desk.state.may_decide(desk.now), Err(NotNow::Unread(5)));
    desk.press(' ');
    assert_eq!(desk.press('y'), None, "scrolling changed the screen");
    desk.wait(STANDS_FOR);
    assert_eq!(desk.state.may_decide(desk.now), Err(NotNow::Typing), "so many keys in a row");
    desk.wait(TYPING_FOR);
    assert_eq!(decided(desk.press('y')), Some(("a1".into(), Verdict::Once)));
}

#[test]
fn rows_that_were_skipped_were_not_seen() {
    let mut desk = Desk::new(&["a1"], 30, 10);
    desk.state.top = 20;
    desk.wait(STANDS_FOR);
    assert_eq!(desk.state.may_decide(desk.now), Err(NotNow::Unread(20)));
}

#[test]
fn another_width_is_another_page_and_must_be_seen_again() {
    let mut desk = Desk::new(&["a1"], 12, 10);
    desk.press(' ');
    desk.wait(STANDS_FOR);
    assert_eq!(desk.state.may_decide(desk.now), Ok(()));
    desk.rows = 40;
    desk.wait(STANDS_FOR);
    assert!(matches!(desk.state.may_decide(desk.now), Err(NotNow::TooSoon | NotNow::Unread(_))));
}

#[test]
fn what_comes_or_goes_never_takes_the_place_of_what_is_read() {
    let mut desk = Desk::new(&["a2"], 5, 10);
    desk.wait(STANDS_FOR);
    desk.arrive("main", &["a1", "a3"]);
    desk.arrive("another", &["a0"]);
    assert_eq!((desk.selected(), desk.state.entries.len()), ("a2".into(), 4));
    let which = |instance: &str, id: &str| Which { instance: instance.into(), id: id.into() };
    desk.state.over(&which("another", "a0"), "expired".into());
    assert_eq!(decided(desk.press('y')), Some(("a2".into(), Verdict::Once)));
    desk.state.over(&which("main", "a2"), "denied by another".into());
    desk.wait(STANDS_FOR);
    assert_eq!((desk.selected(), desk.press('y')), ("a2".into(), None));
    assert!(desk.state.notice.contains("settled"), "{}", desk.state.notice);
    desk.press(' ');
    assert_eq!((desk.selected(), desk.state.entries.len()), ("a1".into(), 2));
    assert_eq!(desk.press('y'), None, "the next one has only just appeared");
}

#[test]
fn keys_typed_ahead_of_the_screen_decide_nothing() {
    let mut desk = Desk::new(&["a1", "a2"], 5, 10);
    desk.wait(STANDS_FOR);
    desk.state.show(Some(Which { instance: "main".into(), id: "a2".into() }));
    assert_eq!(desk.state.press(Key::Char('y'), desk.now + STANDS_FOR), None, "a2 was not drawn yet");
}

#[test]
fn the_last_of_a_list_makes_room_when_it_is_settled() {
    let mut desk = Desk::new(&["a1"], 5, 10);
    desk.state.over(&Which { instance: "main".into(), id: "a1".into() }, "expired".into());
    desk.press(' ');
    assert!(desk.state.entries.is_empty() && desk.state.selected().is_none());
    desk.arrive("main", &["a2"]);
    assert_eq!(desk.selected(), "a2");
}

#[test]
fn a_message_denies_what_was_on_the_screen_when_it_was_begun() {
    let mut desk = Desk::new(&["a1"], 5, 10);
    desk.wait(STANDS_FOR);
    desk.press('m');
    for key in "noyq".chars() {
        assert_eq!(desk.press(key), None);
    }
    desk.state.press(Key::Backspace, desk.now);
    let Some(Decide { which, verdict, message, .. }) = desk.state.press(Key::Enter, desk.now) else { panic!() };
    assert_eq!((which.id.as_str(), verdict, message.as_str()), ("a1", Verdict::Deny, "noy"));
    desk.press('m');
    desk.state.press(Key::Escape, desk.now);
    assert_eq!(desk.state.mode, Mode::Look);
}

#[test]
fn a_request_of_an_instance_that_is_away_cannot_be_decided_until_it_is_back() {
    let mut desk = Desk::new(&["a1"], 5, 10);
    desk.wait(STANDS_FOR);
    desk.state.away("main", "does not answer");
    assert_eq!(desk.state.may_decide(desk.now), Err(NotNow::Settled));
    desk.arrive("main", &["a1"]);
    assert_eq!(desk.state.may_decide(desk.now), Ok(()));
}

/// A question of an agent on the screen.
fn question() -> Desk {
    let mut desk = Desk::new(&[], 5, 10);
    let mut question = sample("a1", &[]);
    question.kind = ApprovalKind::Question;
    let asked =
        serde_json::json!({"id": "colour", "question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]});
    let content =
        serde_json::json!({"agent": "echo", "tool": "q", "title": "t", "input": {}, "can": {}, "questions": [asked]});
    question.content = content.to_string();
    desk.state.update("main", vec![question], desk.now);
    desk.show_first();
    desk.draw();
    desk
}

#[test]
fn a_question_is_answered_with_the_number_of_a_choice_or_denied() {
    let mut desk = question();
    assert_eq!(desk.press('2'), None, "it has only just appeared");
    assert_eq!(desk.state.mode, Mode::Look);
    desk.wait(STANDS_FOR);
    assert_eq!(desk.press('y'), None, "a question has no yes");
    let Some(Decide { verdict, answers, .. }) = desk.press('2') else { panic!() };
    assert_eq!((verdict, json!(answers)), (Verdict::Answers, json!({"colour": ["blue"]})));
    assert_eq!(decided(desk.press('n')), Some(("a1".into(), Verdict::Deny)));
}

#[test]
fn while_words_are_typed_no_letter_decides() {
    let mut desk = question();
    desk.wait(STANDS_FOR);
    for key in "tnqyi".chars() {
        assert_eq!(desk.press(key), None);
    }
    let Some(Decide { answers, .. }) = desk.state.press(Key::Enter, desk.now) else { panic!() };
    assert_eq!(json!(answers), json!({"colour": ["nqyi"]}));
    desk.press('t');
    desk.state.press(Key::Escape, desk.now);
    assert_eq!(desk.state.press(Key::Escape, desk.now), None);
    assert_eq!(desk.state.mode, Mode::Look);
}

#[test]
fn numbers_mean_nothing_for_a_command() {
    let mut desk = Desk::new(&["a1"], 5, 10);
    desk.wait(STANDS_FOR);
    assert_eq!((desk.press('1'), desk.press('t')), (None, None));
    assert_eq!(desk.state.mode, Mode::Look);
}

#[test]
fn words_that_somebody_types_decide_nothing() {
    for words in ["m please use", "m not safe", "m say yes", "maybe yes"] {
        let mut desk = Desk::new(&["a"], 20, 13);
        desk.wait(STANDS_FOR);
        for key in words.chars() {
            assert_eq!(desk.press(key), None, "{words}: {key}");
            desk.wait(Duration::from_millis(400));
        }
        // The rest was read meanwhile, and the hands rest.
        desk.press(' ');
        desk.wait(TYPING_FOR);
        assert_eq!(decided(desk.press('y')), Some(("a".to_owned(), Verdict::Once)), "{words}");
    }
}

#[test]
fn a_message_that_could_not_begin_is_no_row_of_keys() {
    let mut desk = Desk::new(&["a"], 5, 13);
    assert_eq!(desk.press('m'), None);
    desk.wait(STANDS_FOR);
    assert_eq!((desk.press('s'), desk.press('y')), (None, None));
}
