//! The messages of a conversation as a person reads them, and as they are added.

use std::process::ExitCode;

use ostler_api::{
    HistoryChanged, HistoryElement, HistoryElementKind, HistoryMessage, HistoryMessagesParams, HistorySpeaker, methods,
};

use super::call;
use crate::output::{CommandError, Paint, counted, visible, visible_lines};
use crate::verbs::Context;
use crate::verbs::connect::Reached;

/// Messages of the end when nobody says how many.
const MESSAGES: u32 = 20;
/// How long one question for more waits.
const WAIT_MS: u64 = 10_000;
/// Lines of a tool's output that are shown.
const OUTPUT_LINES: usize = 12;

/// What is read of which.
pub(super) struct View<'a> {
    pub(super) id: &'a str,
    pub(super) from: Option<&'a str>,
    pub(super) limit: Option<u32>,
    pub(super) follow: bool,
}

pub(super) fn run(context: &Context, reached: &mut Reached, view: &View<'_>) -> Result<ExitCode, CommandError> {
    let from = view.from.map(|from| if from == "0" { "0-0".to_owned() } else { from.to_owned() });
    // None of what is there: with --follow, only what is added.
    let mut wants_none = view.limit == Some(0) && !(view.follow && view.from.is_some());
    let limit = view.limit.filter(|limit| *limit > 0).unwrap_or(MESSAGES);
    let mut params =
        HistoryMessagesParams { id: view.id.to_owned(), from, before: None, number: None, limit, wait_ms: 0 };
    loop {
        let page = call::<methods::HistoryMessages>(reached, &params)?;
        match page.changed {
            Some(HistoryChanged::Truncated) => {
                context.screen.note("ostler: the transcript is shorter than it was; from its beginning:")
            }
            Some(HistoryChanged::Replaced) => {
                context.screen.note("ostler: the transcript was replaced; from its beginning:")
            }
            None => {}
        }
        if page.unread > 0 {
            context.screen.note(&format!("ostler: {} could not be read", counted(page.unread, "line", "lines")));
        }
        for message in page.messages.iter().filter(|_| !wants_none) {
            match context.json() {
                true => context.screen.value(message)?,
                false => show(context, message)?,
            }
        }
        if !view.follow {
            let before = page.older && params.from.is_none() && !context.json();
            if before {
                context.screen.note(&format!(
                    "older ones: ostler history --read {} -n {}",
                    visible(view.id),
                    limit.saturating_mul(2)
                ));
            }
            return Ok(ExitCode::SUCCESS);
        }
        (params.from, params.wait_ms, wants_none) = (Some(page.next), WAIT_MS, false);
    }
}

fn show(context: &Context, message: &HistoryMessage) -> Result<(), CommandError> {
    for element in &message.elements {
        let (mark, text, paint) = words(message.speaker, element);
        for (number, line) in visible_lines(&text).split('\n').enumerate() {
            let mark = if number == 0 { mark } else { " " };
            context.screen.line(&context.screen.paint(paint, &format!("{mark} {line}")))?;
        }
        for diff in &element.diffs {
            context.screen.line(&context.screen.paint(Paint::Dim, &format!("  changes {}", visible(&diff.path))))?;
        }
    }
    if message.cut {
        context.screen.line(&context.screen.paint(Paint::Dim, "  (cut; the rest is in the transcript)"))?;
    }
    Ok(())
}

fn words(speaker: HistorySpeaker, element: &HistoryElement) -> (&'static str, String, Paint) {
    let text = || element.text.clone().unwrap_or_default();
    match element.kind {
        HistoryElementKind::Text if speaker == HistorySpeaker::Person => (">", text(), Paint::Head),
        HistoryElementKind::Text => (" ", text(), Paint::Plain),
        HistoryElementKind::Thought => ("~", text(), Paint::Dim),
        HistoryElementKind::Image => (
            "*",
            format!("{}, {} bytes", element.mime.as_deref().unwrap_or("image"), element.bytes.unwrap_or(0)),
            Paint::Dim,
        ),
        HistoryElementKind::Tool => {
            ("$", element.title.clone().or_else(|| element.name.clone()).unwrap_or_default(), Paint::Plain)
        }
        HistoryElementKind::Result => {
            let text = text();
            let mut lines: Vec<&str> = text.lines().take(OUTPUT_LINES).collect();
            if text.lines().nth(OUTPUT_LINES).is_some() {
                lines.push("…");
            }
            ("|", lines.join("\n"), if element.is_error { Paint::Bad } else { Paint::Dim })
        }
        HistoryElementKind::Compaction => ("*", format!("the conversation was compacted\n{}", text()), Paint::Dim),
        HistoryElementKind::Notice => ("!", text(), Paint::Warn),
    }
}
