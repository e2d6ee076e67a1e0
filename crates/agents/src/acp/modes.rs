//! Which of an agent's modes a session needs.
//!
//! Agents name their modes as they like; these are the words in use. Where the mode that an autonomy needs is not offered,
//! the session must not go on as if it were.

use serde_json::json;

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

/// What an agent lets its client choose, and what is chosen now. Told under `modes` and `models`, or as an option of the
/// configuration with that category.
#[derive(Debug, Default)]
pub(super) struct Offer<'a> {
    pub(super) current: Option<&'a str>,
    offered: Vec<&'a str>,
    /// The option that it is, if it is one.
    option: Option<&'a str>,
}

impl<'a> Offer<'a> {
    /// The modes of a conversation that was opened.
    pub(super) fn modes(session: &'a Json) -> Self {
        Self::read(session, "mode", &["modes", "currentModeId"], &["modes", "availableModes"], "id")
    }

    /// Its models.
    pub(super) fn models(session: &'a Json) -> Self {
        Self::read(session, "model", &["models", "currentModelId"], &["models", "availableModels"], "modelId")
    }

    fn read(session: &'a Json, category: &str, current: &[&str], offered: &[&str], id: &str) -> Self {
        if let Some(current) = json::text(session, current) {
            let offered = json::list(session, offered).iter().filter_map(|one| json::text(one, &[id])).collect();
            return Offer { current: Some(current), offered, option: None };
        }
        let of_category = |option: &&Json| json::text(option, &["category"]) == Some(category);
        let Some(option) = json::list(session, &["configOptions"]).iter().find(of_category) else {
            return Offer::default();
        };
        let values = json::list(option, &["options"]).iter().filter_map(|one| json::text(one, &["value"])).collect();
        Offer { current: json::text(option, &["currentValue"]), offered: values, option: json::text(option, &["id"]) }
    }

    /// The request that chooses: its method and parameters.
    pub(super) fn choice(&self, session: &str, method: &'static str, name: &str, value: &str) -> (&'static str, Json) {
        match self.option {
            Some(option) => {
                ("session/set_config_option", json!({ "sessionId": session, "configId": option, "value": value }))
            }
            None => {
                let mut params = json!({ "sessionId": session });
                if let Some(params) = params.as_object_mut() {
                    params.insert(name.to_owned(), json!(value));
                }
                (method, params)
            }
        }
    }
}

/// Chooses from the modes that were offered.
pub(super) fn choose(setup: &Setup, modes: &Offer<'_>) -> Choice {
    let Offer { current, offered, .. } = modes;
    if let Some(raw) = setup.raw_mode.as_deref() {
        return match current {
            Some(current) if *current == raw => Choice::Leave,
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
            assert_eq!(choose(&setup(Agent::Gemini, autonomy), &Offer::modes(&modes)), Choice::Set(mode.to_owned()));
        }
        let modes = offer("default", &["default"]);
        assert_eq!(choose(&setup(Agent::Gemini, Autonomy::Ask), &Offer::modes(&modes)), Choice::Leave);
    }

    #[test]
    fn modes_may_be_an_option_of_the_configuration() {
        let options = json!({ "configOptions": [
            { "id": "llm", "category": "model", "currentValue": "m", "options": [{ "value": "m" }] },
            { "id": "agent", "category": "mode", "currentValue": "build", "options": [{ "value": "build" }, { "value": "plan" }] },
        ] });
        let modes = Offer::modes(&options);
        assert_eq!(choose(&setup(Agent::Opencode, Autonomy::Ask), &modes), Choice::Leave);
        assert_eq!(choose(&setup(Agent::Opencode, Autonomy::Plan), &modes), Choice::Set("plan".into()));
        let (method, params) = modes.choice("s", "session/set_mode", "modeId", "plan");
        assert_eq!(method, "session/set_config_option");
        assert_eq!(params, json!({ "sessionId": "s", "configId": "agent", "value": "plan" }));
        assert_eq!(Offer::models(&options).current, Some("m"));
    }

    #[test]
    fn a_plan_that_nobody_would_hold_to_is_refused() {
        let choice = choose(&setup(Agent::Acp { command: vec!["x".into()] }, Autonomy::Plan), &Offer::default());
        assert!(matches!(choice, Choice::Impossible(_)));
    }

    #[test]
    fn a_known_agent_without_a_mode_that_asks_is_refused() {
        let choice = choose(&setup(Agent::Gemini, Autonomy::Ask), &Offer::modes(&offer("yolo", &["yolo"])));
        assert!(matches!(choice, Choice::Impossible(_)));
    }
}
