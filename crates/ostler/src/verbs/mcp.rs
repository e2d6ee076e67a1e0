//! `ostler mcp`: the MCP server for a model's client to start. It asks and lists; only a person decides.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use ostler_api::{ApprovalInfo, ApprovalListParams, methods};
use ostler_door_mcp::{Identity, Places, Registry, Settings};
use serde_json::{Value, json};

use super::Context;
use crate::names::sudo_proxy_mcp;
use crate::output::{CommandError, Kind};

const HELP: &str = "\
Add it to your MCP client, which talks to it on stdin and stdout. The model can request commands and see what is \
waiting; only you can approve, in `ostler approvals` or `sudo-proxy`.

Examples:
  claude mcp add sudo -- ostler mcp
  codex mcp add sudo -- ostler mcp
  ostler mcp --socket /run/user/1000/sudo-proxy.sock";

/// Let a model ask for commands over MCP
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Mcp {
    /// Use this sudo-proxy socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Mcp {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let places = Places::from_env();
        let known = context.paths.clone();
        let (paths, instance) = (context.paths.clone(), context.instance.clone());
        let settings = Settings {
            identity: Identity { name: "ostler", client: "ostler-mcp", version: env!("CARGO_PKG_VERSION") },
            places: match self.socket {
                Some(socket) => places.with_local_socket(socket),
                None => places.with_elsewhere(move || crate::instances::sudo_proxy_door(&known)),
            },
            registry: Registry::from_env(),
            daemon: sudo_proxy_mcp::daemon(),
            // Instances come and go while a model works: each call looks anew.
            pending: Some(Arc::new(move || pending(&Context::new(paths.clone(), instance.clone(), true)))),
        };
        sudo_proxy_mcp::serve(settings).map_err(|error| CommandError::failed(format!("{error:#}")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What waits for a person in every instance, as JSON: a title cannot pass for a second request there.
fn pending(context: &Context) -> Result<String, String> {
    let instances = match context.reach_all() {
        Ok(instances) => instances,
        Err(error) if error.kind == Kind::NoInstance => return Ok(format!("Nothing is pending: {}", error.message)),
        Err(error) => return Err(error.message),
    };
    let mut waiting = Vec::new();
    for mut reached in instances {
        let list = reached.client.call::<methods::ApprovalList>(&ApprovalListParams { all: false });
        let list = list.map_err(|error| CommandError::from(error).message)?;
        waiting.extend(list.approvals.iter().map(|approval| entry(&reached.found.name, approval)));
    }
    if waiting.is_empty() {
        return Ok("Nothing is pending.".to_owned());
    }
    serde_json::to_string_pretty(&waiting).map_err(|error| error.to_string())
}

/// What a model may know of a request. Not its hash: that is what a decision must name.
fn entry(instance: &str, approval: &ApprovalInfo) -> Value {
    let asker = &approval.asker;
    json!({
        "id": approval.id, "instance": instance, "kind": approval.kind, "title": approval.title,
        "privileged": approval.privileged, "reason": approval.reason, "asked": approval.asked,
        "expires_in_ms": approval.expires_in_ms,
        "asker": {"door": asker.door, "uid": asker.uid, "session": asker.claimed_session, "host": asker.claimed_host},
    })
}
