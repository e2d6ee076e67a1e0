//! `status`: which daemons answer, without asking anybody anything.

use std::path::Path;

use rmcp::model::CallToolResult;

use super::{CONTROL_LIMIT, HostOnly};
use crate::exchange;
use crate::hosts::{Host, Registry};
use crate::ready;
use crate::server::Settings;
use crate::target::Target;
use crate::wire::{Action, Request, Status};
use crate::wording::{done, failed};

pub(crate) async fn status(settings: &Settings, params: HostOnly) -> CallToolResult {
    let known = settings.registry.load_or_empty().hosts;
    let mut targets = Vec::new();
    match settings.places.target(params.host.as_deref()) {
        Ok(target) => targets.push(target),
        Err(error) => return failed(format!("invalid host: {error}")),
    }
    if params.host.is_none() {
        let remote = known.keys().filter_map(|name| settings.places.target(Some(name)).ok());
        targets.extend(remote.filter(|target| *target != Target::Local));
    }
    // All at once: one dead tunnel takes seconds to be sure of.
    let probes: Vec<_> = targets
        .iter()
        .map(|target| {
            let (target, socket) = (target.clone(), settings.places.socket(target));
            let (registry, client) = (settings.registry.clone(), settings.identity.client);
            tokio::spawn(async move { probe(&target, &socket, &registry, client).await })
        })
        .collect();
    let mut lines = Vec::new();
    for (target, probe) in targets.iter().zip(probes) {
        let found = probe.await.unwrap_or_else(|_| "unknown".to_owned());
        let about = known.get(target.name()).map(about).unwrap_or_default();
        lines.push(format!("{}: {found}{about}", target.name()));
    }
    done(lines.join("\n"))
}

async fn probe(target: &Target, socket: &Path, registry: &Registry, client: &str) -> String {
    if !socket.exists() {
        return "not running (no socket)".to_owned();
    }
    if !ready::is_ready(socket).await {
        return "socket present but not answering (stale?)".to_owned();
    }
    let ping = match Request::control(client, target.claimed(), Action::Ping) {
        Ok(ping) => ping,
        Err(error) => return format!("error: no random id: {error}"),
    };
    let answer = match exchange::send(socket, &ping, Some(CONTROL_LIMIT)).await {
        Ok(answer) => answer,
        Err(error) => return format!("unreachable: {error}"),
    };
    let old = super::knows_no_actions(&answer);
    if answer.status != Status::Ok && !old {
        return format!("error: {}", answer.message());
    }
    super::touch(registry, target.name(), &answer.version).await;
    format!("running (sudo-proxy {}{})", answer.version(), if old { ", predates ping" } else { "" })
}

fn about(host: &Host) -> String {
    let mut text = String::new();
    for (before, value, after) in
        [(" — ", &host.description, ""), (" (", &host.os, ")"), (" [last: ", &host.last_connected, "]")]
    {
        if !value.is_empty() {
            text.push_str(&format!("{before}{value}{after}"));
        }
    }
    text
}
