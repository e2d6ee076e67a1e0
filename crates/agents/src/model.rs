//! Whether the model that an agent says it runs is the one that was asked for.
//!
//! An agent that does not know a model, or no longer has it, may run another without a word. What it costs and how well it
//! answers is then not what anybody chose, so a difference stops the session before it is prompted.

use ostler_story::{ErrorKind, Event};

use crate::setup::Setup;

/// The error to stop with, if `told` is not what was asked for. Names without a figure (`sonnet`, `default`) are the agent's
/// own words for whatever it takes for them; a full name must come back, at most with a place before it and a date behind.
pub(crate) fn differs(setup: &Setup, told: &str) -> Option<Event> {
    let wanted = setup.model.as_deref()?;
    let chosen_by_it = !wanted.bytes().any(|byte| byte.is_ascii_digit()) && !wanted.contains('/');
    (!chosen_by_it && !is_same(wanted, told)).then(|| refused(setup, &format!("it runs {told} instead")))
}

/// The error of an agent that would not run the model.
pub(crate) fn refused(setup: &Setup, why: &str) -> Event {
    let wanted = setup.model.as_deref().unwrap_or_default();
    let message = format!("{} does not run the model {wanted}: {why}", setup.agent.name());
    Event::Error { message, fatal: true, kind: ErrorKind::Setup }
}

fn is_same(wanted: &str, told: &str) -> bool {
    let (wanted, told) = (plain(wanted), plain(told));
    let Some((place, rest)) = told.split_once(wanted.as_str()) else { return false };
    let place_ends = place.is_empty() || place.ends_with(['.', '/']);
    let dated = |rest: &str| {
        let date: String = rest.chars().take_while(char::is_ascii_digit).collect();
        date.len() == 8
    };
    place_ends && (rest.is_empty() || rest.strip_prefix(['-', '@']).is_some_and(dated))
}

/// Without what only says how large its window is (`[1m]`).
fn plain(name: &str) -> String {
    name.split('[').next().unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::{Agent, Autonomy};

    fn runs(wanted: &str, told: &str) -> bool {
        let setup = Setup {
            agent: Agent::Claude,
            program: None,
            cwd: "/w".into(),
            model: Some(wanted.into()),
            autonomy: Autonomy::Ask,
            resume: None,
            new_session_id: "n".into(),
            raw_mode: None,
        };
        differs(&setup, told).is_none()
    }

    #[test]
    fn a_full_name_must_come_back() {
        assert!(!runs("claude-opus-4-1", "claude-opus-5-5"));
        assert!(!runs("claude-opus-4", "claude-opus-4-1"), "another version is another model");
        assert!(!runs("fake/nope", "opencode/big-pickle"));
        assert!(!runs("opus-4-1", "my-opus-4-1"), "only a place may stand before it");
    }

    #[test]
    fn a_date_a_place_and_a_window_make_no_difference() {
        for (wanted, told) in [
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
            ("claude-sonnet-4-5", "claude-sonnet-4-5@20250929"),
            ("claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
            ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
            ("CLAUDE-OPUS-5-5", "claude-opus-5-5"),
        ] {
            assert!(runs(wanted, told), "{wanted} {told}");
        }
    }

    #[test]
    fn a_word_of_the_agents_own_means_what_it_takes_for_it() {
        assert!(runs("sonnet", "claude-sonnet-5-5") && runs("default", "claude-opus-5-5") && runs("best", "a-1"));
    }
}
