//! The inbox on a screen. Everything that comes from outside passes through [`spelled`] on its way into a cell, and the
//! places of list and request depend on the size of the screen alone: what arrives moves nothing.

use std::time::Instant;

use ostler_api::ApprovalKind;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::state::{Entry, Mode, Sight, Standing, State, Which};
use crate::config::show_duration;
use crate::output::{Paint, spelled};
use crate::request::{NARROWEST, Row, sheet, wrap};

/// Below this there is no room for a request beside its frame.
const LOWEST: u16 = 12;
/// The list takes a quarter of the screen, within these bounds.
const LIST_ROWS: std::ops::RangeInclusive<u16> = 2..=8;
const QUESTION_KEYS: [&str; 2] = [
    "1-9 choose   t words of your own   n no answer   m no, with a message",
    "i no, and stop it   space/b read on, back   j/k other request   q leave",
];
const KEYS: [&str; 2] = [
    "y yes   s yes, in this session   a yes, always   n no   m no, with a message",
    "i no, and stop it   space/b read on, back   j/k other request   q leave",
];

/// The rows of the request on the screen; made once per request and width, because a request can be long.
#[derive(Default)]
pub(super) struct Page {
    of: Option<(Which, String, usize)>,
    rows: Vec<Row>,
}

impl Page {
    fn of(&mut self, entry: &Entry, width: usize) -> &[Row] {
        let key = Some((entry.which.clone(), entry.info.hash.clone(), width));
        if self.of != key {
            self.rows = wrap(&sheet(&entry.which.instance, &entry.info), width);
            self.of = key;
        }
        &self.rows
    }
}

/// Draws all of it; gives back what of a request can be read now.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, page: &mut Page, now: Instant) -> Option<Sight> {
    let area = frame.area();
    if usize::from(area.width) < NARROWEST || area.height < LOWEST {
        let (width, height) = (area.width, area.height);
        let lines = [format!("this terminal is too small: {width}x{height}"), format!("needed: {NARROWEST}x{LOWEST}")];
        frame.render_widget(Paragraph::new(lines.map(Line::from).to_vec()), area);
        return None;
    }
    let list_rows = (area.height / 4).clamp(*LIST_ROWS.start(), *LIST_ROWS.end());
    let parts = [1, list_rows, 1, 0, 2, 1].map(|rows| match rows {
        0 => Constraint::Min(1),
        rows => Constraint::Length(rows),
    });
    let [title, list, rule, detail, keys, question] = Layout::vertical(parts).areas(area);
    let waiting = state.entries.iter().filter(|entry| entry.standing == Standing::Open).count();
    let head = format!(" ostler approvals: {waiting} waiting");
    frame.render_widget(Paragraph::new(head).style(Style::new().add_modifier(Modifier::REVERSED)), title);
    draw_list(frame, list, state, now);
    let sight = draw_request(frame, rule, detail, state, page);
    let asks = state.selected().is_some_and(|entry| entry.info.kind == ApprovalKind::Question);
    let help = if asks { QUESTION_KEYS } else { KEYS };
    frame.render_widget(Paragraph::new(help.map(Line::from).to_vec()).style(Style::new().dim()), keys);
    // Nothing stands below it.
    frame.render_widget(Paragraph::new(status_line(state, now)), question);
    sight
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State, now: Instant) {
    if state.entries.is_empty() {
        return frame.render_widget(Paragraph::new("  nothing waits for you"), area);
    }
    let room = usize::from(area.height);
    let at = state.position();
    // The selected one is always in view.
    let first = (at + 1).saturating_sub(room);
    let lines = state.entries.iter().enumerate().skip(first).take(room).map(|(index, entry)| {
        let mark = if index == at { '>' } else { ' ' };
        let right = if entry.info.privileged { "root" } else { "    " };
        let left = match (&entry.standing, entry.until) {
            (Standing::Over(_), _) => "settled".to_owned(),
            (Standing::Away(_), _) => "away".to_owned(),
            (Standing::Open, Some(end)) => show_duration(end.saturating_duration_since(now)),
            (Standing::Open, None) => String::new(),
        };
        let id = entry.which.id.get(..7).unwrap_or(&entry.which.id);
        let text = format!("{mark} {id:7}  {right}  {left:>7}  {:8}  {}", entry.which.instance, entry.info.title);
        let style = if index == at { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        Line::styled(cut(&spelled(&text), area.width), style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn draw_request(frame: &mut Frame<'_>, rule: Rect, area: Rect, state: &State, page: &mut Page) -> Option<Sight> {
    let entry = state.selected()?;
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let rows = page.of(entry, width);
    let shown: Vec<Line<'_>> =
        rows.iter().skip(state.top).take(height).map(|row| Line::styled(row.text.as_str(), style(row.paint))).collect();
    let sight = Sight {
        which: entry.which.clone(),
        hash: entry.info.hash.clone(),
        width,
        rows: rows.len(),
        top: state.top,
        height: shown.len(),
    };
    let last = state.top + shown.len();
    let more = if last < rows.len() { "  (space: more)" } else { "" };
    let text = format!("── lines {}-{last} of {}{more} ", state.top + 1, rows.len());
    let text = format!("{text:─<width$}");
    frame.render_widget(Paragraph::new(cut(&text, area.width)).style(Style::new().dim()), rule);
    frame.render_widget(Paragraph::new(shown), area);
    Some(sight)
}

fn status_line(state: &State, now: Instant) -> Line<'static> {
    if let Mode::Message { text, .. } = &state.mode {
        let text = format!("no, because: {}_   (Enter sends it, Esc does not)", spelled(text));
        return Line::styled(text, style(Paint::Warn));
    }
    if let Mode::Answer(answering) = &state.mode {
        return Line::styled(spelled(&answering.line()), style(Paint::Warn));
    }
    let (text, paint) = match state.selected().map(|entry| &entry.standing) {
        _ if !state.notice.is_empty() => (state.notice.clone(), Paint::Warn),
        Some(Standing::Over(how)) => (format!("{how}   (Enter goes on)"), Paint::Head),
        Some(Standing::Away(why)) => (why.clone(), Paint::Bad),
        Some(Standing::Open) => match state.may_decide(now) {
            Ok(()) if state.selected().is_some_and(|entry| entry.info.kind == ApprovalKind::Question) => {
                ("answer: the number of a choice, or t".to_owned(), Paint::Good)
            }
            Ok(()) => ("decide: y or n".to_owned(), Paint::Good),
            Err(why) => (why.words(), Paint::Dim),
        },
        None => (String::new(), Paint::Plain),
    };
    Line::styled(spelled(&text), style(paint))
}

fn style(paint: Paint) -> Style {
    match paint {
        Paint::Plain => Style::new(),
        Paint::Head => Style::new().add_modifier(Modifier::BOLD),
        Paint::Good => Style::new().fg(Color::Green),
        Paint::Warn => Style::new().fg(Color::Yellow),
        Paint::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Paint::Dim => Style::new().add_modifier(Modifier::DIM),
    }
}

/// As much as fits, and a sign that there was more.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let (mut short, mut used) = (String::new(), 0);
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        used += Span::raw(grapheme.symbol).width();
        if used >= width {
            break;
        }
        short.push_str(grapheme.symbol);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::sample;
    use ostler_api::ApprovalInfo;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    struct Shown {
        terminal: Terminal<TestBackend>,
        state: State,
        page: Page,
        now: Instant,
    }

    impl Shown {
        fn new(width: u16, height: u16, list: Vec<ApprovalInfo>) -> Self {
            let now = Instant::now();
            let mut state = State::new(now);
            state.update("main", list, now);
            let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            Self { terminal, state, page: Page::default(), now }
        }

        fn draw(&mut self) -> Option<Sight> {
            let mut sight = None;
            self.terminal.draw(|frame| sight = draw(frame, &self.state, &mut self.page, self.now)).unwrap();
            self.state.drawn(sight.clone(), self.now);
            sight
        }

        fn text(&self) -> String {
            let buffer = self.terminal.backend().buffer();
            let rows = buffer.content.chunks(usize::from(buffer.area.width));
            rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
        }
    }

    #[test]
    fn nothing_raw_reaches_a_cell() {
        let nasty = "\x1b]0;x\x07\u{9b}2J\u{202e}\u{2066}\u{200b}\u{200d}\u{2028}\u{feff}\u{ad}\n\r\tend";
        let mut info = sample("a1", &[&["printf", nasty]]);
        (info.title, info.reason) = (nasty.into(), nasty.into());
        info.asker.claimed_session = nasty.into();
        (info.asker.claimed_host, info.asker.client, info.asker.door) = (nasty.into(), nasty.into(), nasty.into());
        (info.asker.verified_session, info.workspace) = (Some(nasty.into()), Some(nasty.into()));
        let mut shown = Shown::new(100, 60, vec![info]);
        for standing in [Standing::Open, Standing::Over(nasty.into()), Standing::Away(nasty.into())] {
            shown.state.entries[0].standing = standing;
            shown.draw();
            for cell in &shown.terminal.backend().buffer().content {
                let ours = ["─", "…", "↳", "│"].contains(&cell.symbol());
                assert!(ours || spelled(cell.symbol()) == cell.symbol(), "{:?}", cell.symbol());
            }
        }
        shown.state.notice = nasty.into();
        shown.draw();
        let text = shown.text();
        for trace in ["\\x1b]0;x\\x07", "\\u009b", "\\u202e", "\\u{200b}", "\\u{2028}", "\\n"] {
            assert!(text.contains(trace), "{trace} is not seen in\n{text}");
        }
    }

    #[test]
    fn what_arrives_does_not_move_what_is_read() {
        let mut shown = Shown::new(80, 24, vec![sample("a1", &[&["id"]])]);
        let before = shown.draw();
        let many = (2..40).map(|n| sample(&format!("a{n}"), &[&["ls"]])).collect();
        shown.state.update("main", many, shown.now);
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
        assert_eq!(shown.state.may_decide(later), Ok(()));
    }

    #[test]
    fn on_a_screen_that_is_too_small_nothing_can_be_decided() {
        let mut shown = Shown::new(80, 11, vec![sample("a1", &[&["id"]])]);
        assert_eq!(shown.draw(), None);
        assert!(shown.state.may_decide(shown.now + std::time::Duration::from_secs(9)).is_err());
    }
}
