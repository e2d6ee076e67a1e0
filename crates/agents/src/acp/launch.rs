//! How ACP agents are started.
//!
//! opencode runs commands and changes files unasked unless its configuration says otherwise. What we want is given inline,
//! which the project's own configuration can not override.

use ostler_story::{Agent, Autonomy};
use serde_json::json;

use crate::setup::{Launch, Setup, Unsupported};

/// Refuses what can not be honoured.
pub(super) fn check(setup: &Setup) -> Result<(), Unsupported> {
    match &setup.agent {
        Agent::Acp { command, name: None } if command.is_empty() => {
            Err(setup.cannot("be started: its command is empty"))
        }
        _ => Ok(()),
    }
}

/// The command line.
pub(super) fn launch(setup: &Setup) -> Launch {
    match &setup.agent {
        Agent::Gemini => gemini(setup),
        Agent::Opencode => Launch {
            program: setup.program("opencode"),
            args: vec!["acp".to_owned()],
            env: vec![("OPENCODE_CONFIG_CONTENT".to_owned(), opencode_config(setup))],
            ..Launch::default()
        },
        Agent::Acp { command, .. } => {
            let (program, args) =
                command.split_first().map_or((String::new(), Vec::new()), |(p, a)| (p.clone(), a.to_vec()));
            Launch { program: setup.program(&program), args, ..Launch::default() }
        }
        other => Launch { program: setup.program(other.name()), ..Launch::default() },
    }
}

fn gemini(setup: &Setup) -> Launch {
    let mode = match (&setup.raw_mode, setup.autonomy) {
        // Its own words for modes differ between the flag and the protocol; a raw mode is set by the protocol.
        (Some(_), _) | (None, Autonomy::All | Autonomy::Ask) => "default",
        (None, Autonomy::Edits) => "auto_edit",
        (None, Autonomy::Plan) => "plan",
    };
    let mut args = vec!["--acp".to_owned(), "--approval-mode".to_owned(), mode.to_owned()];
    if let Some(model) = &setup.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    // Without it gemini refuses a folder that it was never opened in by hand.
    let env = vec![("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned())];
    Launch { program: setup.program("gemini"), args, env, ..Launch::default() }
}

/// The configuration that makes opencode ask.
pub(crate) fn opencode_config(setup: &Setup) -> String {
    let edit = match setup.autonomy {
        Autonomy::Edits => "allow",
        Autonomy::Plan => "deny",
        Autonomy::All | Autonomy::Ask => "ask",
    };
    let mut config = json!({ "permission":
        { "edit": edit, "bash": "ask", "webfetch": "ask", "external_directory": "ask", "doom_loop": "ask" } });
    if let (Some(config), Some(model)) = (config.as_object_mut(), &setup.model) {
        config.insert("model".to_owned(), json!(model));
    }
    config.to_string()
}
