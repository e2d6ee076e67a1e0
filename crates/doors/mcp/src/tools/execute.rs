//! `execute`: a command for a person to decide.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::CallToolResult;
use rmcp::schemars;
use serde::Deserialize;

use crate::exchange;
use crate::server::Settings;
use crate::target::Target;
use crate::wire::Request;
use crate::wording::{self, failed};

/// A person at the prompt has 60 s, then the command may take its time.
const PRIVILEGED_LIMIT: Duration = Duration::from_secs(120);
const LIMIT_MAX: Duration = Duration::from_secs(600);

const USE_YOUR_SHELL: &str = "Refusing to run an unprivileged command on the local machine. Use your Bash tool instead — \
    it applies the same controls without a second gate. sudo-proxy is for privilege escalation (privileged: true) and for \
    commands on remote hosts.";

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct Execute {
    /// One command and its arguments
    #[serde(default)]
    argv: Option<Vec<String>>,
    /// Commands of which each reads what the one before writes; wins over argv
    #[serde(default)]
    pipeline: Option<Vec<Vec<String>>>,
    /// Where to run it (omit for this machine)
    #[serde(default)]
    host: Option<String>,
    /// How long to wait for the result in milliseconds, at most 600000; default 120000 if privileged, no limit otherwise
    #[serde(default)]
    timeout: Option<u64>,
    /// What the command is for; the person who decides reads it
    #[serde(default)]
    description: Option<String>,
    /// Run it as root (default: true)
    #[serde(default = "yes")]
    privileged: bool,
    /// Environment variables: LANG, TZ, HOME, TERM, DEBIAN_FRONTEND and LC_* are accepted
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Give the command the SSH agent; unprivileged remote commands only, and start_server must have forwarded it
    #[serde(default)]
    forward_agent: bool,
}

fn yes() -> bool {
    true
}

pub(crate) async fn execute(settings: &Settings, params: Execute) -> CallToolResult {
    let target = match settings.places.target(params.host.as_deref()) {
        Ok(target) => target,
        Err(error) => return failed(format!("invalid host: {error}")),
    };
    if target == Target::Local && !params.privileged {
        return failed(USE_YOUR_SHELL);
    }
    let socket = settings.places.socket(&target);
    if !socket.exists() {
        return failed(format!(
            "sudo-proxy is not running (socket not found at {}). Call start_server first.",
            socket.display()
        ));
    }
    let limit = limit(params.privileged, params.timeout);
    let request = match request(settings, &target, params) {
        Ok(request) => request,
        Err(message) => return failed(message),
    };
    match exchange::send(&socket, &request, limit).await {
        Ok(answer) => {
            super::touch(&settings.registry, target.name(), &answer.version).await;
            wording::answer(answer, &settings.identity)
        }
        Err(error) => failed(error),
    }
}

fn request(settings: &Settings, target: &Target, params: Execute) -> Result<Request, String> {
    let pipeline = params.pipeline.filter(|stages| !stages.is_empty());
    let argv = params.argv.filter(|words| !words.is_empty());
    let pipeline =
        pipeline.or_else(|| argv.map(|words| vec![words])).ok_or("Either `argv` or `pipeline` must be provided.")?;
    if params.forward_agent && params.privileged {
        return Err("forward_agent is only allowed with privileged: false".to_owned());
    }
    let request =
        Request::exec(settings.identity.client, pipeline).map_err(|error| format!("no random id: {error}"))?;
    Ok(Request {
        host: target.claimed().to_owned(),
        env: params.env.unwrap_or_default(),
        reason: params.description.unwrap_or_default(),
        privileged: params.privileged,
        forward_agent: params.forward_agent,
        ..request
    })
}

/// Unprivileged commands are waited for as long as the daemon takes, unless asked otherwise: a caller that gives up on an
/// approved command and repeats it would run it twice.
fn limit(privileged: bool, asked_ms: Option<u64>) -> Option<Duration> {
    match asked_ms {
        Some(ms) => Some(Duration::from_millis(ms).min(LIMIT_MAX)),
        None => privileged.then_some(PRIVILEGED_LIMIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_privileged_commands_have_a_limit_unasked_and_none_waits_longer_than_ten_minutes() {
        assert_eq!(limit(true, None), Some(Duration::from_secs(120)));
        assert_eq!(limit(false, None), None);
        for privileged in [true, false] {
            assert_eq!(limit(privileged, Some(5000)), Some(Duration::from_secs(5)));
            assert_eq!(limit(privileged, Some(u64::MAX)), Some(Duration::from_secs(600)));
        }
    }
}
