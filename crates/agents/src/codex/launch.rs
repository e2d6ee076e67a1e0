//! How a thread is opened, and what codex may do in it.
//!
//! A thread with a writable sandbox makes codex note the folder as trusted in its own configuration, after which it also
//! obeys the folder's configuration. `ask` and `plan` therefore open read-only.

use serde_json::json;

use crate::rpc::Style;
use crate::setup::{Autonomy, Setup, Unsupported};

use super::id::For;

/// What a thread is opened with, and which requests are answered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) approval: String,
    pub(super) sandbox: String,
    pub(super) grant: Grant,
    /// The workspace that `Grant::Edits` covers.
    pub(super) cwd: String,
}

/// Which requests are answered with yes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    Everything,
    Edits,
    Nothing,
}

impl Policy {
    pub(super) fn of(setup: &Setup) -> Result<Policy, Unsupported> {
        let (approval, sandbox, grant) = match (&setup.raw_mode, setup.autonomy) {
            (Some(raw), autonomy) => {
                let Some((approval, sandbox)) = raw.split_once('/') else {
                    return Err(
                        setup.cannot(format!("use the mode {raw:?}: APPROVAL/SANDBOX, e.g. untrusted/read-only"))
                    );
                };
                (approval, sandbox, if autonomy == Autonomy::All { Grant::Everything } else { Grant::Nothing })
            }
            (None, Autonomy::All) => ("on-request", "danger-full-access", Grant::Everything),
            (None, Autonomy::Edits) => ("untrusted", "workspace-write", Grant::Edits),
            (None, Autonomy::Plan) => ("never", "read-only", Grant::Nothing),
            (None, Autonomy::Ask) => ("untrusted", "read-only", Grant::Nothing),
        };
        Ok(Policy { approval: approval.to_owned(), sandbox: sandbox.to_owned(), grant, cwd: setup.cwd.clone() })
    }
}

/// The first line.
pub(super) fn initialize() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let params = json!({ "clientInfo": { "name": "ostler", "title": "ostler", "version": version } });
    Style::Bare.request(For::Initialize.number(0), "initialize", &params)
}

/// Opens the conversation, new or old.
pub(super) fn thread(setup: &Setup, policy: &Policy) -> Vec<u8> {
    let mut params = json!({ "cwd": setup.cwd, "approvalPolicy": policy.approval, "sandbox": policy.sandbox });
    if let Some(params) = params.as_object_mut() {
        if let Some(model) = &setup.model {
            params.insert("model".to_owned(), json!(model));
        }
        if let Some(id) = &setup.resume {
            params.insert("threadId".to_owned(), json!(id));
        }
    }
    let method = if setup.resume.is_some() { "thread/resume" } else { "thread/start" };
    Style::Bare.request(For::Thread.number(0), method, &params)
}
