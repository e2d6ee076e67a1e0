//! A prompt that begins with `!`, where the user's settings make it a command line: a hosted process in the workspace, as any
//! other that a device starts, and only for one that may type into terminals. Without that setting such a prompt is text.

use std::path::Path;
use std::time::{Duration, Instant};

use ostler_engine::access::device::Right;
use ostler_engine::{MayWait, SpawnRequest};
use ostler_story::Exit;
use tokio::runtime::Handle;

use crate::agent::{Mode, Started};
use crate::error::{Code, Error};
use crate::method::Call;

/// How long an answer waits for the end: a person looks at the phone. What takes longer goes on.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// As many of its last lines as an answer shows; all of them are in its journal.
const LINES: usize = 200;

/// The command line of a prompt, if it is one here.
pub(crate) fn command_of<'a>(call: &Call, prompt: &'a str) -> Option<&'a str> {
    prompt.strip_prefix('!').map(str::trim).filter(|line| call.state.settings.shell && !line.is_empty())
}

/// Runs it, and says how it ended if it ends soon.
pub(crate) fn run(wait: &MayWait, call: &Call, folder: &Path, line: &str) -> Result<Started, Error> {
    if let Err(refused) = call.needs(Right::TypeIntoTerminals) {
        call.state.engine.guest_refused(wait, &call.guest, "devices", &format!("agent/run: {}", refused.message));
        return Err(refused);
    }
    let request = SpawnRequest {
        program: "sh".into(),
        args: vec!["-c".into(), line.into()],
        cwd: Some(folder.to_owned()),
        ..SpawnRequest::default()
    };
    let started = Handle::current().block_on(call.state.engine.spawn(request));
    let process = started.map_err(|error| Error::new(Code::Agent, error.to_string()))?;
    let until = Instant::now() + ENDS_WITHIN;
    while process.is_running() && Instant::now() < until {
        std::thread::sleep(LOOK_AGAIN);
    }
    let exit_code = match process.exit() {
        Some(Exit::Code(code)) => Some(code),
        _ => None,
    };
    Ok(Started {
        status: if process.is_running() { "started" } else { "completed" }.to_owned(),
        pid: Some(process.pid()),
        session_id: process.id().to_owned(),
        mode: Mode::New,
        agent_type: "shell".to_owned(),
        exit_code,
        output: Some(process.last_lines(wait, LINES).unwrap_or_default().join("\n")),
    })
}
