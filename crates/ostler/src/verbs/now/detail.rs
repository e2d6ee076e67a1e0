//! The lower half of Now: the request that is to be answered, or what is known about the row that is chosen, and which keys
//! do something about it.

use std::time::Instant;

use ostler_api::{ApprovalKind, Hosted, HostedKind, HostedSection, SessionStatus};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::draw::{Canvas, cut};
use super::inbox::{Entry, Mode, Sight, Standing, Which};
use super::rows;
use super::state::{State, View};
use crate::config::show_duration;
use crate::output::{Paint, ago, spelled, visible};
use crate::request::full_text;
use crate::transcript::spent_words;
use crate::verbs::claim::claimed;
use crate::verbs::listing::Listed;
use crate::verbs::ps;

const QUESTION_KEYS: [&str; 2] = [
    "1-9 choose   t type an answer   n decline   m decline with a message",
    "i deny and interrupt   space/b page down/up   j/k move   ? keys   q quit",
];
const REQUEST_KEYS: [&str; 2] = [
    "y approve   s for this session   a for 30 days   n deny   m deny with a message",
    "i deny and interrupt   space/b page down/up   j/k move   ? keys   q quit",
];
const KEYS: [&str; 2] = ["Enter attach   d changes   j/k move", "c start an agent   / filter   ? keys   q quit"];
const STOPPED_KEYS: [&str; 2] =
    ["r continue   Enter attach   d changes   j/k move", "c start an agent   / filter   ? keys   q quit"];
const ENDED_KEYS: [&str; 2] =
    ["Enter last output   r run again   d changes   j/k move", "c start an agent   / filter   ? keys   q quit"];
const EMPTY_KEYS: [&str; 2] = ["", "c start an agent   / filter   ? keys   q quit"];

/// What failed, and nobody has seen.
const FAILED_KEYS: [&str; 2] =
    ["Enter read and dismiss   r run again   d changes   j/k move", "c start an agent   / filter   ? keys   q quit"];

/// Draws it; gives back what of a request can be read now.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    rule: Rect,
    area: Rect,
    state: &State,
    canvas: &mut Canvas,
    now: Instant,
) -> Option<Sight> {
    match (state.inbox.selected(), state.hosted()) {
        (Some(entry), _) => Some(draw_request(frame, rule, area, state, entry, canvas, now)),
        (None, Some(one)) => {
            draw_hosted(frame, rule, area, state, one, canvas);
            None
        }
        (None, None) => None,
    }
}

fn draw_request(
    frame: &mut Frame<'_>,
    rule: Rect,
    area: Rect,
    state: &State,
    entry: &Entry,
    canvas: &mut Canvas,
    now: Instant,
) -> Sight {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let Entry { which, info, standing, until } = entry;
    // How long ago it was asked is on it, too.
    let content = format!("{} {}", info.hash, ago(info.asked));
    let rows = canvas.request(which, &content, width, || full_text(&which.instance, info));
    let (top, count) = (state.inbox.top, rows.len());
    let shown: Vec<_> = rows.iter().skip(top).take(height).cloned().collect();
    let sight = Sight { which: which.clone(), hash: info.hash.clone(), width, rows: count, top, height: shown.len() };
    let last = top + shown.len();
    let more = if last < count { " (space: more)" } else { "" };
    let left = until.filter(|_| *standing == Standing::Open).map(|end| end.saturating_duration_since(now));
    let left = left.map(|left| format!(" · {} left", show_duration(left))).unwrap_or_default();
    let text = format!("{} · lines {}-{last} of {count}{more}{left}", visible(&which.id), (top + 1).min(count));
    draw_rule(frame, rule, &text, canvas);
    let lines: Vec<Line<'_>> =
        shown.iter().map(|row| Line::styled(row.text.clone(), canvas.style(row.paint))).collect();
    frame.render_widget(Paragraph::new(lines), area);
    sight
}

fn draw_rule(frame: &mut Frame<'_>, area: Rect, text: &str, canvas: &Canvas) {
    let width = usize::from(area.width);
    let text = cut(&format!("── {text} "), width);
    let rest = width.saturating_sub(ratatui::text::Span::raw(text.as_str()).width());
    let line = format!("{text}{}", "─".repeat(rest));
    frame.render_widget(Paragraph::new(line).style(canvas.style(Paint::Dim)), area);
}

fn draw_hosted(frame: &mut Frame<'_>, rule: Rect, area: Rect, state: &State, one: &Listed, canvas: &Canvas) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let facts = facts(&one.hosted);
    draw_rule(frame, rule, &visible(&title(&one.hosted)), canvas);
    let mut lines: Vec<Line<'_>> =
        facts.iter().map(|(name, text)| Line::raw(cut(&format!("  {name:10} {}", visible(text)), width))).collect();
    let which = Which { instance: one.instance.clone(), id: one.hosted.id.clone() };
    let known = state.lines.as_ref().filter(|(of, _)| *of == which).map(|(_, lines)| lines);
    let last = known.unwrap_or(&one.hosted.lines);
    let room = height.saturating_sub(lines.len() + 1);
    if !last.is_empty() && room > 0 {
        lines.push(Line::raw(""));
        let from = last.len().saturating_sub(room);
        let tail = last.iter().skip(from).map(|line| cut(&format!("  │ {}", visible(line)), width));
        lines.extend(tail.map(|line| Line::styled(line, canvas.style(Paint::Dim))));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// What it is, in a few words.
fn title(hosted: &Hosted) -> String {
    let kind = match hosted.kind {
        HostedKind::Session => format!("session with {}", rows::what(hosted)),
        HostedKind::Terminal => format!("terminal program {}", rows::what(hosted)),
        HostedKind::Command => format!("command {}", rows::what(hosted)),
    };
    format!("{} · {kind} · {}", rows::name(hosted), rows::state(hosted).0)
}

fn facts(hosted: &Hosted) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(process) = &hosted.process {
        facts.push(("command", ps::command(process)));
        let claim = process.claim.as_ref().filter(|_| process.exit.is_none());
        facts.extend(claim.map(|claim| {
            let more = [&claim.title, &claim.message].into_iter().flatten().map(|text| format!(": {text}"));
            ("status", claimed(claim).0 + &more.collect::<String>())
        }));
        facts.extend(process.held_back.clone().map(|why| ("held back", why)));
    }
    facts.extend(hosted.workspace.clone().map(|folder| ("folder", folder)));
    let ended = hosted.ended.map(|ended| format!(", ended {}", ago(ended))).unwrap_or_default();
    let session = hosted.session.as_ref();
    let model = session.and_then(|session| match (&session.reported_model, &session.model) {
        (Some(told), _) => Some(format!(", model {told}")),
        (None, Some(wanted)) => Some(format!(", model {wanted} asked for")),
        (None, None) => None,
    });
    let model = model.unwrap_or_default();
    facts.push(("began", format!("{}{ended}{model}", ago(hosted.began))));
    if let Some(session) = session {
        let used = session.usage.as_ref().map(spent_words).unwrap_or_default();
        facts.extend((!used.is_empty()).then_some(("used", used)));
        let queued = (session.queued > 0).then(|| ("queued", format!("{} prompts queued", session.queued)));
        facts.extend(queued);
        let bad = matches!(session.status, SessionStatus::Failed | SessionStatus::Interrupted);
        facts.extend(session.why.clone().filter(|_| bad).map(|why| ("why", why)));
    }
    facts
}

/// The keys that do something here.
pub(super) fn keys(state: &State) -> [&'static str; 2] {
    match (state.inbox.selected(), state.hosted()) {
        (Some(entry), _) if entry.info.kind == ApprovalKind::Question => QUESTION_KEYS,
        (Some(_), _) => REQUEST_KEYS,
        (None, Some(one)) if one.hosted.ended.is_some() && one.hosted.section == HostedSection::NeedsYou => FAILED_KEYS,
        (None, Some(one)) if one.hosted.ended.is_some() => ENDED_KEYS,
        (None, Some(one)) if one.hosted.session.as_ref().is_some_and(|session| session.rebooted) => STOPPED_KEYS,
        (None, Some(_)) => KEYS,
        (None, None) => EMPTY_KEYS,
    }
}

/// The last line: what is asked of the person, or what happened.
pub(super) fn status(state: &State, canvas: &Canvas, now: Instant) -> Line<'static> {
    let inbox = &state.inbox;
    if let View::Filter = state.view {
        let text = format!("/{}_   (Enter keeps it, Esc shows all)", visible(&state.filter));
        return Line::styled(text, canvas.style(Paint::Warn));
    }
    match &inbox.mode {
        Mode::Message { text, .. } => {
            let text = format!("deny, because: {}_   (Enter sends, Esc cancels)", spelled(text));
            return Line::styled(text, canvas.style(Paint::Warn));
        }
        Mode::Answer(answering) => return Line::styled(spelled(&answering.line()), canvas.style(Paint::Warn)),
        Mode::Look => {}
    }
    let (text, paint) = match inbox.selected() {
        _ if !inbox.notice.is_empty() => (inbox.notice.clone(), Paint::Warn),
        Some(Entry { standing: Standing::Over(how), .. }) => (format!("{how}   (press Enter)"), Paint::Head),
        Some(Entry { standing: Standing::Away(why), .. }) => (why.clone(), Paint::Bad),
        Some(entry) => match inbox.may_decide(now) {
            Ok(()) if entry.info.kind == ApprovalKind::Question => {
                ("press the number of a choice, or t".to_owned(), Paint::Good)
            }
            Ok(()) => ("approve? y/n".to_owned(), Paint::Good),
            Err(why) => (why.words(), Paint::Dim),
        },
        None if state.living == 0 && !state.fresh => ("ostler does not answer; reconnecting".to_owned(), Paint::Warn),
        None => (String::new(), Paint::Plain),
    };
    Line::styled(spelled(&text), canvas.style(paint))
}
