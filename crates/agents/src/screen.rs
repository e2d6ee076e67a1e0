//! An agent's own screen on a conversation that it knows: the command that takes it up in a terminal. It may do what it may
//! do in the session; what it asks, it asks whoever sits there.

use ostler_story::Agent;

use crate::acp::opencode_config;
use crate::setup::{Launch, Setup, Unsupported};
use crate::{claude, codex};

/// A server that codex leaves behind would go on holding the conversation when the screen has ended.
const ALONE: &str = "features.daemon_auto_start=false";

/// How the screen of an agent that has one is started on this conversation.
pub fn screen(setup: &Setup, conversation: &str) -> Result<Launch, Unsupported> {
    let setup = &Setup { resume: Some(conversation.to_owned()), ..setup.clone() };
    setup.check()?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut launch = Launch { program: setup.program(setup.agent.name()), ..Launch::default() };
    let model = setup.model.as_deref();
    launch.args = match &setup.agent {
        Agent::Claude => {
            let mode = claude::launch::mode(setup);
            let args = words(&["--resume", conversation, "--permission-mode", mode]);
            args.into_iter().chain(words(&model.map_or(vec![], |model| vec!["--model", model]))).collect()
        }
        Agent::Codex => {
            let (approval, sandbox) = codex::launch::rights(setup)?;
            let args = words(&["resume", "-c", ALONE, "--ask-for-approval", approval, "--sandbox", sandbox]);
            let model = words(&model.map_or(vec![], |model| vec!["--model", model]));
            args.into_iter().chain(model).chain(words(&[conversation])).collect()
        }
        Agent::Opencode => {
            launch.env = vec![("OPENCODE_CONFIG_CONTENT".to_owned(), opencode_config(setup))];
            words(&["--session", conversation])
        }
        Agent::Gemini | Agent::Acp { .. } | Agent::Echo => {
            return Err(setup.cannot("take up a conversation on a screen of its own"));
        }
    };
    Ok(launch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::Autonomy;

    fn setup(agent: Agent, autonomy: Autonomy) -> Setup {
        Setup {
            agent,
            program: None,
            cwd: "/w".into(),
            model: Some("m".into()),
            autonomy,
            resume: None,
            new_session_id: "u".into(),
            raw_mode: None,
        }
    }

    fn args(agent: Agent, autonomy: Autonomy) -> String {
        screen(&setup(agent, autonomy), "abc").unwrap().args.join(" ")
    }

    #[test]
    fn a_screen_takes_the_conversation_up_with_the_sessions_rights() {
        assert_eq!(args(Agent::Claude, Autonomy::Plan), "--resume abc --permission-mode plan --model m");
        let codex = "resume -c features.daemon_auto_start=false --ask-for-approval on-request --sandbox read-only --model m abc";
        assert_eq!(args(Agent::Codex, Autonomy::Ask), codex);
        assert_eq!(args(Agent::Opencode, Autonomy::Ask), "--session abc");
    }

    #[test]
    fn a_conversation_is_never_an_option_and_others_have_no_screen() {
        assert!(screen(&setup(Agent::Claude, Autonomy::Ask), "--dangerously").is_err());
        for agent in [Agent::Gemini, Agent::Echo, Agent::acp(vec!["x".into()])] {
            assert!(!agent.has_screen() && screen(&setup(agent, Autonomy::Ask), "abc").is_err());
        }
    }
}
