//! How a thread is opened, and what codex may do in it.
//!
//! A thread that is *opened* with a writable sandbox makes codex note the folder as trusted in its own configuration, after
//! which it also obeys the folder's configuration. So every thread is opened read-only, and each turn says what it may write.

use ostler_story::{Autonomy, Json};
use serde_json::json;

use crate::rpc::Style;
use crate::setup::{Setup, Unsupported};

use super::id::For;

/// What a thread is opened with, and which requests are answered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) approval: String,
    pub(super) sandbox: Sandbox,
    pub(super) grant: Grant,
    /// The workspace that `Grant::Edits` covers.
    pub(super) cwd: String,
}

/// What holds a command or a change that nobody stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sandbox {
    ReadOnly,
    Workspace,
    None,
}

impl Sandbox {
    /// By the name that codex's own command line has for it.
    fn named(name: &str) -> Option<Sandbox> {
        Some(match name {
            "read-only" => Sandbox::ReadOnly,
            "workspace-write" => Sandbox::Workspace,
            "danger-full-access" => Sandbox::None,
            _ => return None,
        })
    }

    /// The same name again.
    fn name(self) -> &'static str {
        match self {
            Sandbox::ReadOnly => "read-only",
            Sandbox::Workspace => "workspace-write",
            Sandbox::None => "danger-full-access",
        }
    }

    /// As a turn is given it.
    fn policy(self) -> Json {
        match self {
            Sandbox::ReadOnly => json!({ "type": "readOnly" }),
            Sandbox::Workspace => json!({ "type": "workspaceWrite" }),
            Sandbox::None => json!({ "type": "dangerFullAccess" }),
        }
    }
}

/// Which requests are answered with yes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    Everything,
    Edits,
    Nothing,
}

/// What codex's own screen is told about what it asks and what it may write. It knows no `untrusted`: what is to be asked for
/// must not be writable there.
pub(crate) fn rights(setup: &Setup) -> Result<(&'static str, &'static str), Unsupported> {
    let Policy { approval, sandbox, .. } = Policy::of(setup)?;
    let asks = setup.raw_mode.is_none() && setup.autonomy == Autonomy::Ask;
    let sandbox = if asks { Sandbox::ReadOnly } else { sandbox };
    Ok((if approval == "never" { "never" } else { "on-request" }, sandbox.name()))
}

impl Policy {
    pub(super) fn of(setup: &Setup) -> Result<Policy, Unsupported> {
        let (approval, sandbox, grant) = match (&setup.raw_mode, setup.autonomy) {
            (Some(raw), autonomy) => {
                let named = raw.split_once('/').and_then(|(approval, name)| Some((approval, Sandbox::named(name)?)));
                let Some((approval, sandbox)) = named else {
                    return Err(
                        setup.cannot(format!("use the mode {raw:?}: APPROVAL/SANDBOX, e.g. untrusted/read-only"))
                    );
                };
                (approval, sandbox, if autonomy == Autonomy::All { Grant::Everything } else { Grant::Nothing })
            }
            (None, Autonomy::All) => ("on-request", Sandbox::None, Grant::Everything),
            (None, Autonomy::Edits) => ("untrusted", Sandbox::Workspace, Grant::Edits),
            (None, Autonomy::Plan) => ("never", Sandbox::ReadOnly, Grant::Nothing),
            // What was allowed must be able to work: read-only, it would fail without another question.
            (None, Autonomy::Ask) => ("untrusted", Sandbox::Workspace, Grant::Nothing),
        };
        Ok(Policy { approval: approval.to_owned(), sandbox, grant, cwd: setup.cwd.clone() })
    }
}

/// The first line.
pub(super) fn initialize() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let params = json!({ "clientInfo": { "name": "ostler", "title": "ostler", "version": version } });
    Style::Bare.request(For::Initialize.number(0), "initialize", &params)
}

/// Opens the conversation, new or old. Its requests go to people, whatever codex's own configuration says.
pub(super) fn thread(setup: &Setup, policy: &Policy) -> Vec<u8> {
    let mut params = json!({
        "cwd": setup.cwd,
        "approvalPolicy": policy.approval,
        "approvalsReviewer": "user",
        "sandbox": "read-only",
        // Else the tool that asks people something is refused to the model; that it is new is no news to people.
        "config": { "features.default_mode_request_user_input": true, "suppress_unstable_features_warning": true },
    });
    if let Some(params) = params.as_object_mut() {
        if let Some(model) = &setup.model {
            params.insert("model".to_owned(), json!(model));
        }
        if let Some(id) = &setup.resume {
            params.insert("threadId".to_owned(), json!(id));
            // What was said before is in our journal: told again, it could be longer than any line may be.
            params.insert("excludeTurns".to_owned(), json!(true));
        }
    }
    let method = if setup.resume.is_some() { "thread/resume" } else { "thread/start" };
    Style::Bare.request(For::Thread.number(0), method, &params)
}

/// Begins a turn.
pub(super) fn turn(number: u64, thread: &str, policy: &Policy, input: &[Json]) -> Vec<u8> {
    let params = json!({ "threadId": thread, "input": input, "sandboxPolicy": policy.sandbox.policy() });
    Style::Bare.request(For::Turn.number(number), "turn/start", &params)
}
