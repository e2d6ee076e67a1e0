//! What a model is told: answers as text parts, in words that clients already know.

use rmcp::model::{CallToolResult, ContentBlock};

use crate::hosts::Hosts;
use crate::server::Identity;
use crate::wire::{Response, Status, VERSION};

/// A result that is an error of the tool: the model reads the text.
pub(crate) fn failed(text: impl ToString) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.to_string())])
}

pub(crate) fn done(text: impl ToString) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.to_string())])
}

/// A daemon's answer to `execute`.
pub(crate) fn answer(answer: Response, identity: &Identity) -> CallToolResult {
    match answer.status {
        Status::Ok => executed(&answer),
        Status::Denied => failed("Request denied by user."),
        Status::Timeout => failed("Request timed out waiting for user approval."),
        Status::Error => failed(format!(
            "Error from sudo-proxy {} (client {} {VERSION}): {}",
            answer.version(),
            identity.client,
            answer.message()
        )),
    }
}

fn executed(answer: &Response) -> CallToolResult {
    let parts = parts(answer).into_iter().map(ContentBlock::text).collect();
    if answer.exit_code() == 0 { CallToolResult::success(parts) } else { CallToolResult::error(parts) }
}

fn parts(answer: &Response) -> Vec<String> {
    let several = answer.stages.len() > 1;
    let mut parts = Vec::new();
    if !answer.stdout.is_empty() {
        parts.push(String::from_utf8_lossy(&answer.stdout).into_owned());
    }
    for (i, stage) in answer.stages.iter().enumerate().filter(|(_, stage)| !stage.stderr.is_empty()) {
        let stderr = String::from_utf8_lossy(&stage.stderr);
        parts.push(if several { format!("[stderr stage {i}]\n{stderr}") } else { format!("[stderr]\n{stderr}") });
    }
    if parts.is_empty() || answer.exit_code() != 0 {
        let codes: Vec<String> = answer.stages.iter().map(|stage| stage.exit_code.to_string()).collect();
        parts.push(if several {
            format!("[exit codes: {}]", codes.join(", "))
        } else {
            format!("[exit code: {}]", answer.exit_code())
        });
    }
    // Half an output that looks whole would be a lie.
    if answer.stdout_truncated {
        parts.push("[stdout truncated at 16 MiB]".to_owned());
    }
    if answer.stages.iter().any(|stage| stage.stderr_truncated) {
        parts.push("[stderr truncated at 16 MiB]".to_owned());
    }
    parts
}

/// What a client shows its model at the start: how to use this, and the hosts that are known.
pub(crate) fn instructions(identity: &Identity, hosts: &Hosts) -> String {
    let mut text = format!(
        "Execute commands through sudo-proxy with human approval. Call start_server first if sudo-proxy is not running, \
         then use execute to run commands.\n\nThis {} is version {}.",
        identity.client, identity.version
    );
    if !hosts.hosts.is_empty() {
        text.push_str("\n\nKnown hosts:");
    }
    for (name, host) in &hosts.hosts {
        text.push_str(&format!("\n- {name}"));
        for (before, value, after) in [
            (": ", &host.description, ""),
            (" (", &host.os, ")"),
            (" [sudo-proxy ", &host.version, "]"),
            (" [last: ", &host.last_connected, "]"),
        ] {
            if !value.is_empty() {
                text.push_str(&format!("{before}{value}{after}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
