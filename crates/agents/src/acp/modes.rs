//! Which of an agent's modes a session needs.
//!
//! Agents name their modes as they like; these are the words in use. Where the mode that an autonomy needs is not offered,
//! the session must not go on as if it were.

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, LoadSessionResponse, SessionConfigKind, SessionConfigOption,
    SessionConfigOptionCategory as Category, SessionConfigSelectOptions as Values, SessionId,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use ostler_story::{Agent, Autonomy, Json};
use serde_json::json;

use crate::json;
use crate::setup::Setup;

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

/// A request that chooses: its method and parameters.
type Request = (&'static str, Json);

impl<'a> Offer<'a> {
    /// The modes of a conversation that was opened.
    pub(super) fn modes(session: &'a LoadSessionResponse) -> Self {
        let Some(modes) = &session.modes else { return Self::option(session, &Category::Mode) };
        let offered = modes.available_modes.iter().map(|mode| &*mode.id.0).collect();
        Offer { current: Some(&modes.current_mode_id.0), offered, option: None }
    }

    /// Its models. The protocol has given up `models` for options; agents have not.
    pub(super) fn models(session: &'a LoadSessionResponse, told: &'a Json) -> Self {
        let Some(current) = json::text(told, &["models", "currentModelId"]) else {
            return Self::option(session, &Category::Model);
        };
        let offered = json::list(told, &["models", "availableModels"]).iter();
        let offered = offered.filter_map(|model| json::text(model, &["modelId"])).collect();
        Offer { current: Some(current), offered, option: None }
    }

    fn option(session: &'a LoadSessionResponse, category: &Category) -> Self {
        let of_category = |option: &&SessionConfigOption| option.category.as_ref() == Some(category);
        let Some(option) = session.config_options.iter().flatten().find(of_category) else { return Offer::default() };
        let SessionConfigKind::Select(select) = &option.kind else { return Offer::default() };
        let offered = match &select.options {
            Values::Ungrouped(values) => values.iter().map(|one| &*one.value.0).collect(),
            Values::Grouped(groups) => {
                groups.iter().flat_map(|group| &group.options).map(|one| &*one.value.0).collect()
            }
            _ => Vec::new(),
        };
        Offer { current: Some(&select.current_value.0), offered, option: Some(&option.id.0) }
    }

    /// Chooses a mode.
    pub(super) fn set_mode(&self, session: &SessionId, mode: &str) -> Request {
        let plain = || json!(SetSessionModeRequest::new(session.clone(), mode.to_owned()));
        self.set_option(session, mode).unwrap_or_else(|| (METHODS.session_set_mode, plain()))
    }

    /// Chooses a model.
    pub(super) fn set_model(&self, session: &SessionId, model: &str) -> Request {
        let plain = || json!({ "sessionId": session, "modelId": model });
        self.set_option(session, model).unwrap_or_else(|| ("session/set_model", plain()))
    }

    fn set_option(&self, session: &SessionId, value: &str) -> Option<Request> {
        let params = SetSessionConfigOptionRequest::new(session.clone(), self.option?.to_owned(), value);
        Some((METHODS.session_set_config_option, json!(params)))
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
    use serde::Deserialize;

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

    fn read(session: &Json) -> LoadSessionResponse {
        LoadSessionResponse::deserialize(session).unwrap()
    }

    fn offer(current: &str, ids: &[&str]) -> LoadSessionResponse {
        let modes: Vec<Json> = ids.iter().map(|id| json!({ "id": id, "name": id })).collect();
        read(&json!({ "modes": { "currentModeId": current, "availableModes": modes } }))
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
        let value = |value: &str| json!({ "value": value, "name": value });
        let models = json!([{ "group": "g", "name": "G", "options": [value("m")] }]);
        let told = json!({ "configOptions": [
            { "id": "llm", "name": "Model", "category": "model", "type": "select", "currentValue": "m", "options": models },
            { "id": "agent", "name": "Mode", "category": "mode", "type": "select", "currentValue": "build",
                "options": [value("build"), value("plan")] },
        ] });
        let session = read(&told);
        let modes = Offer::modes(&session);
        assert_eq!(choose(&setup(Agent::Opencode, Autonomy::Ask), &modes), Choice::Leave);
        assert_eq!(choose(&setup(Agent::Opencode, Autonomy::Plan), &modes), Choice::Set("plan".into()));
        let (method, params) = modes.set_mode(&SessionId::new("s"), "plan");
        assert_eq!(method, "session/set_config_option");
        assert_eq!(params, json!({ "sessionId": "s", "configId": "agent", "value": "plan" }));
        let models = Offer::models(&session, &told);
        assert_eq!((models.current, models.offered), (Some("m"), vec!["m"]), "also from groups");
    }

    #[test]
    fn a_plan_that_nobody_would_hold_to_is_refused() {
        let choice = choose(&setup(Agent::acp(vec!["x".into()]), Autonomy::Plan), &Offer::default());
        assert!(matches!(choice, Choice::Impossible(_)));
    }

    #[test]
    fn a_known_agent_without_a_mode_that_asks_is_refused() {
        let choice = choose(&setup(Agent::Gemini, Autonomy::Ask), &Offer::modes(&offer("yolo", &["yolo"])));
        assert!(matches!(choice, Choice::Impossible(_)));
    }
}
