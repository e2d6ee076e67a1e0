//! Which agent a name means: one that is known everywhere, or a command of the settings.
//!
//! A session keeps the name, never the command: what the settings say when its agent is started is what is run, and one
//! that they no longer have is not run at all.

use ostler_story::Agent;

use super::SessionConfig;

/// Nothing is called that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no agent `{name}`")]
pub struct UnknownAgent {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<String>,
}

/// A session's agent is in the settings no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent `{0}` is no longer in the settings: add it again, run `ostler restart`, and send the prompt again")]
pub(super) struct Vanished(String);

impl SessionConfig {
    /// The agent that people call this.
    pub fn agent(&self, name: &str) -> Result<Agent, UnknownAgent> {
        let own =
            || self.agents.contains_key(name).then(|| Agent::Acp { command: Vec::new(), name: Some(name.to_owned()) });
        Agent::known(name).or_else(own).ok_or_else(|| {
            let known = Agent::KNOWN.into_iter().chain(self.agents.keys().map(String::as_str));
            UnknownAgent { name: name.to_owned(), known: known.map(str::to_owned).collect() }
        })
    }

    /// A session's agent with the command that it is started by.
    pub(super) fn with_command(&self, agent: Agent) -> Result<Agent, Vanished> {
        let Agent::Acp { name: Some(name), .. } = agent else { return Ok(agent) };
        match self.agents.get(&name) {
            Some(command) => Ok(Agent::Acp { command: command.clone(), name: Some(name) }),
            None => Err(Vanished(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SessionConfig {
        let agents = [("mine".to_owned(), vec!["/opt/mine".to_owned(), "--acp".to_owned()])];
        SessionConfig { agents: agents.into(), ..SessionConfig::default() }
    }

    #[test]
    fn a_name_of_the_settings_is_an_agent_and_its_command_is_looked_up_when_it_starts() {
        let agent = config().agent("mine").unwrap();
        assert_eq!((agent.name(), &agent), ("mine", &Agent::Acp { command: vec![], name: Some("mine".into()) }));
        let Ok(Agent::Acp { command, name }) = config().with_command(agent.clone()) else { panic!("no command") };
        assert_eq!((command, name.as_deref()), (vec!["/opt/mine".to_owned(), "--acp".to_owned()], Some("mine")));
        let gone = SessionConfig::default().with_command(agent).unwrap_err().to_string();
        assert!(gone.contains("`mine` is no longer in the settings"), "{gone}");
    }

    #[test]
    fn an_unknown_name_is_told_every_known_one() {
        let unknown = config().agent("yours").unwrap_err();
        assert_eq!(unknown.to_string(), "no agent `yours`");
        assert_eq!(unknown.known, ["claude", "codex", "gemini", "opencode", "echo", "mine"]);
    }

    #[test]
    fn every_known_name_is_the_name_of_its_agent() {
        for name in Agent::KNOWN {
            assert_eq!(config().agent(name).unwrap().name(), name);
        }
    }

    #[test]
    fn a_command_given_for_one_session_needs_no_settings() {
        let agent = Agent::acp(vec!["x".to_owned()]);
        assert_eq!(SessionConfig::default().with_command(agent.clone()), Ok(agent));
    }
}
