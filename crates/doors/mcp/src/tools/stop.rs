//! `stop_server`: asks a daemon to end, and sees it gone.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use rmcp::model::CallToolResult;

use super::{CONTROL_LIMIT, HostOnly};
use crate::exchange;
use crate::ready;
use crate::server::Settings;
use crate::target::Target;
use crate::wire::{Action, Request, Response, Status};
use crate::wording::{self, done, failed};

/// So that a start_server right after it does not meet the old daemon.
const GONE_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn stop(settings: &Settings, params: HostOnly) -> CallToolResult {
    let target = match settings.places.target(params.host.as_deref()) {
        Ok(target) => target,
        Err(error) => return failed(format!("invalid host: {error}")),
    };
    let socket = settings.places.socket(&target);
    let name = params.host.as_deref().unwrap_or(target.name());
    if !socket.exists() {
        return done(format!("sudo-proxy is not running on {name} (no socket at {})", socket.display()));
    }
    match ask(settings, &target, &socket).await {
        Err(message) => failed(message),
        Ok(answer) if answer.status == Status::Ok => {
            ready::goes_away(&socket, GONE_WITHIN).await;
            remove_left_over(&socket).await;
            done(format!("Stopped sudo-proxy on {name}."))
        }
        Ok(answer) if super::knows_no_actions(&answer) => {
            super::touch(&settings.registry, target.name(), &answer.version).await;
            failed(format!(
                "{name} runs sudo-proxy {}, which predates remote stop. Press q or Ctrl+C in that daemon's terminal \
                 window to stop it.",
                answer.version()
            ))
        }
        Ok(answer) => wording::answer(answer, &settings.identity),
    }
}

async fn ask(settings: &Settings, target: &Target, socket: &Path) -> Result<Response, String> {
    let request = Request::control(settings.identity.client, target.claimed(), Action::Stop)
        .map_err(|error| format!("no random id: {error}"))?;
    exchange::send(socket, &request, Some(CONTROL_LIMIT)).await.map_err(|error| error.to_string())
}

/// ssh may leave the near end of a tunnel behind.
async fn remove_left_over(socket: &Path) {
    let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && !ready::is_ready(socket).await {
        // Whoever starts next removes it as well.
        let _ = std::fs::remove_file(socket);
    }
}
