//! Now on a screen. Everything that comes from outside is made visible on its way into a cell, and where things are depends
//! on the size of the screen and on what was chosen: what arrives moves nothing.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::detail;
use super::inbox::{Sight, Standing, Which};
use super::rows::{Row, Section};
use super::start::{Field, Form};
use super::state::{State, View};
use crate::config::show_duration;
use crate::output::{CommandError, Paint, spelled, visible};
use crate::request::{self, NARROWEST};
use crate::verbs::recorded::BUSY;

/// Below this there is no room for a request beside its frame.
const LOWEST: u16 = 12;
/// Beside a request the list takes a quarter of the screen, within these bounds.
const BESIDE_REQUEST: std::ops::RangeInclusive<u16> = 2..=8;
/// Of what it costs, cents are enough in a list.
const COST: usize = 8;
const AGE: usize = 6;

/// What drawing needs beside the state: colours or not, and the rows of the request on the screen, which are made once per
/// request and width, because a request can be long.
pub(super) struct Canvas {
    pub(super) colour: bool,
    of: Option<(Which, String, usize)>,
    rows: Vec<request::Row>,
}

impl Canvas {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, of: None, rows: Vec::new() }
    }

    /// The rows of this request at this width.
    pub(super) fn request(
        &mut self,
        which: &Which,
        hash: &str,
        width: usize,
        make: impl FnOnce() -> Vec<request::Row>,
    ) -> &[request::Row] {
        let key = Some((which.clone(), hash.to_owned(), width));
        if self.of != key {
            (self.rows, self.of) = (request::wrap(&make(), width), key);
        }
        &self.rows
    }

    pub(super) fn style(&self, paint: Paint) -> Style {
        let colour = |colour| if self.colour { Style::new().fg(colour) } else { Style::new() };
        match paint {
            Paint::Plain => Style::new(),
            Paint::Head => Style::new().add_modifier(Modifier::BOLD),
            Paint::Good => colour(Color::Green),
            Paint::Warn => colour(Color::Yellow),
            Paint::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
            Paint::Dim => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

/// Draws all of it; gives back what of a request can be read now.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    state: &mut State,
    canvas: &mut Canvas,
    down: Option<&CommandError>,
    now: Instant,
) -> Option<Sight> {
    let area = frame.area();
    if usize::from(area.width) < NARROWEST || area.height < LOWEST {
        let (width, height) = (area.width, area.height);
        let needed = match height < LOWEST {
            true => format!("needs {LOWEST} rows"),
            false => format!("needs {NARROWEST} columns"),
        };
        let lines = [format!("too small: {width}x{height}"), needed];
        frame.render_widget(Paragraph::new(lines.map(Line::from).to_vec()), area);
        return None;
    }
    match &mut state.view {
        View::Page(pager) => {
            let [head, body, foot] = split(area, [1, 0, 1]);
            let rows = pager.page(usize::from(body.width), usize::from(body.height));
            let lines: Vec<Line<'_>> =
                rows.iter().map(|row| Line::styled(row.text.clone(), canvas.style(row.paint))).collect();
            frame.render_widget(Paragraph::new(lines), body);
            let title = cut(&format!(" {}", pager.title), usize::from(head.width));
            frame.render_widget(Paragraph::new(title).style(canvas.style(Paint::Head)), head);
            let place = format!(" {}   q back", pager.place());
            frame.render_widget(Paragraph::new(place).style(canvas.style(Paint::Dim)), foot);
            return None;
        }
        View::Start(form) => {
            draw_form(frame, area, form, canvas);
            return None;
        }
        View::List | View::Filter => {}
    }
    if let (Some(error), true) = (down, state.rows.is_empty()) {
        draw_down(frame, area, error, state, canvas);
        return None;
    }
    // A request is to be read whole: it has most of the screen for as long as it is shown.
    let rows = match state.inbox.selected() {
        Some(_) => (area.height / 4).clamp(*BESIDE_REQUEST.start(), *BESIDE_REQUEST.end()),
        None => area.height * 2 / 5,
    };
    let [title, list, rule, body, keys, status] = split(area, [1, rows, 1, 0, 2, 1]);
    frame.render_widget(Paragraph::new(title_line(state, canvas, usize::from(title.width))), title);
    draw_list(frame, list, state, canvas);
    let sight = detail::draw(frame, rule, body, state, canvas, now);
    let help = detail::keys(state);
    frame.render_widget(Paragraph::new(help.map(Line::from).to_vec()).style(canvas.style(Paint::Dim)), keys);
    // Nothing stands below it.
    frame.render_widget(Paragraph::new(detail::status(state, canvas, now)), status);
    sight
}

/// Rows of a screen: so many each, and what is left for the one that is 0.
fn split<const N: usize>(area: Rect, rows: [u16; N]) -> [Rect; N] {
    let parts = rows.map(|rows| match rows {
        0 => Constraint::Min(1),
        rows => Constraint::Length(rows),
    });
    Layout::vertical(parts).areas(area)
}

fn title_line(state: &State, canvas: &Canvas, width: usize) -> Line<'static> {
    let waiting = state.inbox.entries.iter().filter(|entry| entry.standing == Standing::Open).count();
    let claims = state.rows.iter().filter(|row| row.section == Section::NeedsYou).count();
    let claims = claims.saturating_sub(state.inbox.entries.len());
    let count = |section| state.rows.iter().filter(|row| row.section == section).count();
    let waits = if waiting + claims > 0 { Paint::Warn } else { Paint::Plain };
    let mut spans = vec![
        Span::styled(" ostler", canvas.style(Paint::Head)),
        Span::raw("   "),
        Span::styled(format!("{} waiting", waiting + claims), canvas.style(waits)),
        Span::raw(format!(" · {} open · {} ended", count(Section::Open), count(Section::Ended))),
    ];
    let filter = match (&state.view, state.filter.is_empty()) {
        (View::Filter, _) => Some((format!("/{}_", visible(&state.filter)), Paint::Warn)),
        (_, false) => Some((format!("/{}  (Esc: all)", visible(&state.filter)), Paint::Warn)),
        _ if state.busy => Some((BUSY.to_owned(), Paint::Warn)),
        _ if state.suspended.values().any(|(_, locked)| *locked) => {
            Some(("locked: ostler approvals --unlock".to_owned(), Paint::Bad))
        }
        (_, true) => match state.suspended.values().map(|(count, _)| count).sum::<u64>() {
            0 => None,
            1 => Some(("1 rule suspended: ostler rules affirm".to_owned(), Paint::Warn)),
            many => Some((format!("{many} rules suspended: ostler rules affirm"), Paint::Warn)),
        },
    };
    if let Some((text, paint)) = filter {
        let used: usize = spans.iter().map(Span::width).sum();
        let text = cut(&text, width.saturating_sub(used + 4));
        let gap = width.saturating_sub(used + Span::raw(text.as_str()).width() + 1);
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(Span::styled(text, canvas.style(paint)));
    }
    Line::from(spans)
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State, canvas: &Canvas) {
    let width = usize::from(area.width);
    let at = state.position();
    let columns = Columns::of(width, &state.rows);
    let (mut lines, mut chosen) = (Vec::new(), 0);
    let waits = state.rows.first().is_some_and(|row| row.section == Section::NeedsYou);
    if !waits {
        let text = match (state.rows.is_empty(), state.filter.is_empty(), state.fresh) {
            (_, _, true) => " looking …",
            (true, false, _) => " nothing matches the filter",
            (true, true, _) => " nothing is waiting for you, and nothing is open; c starts an agent",
            (false, ..) => " nothing is waiting for you",
        };
        lines.push(Line::styled(cut(text, width), canvas.style(Paint::Dim)));
    }
    let mut section = None;
    for (index, row) in state.rows.iter().enumerate() {
        if section != Some(row.section) {
            section = Some(row.section);
            lines.push(Line::styled(format!(" {}", row.section.title()), canvas.style(Paint::Dim)));
        }
        if index == at {
            chosen = lines.len();
        }
        lines.push(columns.line(row, index == at, canvas));
    }
    let room = usize::from(area.height);
    // The chosen one is always in view, with what it stands under where there is room for that.
    let first = (chosen + 1).saturating_sub(room);
    let more = lines.len().saturating_sub(first + room);
    let mut shown: Vec<Line<'_>> = lines.into_iter().skip(first).take(room).collect();
    if more > 0
        && let Some(last) = shown.last_mut().filter(|_| chosen + 1 < first + room)
    {
        *last = Line::styled(format!("  … {} more", more + 1), canvas.style(Paint::Dim));
    }
    frame.render_widget(Paragraph::new(shown), area);
}

/// How wide each column is, by the width of the screen.
struct Columns {
    name: usize,
    what: usize,
    state: usize,
    folder: usize,
    line: usize,
    cost: usize,
}

impl Columns {
    fn of(width: usize, rows: &[Row]) -> Self {
        let (name, what, folder) = match width {
            0..60 => (12, 0, 0),
            60..100 => (12, 8, 10),
            100..160 => (18, 10, 16),
            _ => (26, 12, 28),
        };
        let state = 11;
        let used = 2 + [name, what, state, folder].iter().map(|column| gap(*column)).sum::<usize>() + AGE + 1;
        // Half a sum of money says another.
        let fits = used + COST < width;
        let cost = if fits && rows.iter().any(|row| row.cost.is_some()) { COST + 1 } else { 0 };
        Self { name, what, state, folder, line: width.saturating_sub(used + cost), cost }
    }

    fn line(&self, row: &Row, chosen: bool, canvas: &Canvas) -> Line<'static> {
        let mark = if chosen { "> " } else { "  " };
        let age = show_duration(row.since.elapsed()).replace(' ', "");
        let age = if row.since.elapsed().as_secs() == 0 { "now".to_owned() } else { age };
        let cost = row.cost.map(|cost| format!("${cost:.2}")).unwrap_or_default();
        let dim = if row.section == Section::Ended { Paint::Dim } else { Paint::Plain };
        // Whoever decides by what they read sees every odd character.
        let safe = if row.section == Section::NeedsYou { spelled } else { visible };
        let cell = |text: &str, width: usize, paint| {
            let text = cut(&safe(text), width);
            let pad = gap(width).saturating_sub(Span::raw(text.as_str()).width());
            Span::styled(format!("{text}{}", " ".repeat(pad)), canvas.style(paint))
        };
        let head = if chosen { Paint::Head } else { dim };
        let mut spans = vec![
            Span::styled(mark, canvas.style(Paint::Head)),
            cell(&row.name, self.name, head),
            cell(&row.what, self.what, dim),
            cell(&row.state, self.state, row.paint),
            cell(&row.folder, self.folder, dim),
            cell(&row.line, self.line.saturating_sub(1), dim),
            Span::styled(format!("{age:>AGE$}"), canvas.style(Paint::Dim)),
        ];
        if self.cost > 0 {
            spans.push(Span::styled(format!(" {cost:>COST$}"), canvas.style(Paint::Dim)));
        }
        Line::from(spans)
    }
}

/// A column and the blank after it; one that is not there has none.
const fn gap(width: usize) -> usize {
    if width == 0 { 0 } else { width + 1 }
}

fn draw_down(frame: &mut Frame<'_>, area: Rect, error: &CommandError, state: &State, canvas: &Canvas) {
    let text = |text: &str| Line::raw(format!("  {}", visible(text)));
    let mut lines = vec![Line::styled(" ostler", canvas.style(Paint::Head)), Line::raw(""), text(&error.message)];
    lines.extend(error.hint.as_deref().map(text));
    lines.extend([Line::raw(""), Line::raw("  u  start it"), Line::raw("  q  leave"), Line::raw("")]);
    lines.push(Line::styled(format!("  {}", visible(&state.inbox.notice)), canvas.style(Paint::Warn)));
    frame.render_widget(Paragraph::new(lines).wrap(ratatui::widgets::Wrap { trim: false }), area);
}

fn draw_form(frame: &mut Frame<'_>, area: Rect, form: &Form, canvas: &Canvas) {
    let width = usize::from(area.width);
    let label = |field: Field, text: &str| {
        let paint = if form.field == field { Paint::Head } else { Paint::Dim };
        let mark = if form.field == field { "> " } else { "  " };
        Span::styled(format!(" {mark}{text:8}"), canvas.style(paint))
    };
    let mut agents = vec![label(Field::Agent, "Agent")];
    for (index, name) in form.agents.iter().enumerate() {
        let chosen = index == form.chosen;
        let text = if chosen { format!("[{}] ", visible(name)) } else { format!(" {}  ", visible(name)) };
        agents.push(Span::styled(text, canvas.style(if chosen { Paint::Head } else { Paint::Dim })));
    }
    let absent = match form.absent.as_slice() {
        [] => String::new(),
        names => cut(&format!("            not installed: {}", visible(&names.join(", "))), width),
    };
    let typed = |field: Field, name: &str, text: &str| {
        let cursor = if form.field == field { "_" } else { "" };
        let text = format!("{}{cursor}", visible(text));
        // The end of it is where somebody types.
        let room = width.saturating_sub(13);
        let skip = Span::raw(text.as_str()).width().saturating_sub(room);
        let shown: String = text.chars().skip(skip).collect();
        Line::from(vec![label(field, name), Span::raw(shown)])
    };
    let hint = match form.field {
        Field::Agent => "←/→ or first letter: choose   Enter: next   Esc: back",
        Field::Folder => "Ctrl-U: clear   Enter: next   Esc: back",
        Field::Prompt => "Enter: start   Esc: back",
    };
    let mut lines = vec![
        Line::styled(" Start an agent", canvas.style(Paint::Head)),
        Line::raw(""),
        Line::from(agents),
        Line::styled(absent, canvas.style(Paint::Dim)),
        typed(Field::Folder, "Folder", &form.folder),
        typed(Field::Prompt, "Prompt", &form.prompt),
        Line::raw(""),
        Line::styled(format!("   {hint}"), canvas.style(Paint::Dim)),
        Line::raw(""),
    ];
    let problem = form.problem.iter().map(|line| format!("   {}", visible(line)));
    lines.extend(problem.map(|line| Line::styled(line, canvas.style(Paint::Bad))));
    frame.render_widget(Paragraph::new(lines).wrap(ratatui::widgets::Wrap { trim: false }), area);
}

/// As much as fits, and a sign that there was more.
pub(super) fn cut(text: &str, width: usize) -> String {
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
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
