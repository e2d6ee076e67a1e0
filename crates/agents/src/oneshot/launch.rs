//! The plain command lines. The prompt is never among the arguments.

use ostler_story::{Agent, Autonomy};

use crate::acp::opencode_config;
use crate::setup::{Launch, Setup, Unsupported};

/// How to start the CLI for one prompt.
pub(super) fn launch(setup: &Setup) -> Result<Launch, Unsupported> {
    let (name, args) = match &setup.agent {
        Agent::Claude => ("claude", claude(setup)),
        Agent::Codex => ("codex", codex(setup)?),
        Agent::Gemini => ("gemini", gemini(setup)),
        Agent::Opencode => ("opencode", opencode(setup)),
        other => return Err(setup.cannot(format!("run {} once for each prompt", other.name()))),
    };
    let mut env = vec![("TERM".to_owned(), "dumb".to_owned())];
    match &setup.agent {
        Agent::Gemini => env.push(("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned())),
        Agent::Opencode if setup.autonomy != Autonomy::All => {
            env.push(("OPENCODE_CONFIG_CONTENT".to_owned(), opencode_config(setup)));
        }
        _ => {}
    }
    let args = args.into_iter().map(str::to_owned).collect();
    Ok(Launch { program: setup.program(name), args, env, close_stdin_after_prompt: true })
}

fn claude(setup: &Setup) -> Vec<&str> {
    let mut args = vec!["--print", "--output-format", "stream-json", "--include-partial-messages", "--verbose"];
    match (&setup.raw_mode, setup.autonomy) {
        (Some(mode), _) => args.extend(["--permission-mode", mode]),
        // Without a host to ask there is no other way; the CLI refuses it to root.
        (None, Autonomy::All) => args.push("--dangerously-skip-permissions"),
        (None, Autonomy::Edits) => args.extend(["--permission-mode", "acceptEdits"]),
        (None, Autonomy::Plan) => args.extend(["--permission-mode", "plan"]),
        (None, Autonomy::Ask) => args.extend(["--permission-mode", "default"]),
    }
    option(&mut args, "--model", setup.model.as_deref());
    option(&mut args, "--resume", setup.resume.as_deref());
    args
}

fn codex(setup: &Setup) -> Result<Vec<&str>, Unsupported> {
    let sandbox = match (setup.raw_mode.as_deref(), setup.autonomy) {
        (Some(raw), _) => match raw.rsplit('/').next() {
            Some(sandbox @ ("read-only" | "workspace-write" | "danger-full-access")) => sandbox,
            _ => return Err(setup.cannot(format!("use the mode {raw:?}: it names no sandbox"))),
        },
        (None, Autonomy::All) => "danger-full-access",
        (None, Autonomy::Edits) => "workspace-write",
        (None, Autonomy::Plan | Autonomy::Ask) => "read-only",
    };
    // `exec resume` takes neither a sandbox nor a folder: they stand before it.
    let mut args = vec!["exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox, "--cd", &setup.cwd];
    option(&mut args, "--model", setup.model.as_deref());
    option(&mut args, "resume", setup.resume.as_deref());
    args.push("-");
    Ok(args)
}

fn gemini(setup: &Setup) -> Vec<&str> {
    let mode = match (setup.raw_mode.as_deref(), setup.autonomy) {
        (Some(mode), _) => mode,
        (None, Autonomy::All) => "yolo",
        (None, Autonomy::Edits) => "auto_edit",
        (None, Autonomy::Plan) => "plan",
        (None, Autonomy::Ask) => "default",
    };
    let mut args = vec!["--output-format", "stream-json", "--approval-mode", mode];
    option(&mut args, "--model", setup.model.as_deref());
    option(&mut args, "--resume", setup.resume.as_deref());
    args
}

fn opencode(setup: &Setup) -> Vec<&str> {
    let mut args = vec!["run", "--format", "json"];
    match (setup.raw_mode.as_deref(), setup.autonomy) {
        (Some(agent), _) => args.extend(["--agent", agent]),
        (None, Autonomy::All) => args.push("--auto"),
        (None, Autonomy::Plan) => args.extend(["--agent", "plan"]),
        (None, Autonomy::Edits | Autonomy::Ask) => {}
    }
    option(&mut args, "--model", setup.model.as_deref());
    option(&mut args, "--session", setup.resume.as_deref());
    args
}

fn option<'a>(args: &mut Vec<&'a str>, name: &'a str, value: Option<&'a str>) {
    if let Some(value) = value {
        args.extend([name, value]);
    }
}
