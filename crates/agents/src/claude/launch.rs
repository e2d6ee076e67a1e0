//! Claude's command lines. The mode is always named: the user's own settings may hold a laxer default.

use ostler_story::Autonomy;

use crate::setup::{Launch, Setup};

/// The mode that the CLI is put into. `default` is its word for asking before everything.
pub(crate) fn mode(setup: &Setup) -> &str {
    match (&setup.raw_mode, setup.autonomy) {
        (Some(mode), _) => mode,
        (None, Autonomy::All | Autonomy::Ask) => "default",
        (None, Autonomy::Edits) => "acceptEdits",
        (None, Autonomy::Plan) => "plan",
    }
}

/// Kept running, asked and asking on stdio.
pub(super) fn stream(setup: &Setup) -> Launch {
    let mut args = words("-p --input-format stream-json --output-format stream-json --verbose");
    args.extend(words("--include-partial-messages --permission-prompt-tool stdio --permission-mode"));
    args.push(mode(setup).to_owned());
    if let Some(model) = &setup.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    args.extend(match &setup.resume {
        Some(id) => ["--resume".to_owned(), id.clone()],
        None => ["--session-id".to_owned(), setup.new_session_id.clone()],
    });
    Launch { program: setup.program("claude"), args, ..Launch::default() }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
