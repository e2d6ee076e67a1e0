//! Which of an agent's modes a session needs.
//!
//! Agents name their modes as they like; these are the words in use. Where the mode that an autonomy needs is not offered,
//! the session must not go on as if it were.

use crate::event::Json;
use crate::json;
use crate::setup::{Agent, Autonomy, Setup};

/// Modes in which an agent asks before it changes anything.
const ASKING: [&str; 4] = ["default", "ask", "manual", "build"];
/// Modes in which it changes files unasked.
const EDITING: [&str; 3] = ["autoEdit", "auto_edit", "acceptEdits"];
/// Modes in which it changes nothing.
const PLANNING: [&str; 3] = ["plan", "read-only", "architect"];

/// What to do about the mode.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is right, or there are no modes and none is needed.
    Leave,
    /// Ask for this one.
    Set(String),
    /// There is none that would do.
    Impossible(String),
}

/// Chooses from what `session/new` or `session/load` offered.
pub(super) fn choose(setup: &Setup, session: &Json) -> Choice {
    let current = json::text(session, &["modes", "currentModeId"]);
    let offered: Vec<&str> =
        json::list(session, &["modes", "availableModes"]).iter().filter_map(|mode| json::text(mode, &["id"])).collect();
    if let Some(raw) = setup.raw_mode.as_deref() {
        return match current {
            Some(current) if current == raw => Choice::Leave,
            _ if offered.contains(&raw) => Choice::Set(raw.to_owned()),
            _ => Choice::Impossible(format!("the mode {raw:?} is not one of {offered:?}")),
        };
    }
    let wanted: &[&str] = match setup.autonomy {
        Autonomy::All | Autonomy::Ask => &ASKING,
        Autonomy::Edits if offered.iter().any(|mode| EDITING.contains(mode)) => &EDITING,
        // Without such a mode its requests to change files are answered here.
        Autonomy::Edits => &ASKING,
        Autonomy::Plan => &PLANNING,
    };
    if current.is_some_and(|mode| wanted.contains(&mode)) {
        return Choice::Leave;
    }
    match wanted.iter().find(|mode| offered.contains(mode)) {
        Some(mode) => Choice::Set((*mode).to_owned()),
        None if setup.autonomy == Autonomy::Plan => {
            Choice::Impossible(format!("no mode for planning among {offered:?}"))
        }
        None if offered.is_empty() => Choice::Leave,
        // An unknown agent asks by rules of its own; a known one must be in a mode that is known to ask.
        None if matches!(setup.agent, Agent::Acp { .. }) => Choice::Leave,
        None => Choice::Impossible(format!("no mode that asks among {offered:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setup(agent: Agent, autonomy: Autonomy) -> Setup {
        Setup {
            agent,
            program: None,
            cwd: "/w".into(),
            model: None,
            autonomy,
            resume: None,
            new_session_id: "n".into(),
            raw_mode: None,
        }
    }

    fn offer(current: &str, ids: &[&str]) -> Json {
        let modes: Vec<Json> = ids.iter().map(|id| json!({ "id": id, "name": id })).collect();
        json!({ "modes": { "currentModeId": current, "availableModes": modes } })
    }

    #[test]
    fn a_laxer_mode_than_asked_for_is_changed() {
        let modes = offer("yolo", &["default", "autoEdit", "yolo", "plan"]);
        for (autonomy, mode) in [
            (Autonomy::All, "default"),
            (Autonomy::Ask, "default"),
            (Autonomy::Edits, "autoEdit"),
            (Autonomy::Plan, "plan"),
        ] {
            assert_eq!(choose(&setup(Agent::Gemini, autonomy), &modes), Choice::Set(mode.to_owned()));
        }
        assert_eq!(choose(&setup(Agent::Gemini, Autonomy::Ask), &offer("default", &["default"])), Choice::Leave);
    }

    #[test]
    fn a_plan_that_nobody_would_hold_to_is_refused() {
        let choice = choose(&setup(Agent::Acp { command: vec!["x".into()] }, Autonomy::Plan), &json!({}));
        assert!(matches!(choice, Choice::Impossible(_)));
    }

    #[test]
    fn a_known_agent_without_a_mode_that_asks_is_refused() {
        let choice = choose(&setup(Agent::Gemini, Autonomy::Ask), &offer("yolo", &["yolo"]));
        assert!(matches!(choice, Choice::Impossible(_)));
    }
}
