//! Which way a CLI is driven, told by the text of its `--help`.
//!
//! No branch looks at a version: a program that offers the better way in its help is driven that way, any other one
//! process for each prompt.

use ostler_story::{Agent, Drive};

/// Chooses by the text of `PROGRAM --help`.
pub fn probe(agent: &Agent, help: &str) -> Drive {
    let (word, drive) = match agent {
        Agent::Claude => ("--input-format", Drive::Stream),
        Agent::Codex => ("app-server", Drive::AppServer),
        Agent::Gemini => ("--acp", Drive::Acp),
        Agent::Opencode => ("acp", Drive::Acp),
        Agent::Acp { .. } => return Drive::Acp,
        Agent::Echo => return Drive::Echo,
    };
    let edge = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
    if help.split(edge).any(|found| found == word) { drive } else { Drive::Oneshot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_way_is_taken_when_the_help_offers_it() {
        assert_eq!(probe(&Agent::Claude, "  --input-format <format>   Input format"), Drive::Stream);
        assert_eq!(probe(&Agent::Codex, "Commands:\n  exec\n  app-server  [experimental]"), Drive::AppServer);
        assert_eq!(probe(&Agent::Gemini, "  --acp  Starts the agent in ACP mode  [boolean]"), Drive::Acp);
        assert_eq!(probe(&Agent::Opencode, "  opencode acp    start ACP server"), Drive::Acp);
    }

    #[test]
    fn a_word_inside_another_is_not_an_offer() {
        assert_eq!(probe(&Agent::Gemini, "  --experimental-acp  old"), Drive::Oneshot);
        assert_eq!(probe(&Agent::Opencode, "  opencode acpx"), Drive::Oneshot);
        assert_eq!(probe(&Agent::Claude, "9.9.9 (fake claude)"), Drive::Oneshot);
    }

    #[test]
    fn what_has_only_one_way_needs_no_help_text() {
        assert_eq!(probe(&Agent::Echo, ""), Drive::Echo);
        assert_eq!(probe(&Agent::acp(vec!["x".into()]), ""), Drive::Acp);
    }
}
