use super::super::rows::tests::{process, session};
use super::*;
use crate::request::sample;
use ostler_api::ApprovalInfo;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

struct Shown {
    terminal: Terminal<TestBackend>,
    state: State,
    canvas: Canvas,
    now: Instant,
}

impl Shown {
    fn new(width: u16, height: u16, list: Vec<ApprovalInfo>) -> Self {
        let now = Instant::now();
        let mut state = State::new(now);
        state.fresh = false;
        state.inbox.update("main", list, now);
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Self { terminal, state, canvas: Canvas::new(true), now }
    }

    fn draw(&mut self) -> Option<Sight> {
        let mut sight = None;
        self.state.refresh();
        let (state, canvas, now) = (&mut self.state, &mut self.canvas, self.now);
        self.terminal.draw(|frame| sight = draw(frame, state, canvas, None, now)).unwrap();
        self.state.inbox.drawn(sight.clone(), self.now);
        sight
    }

    fn text(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let rows = buffer.content.chunks(usize::from(buffer.area.width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }
}

const NASTY: &str = "\x1b]0;x\x07\u{9b}2J\u{202e}\u{2066}\u{200b}\u{200d}\u{2028}\u{feff}\u{ad}\n\r\tend";

#[test]
fn nothing_raw_reaches_a_cell() {
    let nasty = NASTY;
    let mut info = sample("a1", &[&["printf", nasty]]);
    (info.title, info.reason) = (nasty.into(), nasty.into());
    info.asker.claimed_session = nasty.into();
    (info.asker.claimed_host, info.asker.client, info.asker.door) = (nasty.into(), nasty.into(), nasty.into());
    (info.asker.verified_session, info.workspace) = (Some(nasty.into()), Some(nasty.into()));
    let mut shown = Shown::new(100, 90, vec![info]);
    for standing in [Standing::Open, Standing::Over(nasty.into()), Standing::Away(nasty.into())] {
        shown.state.inbox.entries[0].standing = standing;
        shown.draw();
        for cell in &shown.terminal.backend().buffer().content {
            let ours = ["─", "…", "↳", "│", "·"].contains(&cell.symbol());
            assert!(ours || spelled(cell.symbol()) == cell.symbol(), "{:?}", cell.symbol());
        }
    }
    shown.state.inbox.notice = nasty.into();
    shown.draw();
    let text = shown.text();
    for trace in ["\\x1b]0;x\\x07", "\\u009b", "\\u202e", "\\u{200b}", "\\u{2028}", "\\n"] {
        assert!(text.contains(trace), "{trace} is not seen in\n{text}");
    }
}

#[test]
fn nothing_raw_of_what_is_hosted_reaches_a_cell() {
    let nasty = || NASTY.to_owned();
    let mut hosted: ostler_api::Hosted = process("p1", true, 1).into();
    (hosted.name, hosted.workspace, hosted.lines) = (Some(nasty()), Some(nasty()), vec![nasty(), nasty()]);
    if let Some(process) = &mut hosted.process {
        (process.program, process.args) = (nasty(), vec![nasty()]);
        let state = ostler_api::ClaimState::Working;
        let claim = ostler_api::Claim {
            state,
            kind: Some(nasty()),
            title: Some(nasty()),
            message: None,
            since: None,
            app: Some(nasty()),
            progress: None,
            reported: true,
        };
        process.claim = Some(claim);
    }
    let mut failed = session("s1", "failed", 2);
    (failed.why, failed.agent, failed.model) = (Some(nasty()), nasty(), Some(nasty()));
    let mut shown = Shown::new(200, 50, Vec::new());
    shown.state.update("main", vec![hosted, failed.into()]);
    shown.state.filter = String::new();
    for _ in 0..2 {
        shown.draw();
        for cell in &shown.terminal.backend().buffer().content {
            assert!(visible(cell.symbol()) == cell.symbol(), "{:?}", cell.symbol());
        }
        assert!(shown.text().contains("^[]0;x^G"), "{}", shown.text());
        shown.state.press(super::super::keys::Key::Down, shown.now);
    }
}

#[test]
fn what_arrives_does_not_move_what_is_read() {
    let mut shown = Shown::new(80, 24, vec![sample("a1", &[&["id"]])]);
    let before = shown.draw();
    let many = (2..40).map(|n| sample(&format!("a{n}"), &[&["ls"]])).collect();
    shown.state.inbox.update("main", many, shown.now);
    assert_eq!(shown.draw(), before);
    assert!(shown.text().contains("39 waiting"), "{}", shown.text());
}

#[test]
fn a_long_request_is_read_in_pages_that_leave_nothing_out() {
    // One letter each, so that no line break can come within a word.
    let words: Vec<String> = ('\u{4e00}'..'\u{4f90}').map(String::from).collect();
    let argv: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut shown = Shown::new(60, 20, vec![sample("a1", &[&argv])]);
    let mut read = String::new();
    loop {
        let sight = shown.draw().unwrap();
        read.push_str(&shown.text());
        if sight.top + sight.height == sight.rows {
            break;
        }
        shown.state.press(super::super::keys::Key::PageDown, shown.now);
    }
    assert!(words.iter().all(|word| read.contains(word.as_str())));
    let later = shown.now + crate::request::STANDS_FOR;
    assert_eq!(shown.state.inbox.may_decide(later), Ok(()));
}

#[test]
fn on_a_screen_that_is_too_small_nothing_can_be_decided() {
    let mut shown = Shown::new(80, 11, vec![sample("a1", &[&["id"]])]);
    assert_eq!(shown.draw(), None);
    assert!(shown.text().contains("too small: 80x11"));
    assert!(shown.state.inbox.may_decide(shown.now + std::time::Duration::from_secs(9)).is_err());
}

#[test]
fn every_size_shows_all_three_sections_and_fits() {
    for (width, height) in [(80, 24), (120, 40), (200, 50), (40, 16)] {
        let mut shown = Shown::new(width, height, vec![sample("a1", &[&["id"]])]);
        let mut over = process("p3", false, 3);
        over.exit = Some(ostler_api::Exit { code: Some(1), signal: None, time: None });
        let all = vec![session("s1", "running", 1).into(), process("p2", true, 2).into(), over.into()];
        shown.state.update("main", all);
        shown.draw();
        let text = shown.text();
        assert_eq!(text.lines().last().map(str::trim_end), Some("this just appeared; press again"), "{text}");
        shown.state.press(super::super::keys::Key::Down, shown.now);
        shown.draw();
        let text = shown.text();
        let list: Vec<&str> = text.lines().take_while(|line| !line.starts_with("──")).collect();
        if height >= 24 {
            for part in ["1 waiting · 2 open · 1 ended", "NEEDS YOU", "OPEN", "ENDED", "fix", "exited 1"] {
                assert!(list.iter().any(|line| line.contains(part)), "{part} at {width}x{height}:\n{text}");
            }
        }
    }
}

#[test]
fn what_it_costs_is_shown_whole_or_not_at_all() {
    for width in 40..=120 {
        let mut shown = Shown::new(width, 24, Vec::new());
        let mut new = session("s1", "running", 1);
        (new.created, new.activity) = (ostler_api::Timestamp::now(), ostler_api::Timestamp::now());
        shown.state.update("main", vec![new.into()]);
        shown.draw();
        let text = shown.text();
        let row = text.lines().find(|line| line.contains("fix")).unwrap();
        assert_eq!(row.contains('$'), row.contains("$0.25"), "{width}:\n{text}");
        assert!(row.contains('$') || ![43, 59, 63, 80, 120].contains(&width), "{width}:\n{text}");
    }
}

#[test]
fn without_colour_no_cell_has_one_and_the_chosen_row_is_still_seen() {
    let mut shown = Shown::new(80, 24, vec![sample("a1", &[&["id"]])]);
    shown.canvas = Canvas::new(false);
    shown.draw();
    let coloured = |cell: &ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
    assert!(!shown.terminal.backend().buffer().content.iter().any(coloured));
    assert!(shown.text().lines().any(|line| line.starts_with("> ")));
}

#[test]
fn a_list_that_is_longer_than_its_place_says_how_much_more_there_is() {
    let mut shown = Shown::new(80, 24, Vec::new());
    let all = (0..40).map(|n| process(&format!("p{n:02}"), false, n).into()).collect();
    shown.state.update("main", all);
    shown.draw();
    assert!(shown.text().contains("… 34 more"), "{}", shown.text());
    for _ in 0..40 {
        shown.state.press(super::super::keys::Key::Down, shown.now);
    }
    shown.draw();
    assert!(shown.text().lines().any(|line| line.starts_with("> p39")), "{}", shown.text());
}

#[test]
fn a_record_that_is_busy_is_told_at_the_usual_width_and_hides_no_question() {
    let mut shown = Shown::new(80, 40, vec![sample("a1", &[&["true"]])]);
    shown.state.busy = true;
    shown.draw();
    let text = shown.text();
    assert!(text.lines().next().is_some_and(|title| title.contains(BUSY)), "{text}");
    assert!(shown.state.inbox.notice.is_empty());
}
