//! How a turn ends, in the right words: by the agent, by somebody who stopped it, or by its process.

use ostler_story::{Agent, EndReason, Ended, Exit, Why};

use super::Line;
use crate::event::Event;

/// Nobody who reads along has asked for it.
pub(super) const INTERRUPTED: &str = "the turn was interrupted before its answer was whole";
/// Of what a process wrote to stderr, its last line is shown, up to here.
const STDERR_MAX: usize = 300;
const TERM: i32 = 15;

/// The event that a turn ends with. Clients pass over `interrupted`, so that is told only where somebody asked for it: to anybody
/// else half an answer must not look like a whole one. `told` knows whether the agent has just said these words.
pub(super) fn ending(
    agent: &Agent,
    ended: Ended,
    told: impl Fn(&str) -> bool,
    session_id: Option<&str>,
    line: Line<'_>,
) -> Event {
    let stopped = ended.stopped.is_some() && ended.is_unhappy();
    let result = || Event::Result { session_id: session_id.map(str::to_owned), raw: line.and_then(|line| line()) };
    match (ended.reason, ended.why) {
        _ if stopped => Event::Interrupted,
        (_, Some(Why::Exited { exit, stderr, .. })) => Event::error(exited(agent, exit, &stderr)),
        (EndReason::Interrupted, why) => Event::error(words(why).unwrap_or_else(|| INTERRUPTED.to_owned())),
        // What the agent has just said itself is not said again.
        (EndReason::Failed, Some(Why::Told(why))) if told(&why) && line.is_some() => result(),
        (EndReason::Failed, why) => Event::error(words(why).unwrap_or_else(|| "the turn failed".to_owned())),
        _ => result(),
    }
}

fn words(why: Option<Why>) -> Option<String> {
    match why {
        Some(Why::Told(words)) => Some(words),
        Some(Why::Exited { .. }) | None => None,
    }
}

/// In the words that clients know.
fn exited(agent: &Agent, exit: Exit, stderr: &str) -> String {
    let name = capital(agent.name());
    match exit {
        Exit::Code(0) => format!("{name} ended without a result"),
        Exit::Unknown => format!("{name} is gone: nobody saw how it ended"),
        Exit::Signal(TERM) => format!("{name} was ended from outside (signal {TERM}) before its answer was whole"),
        _ => abnormal(&name, exit, stderr),
    }
}

fn abnormal(name: &str, exit: Exit, stderr: &str) -> String {
    let or_null = |number: Option<i32>| number.map_or("null".to_owned(), |number| number.to_string());
    let said = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let said = said.map_or(String::new(), |said| format!(": {}", said.chars().take(STDERR_MAX).collect::<String>()));
    format!("{name} process exited abnormally (code={}, signal={}){said}", or_null(exit.code()), or_null(exit.signal()))
}

fn capital(name: &str) -> String {
    let mut name = name.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}
