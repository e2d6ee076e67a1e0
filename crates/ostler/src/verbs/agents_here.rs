//! Which agents are here and who is logged in, as the daemon sees it: agents get its environment, not this terminal's.

use std::time::Duration;

use ostler_api::{AgentInfo, AgentsParams, LoginState, methods};
use ostler_engine::session::{Finder, agents_here};
use ostler_engine::{Environment, Forker};

use super::connect::Reached;
use crate::config::Config;

/// Some agents need half a minute to say their version on a machine that is busy.
const ASKED_WITHIN: Duration = Duration::from_secs(90);
/// Nobody who starts ostler wants to wait for a login shell that hangs.
const SEEN_WITHIN: Duration = Duration::from_secs(3);

/// As the daemon finds them. `ask`: each is asked for its version too. Nothing from a daemon that is older, or does not answer in
/// time.
pub(super) fn of_daemon(reached: &mut Reached, ask: bool) -> Option<Vec<AgentInfo>> {
    reached.client.answer_within(Some(if ask { ASKED_WITHIN } else { SEEN_WITHIN })).ok()?;
    let found = reached.client.call::<methods::InstanceAgents>(&AgentsParams { ask });
    reached.client.answer_within(Some(ostler_api::client::ANSWER_TIMEOUT)).ok()?;
    found.ok().map(|list| list.agents)
}

/// As a daemon would find them that is started from here.
pub(super) fn of_this_terminal(config: &Config, ask: bool) -> Vec<AgentInfo> {
    let (finder, environment) =
        (Finder::new(None, config.sessions.oneshot, Forker::here()), Environment::of_this_process(&[]));
    let found = agents_here(&finder, &environment, &config.sessions, ask);
    found.into_iter().map(ostler_door_native::agent_info).collect()
}

/// How to log in, for an agent that can.
pub(super) fn how_to_log_in(name: &str) -> Option<&'static str> {
    Some(match name {
        "claude" => "claude auth login",
        "codex" => "codex login",
        "gemini" => "gemini, once, or set GEMINI_API_KEY",
        "opencode" => "opencode auth login",
        _ => return None,
    })
}

/// Whether it can be talked to, in a few words.
pub(super) fn state(agent: &AgentInfo) -> String {
    match (&agent.program, agent.login) {
        (None, _) => "not installed".to_owned(),
        (Some(_), LoginState::Yes) => "logged in".to_owned(),
        (Some(_), LoginState::Unknown) => "installed".to_owned(),
        (Some(_), LoginState::No) => match how_to_log_in(&agent.name) {
            Some(how) => format!("not logged in: {how}"),
            None => "not logged in".to_owned(),
        },
    }
}
