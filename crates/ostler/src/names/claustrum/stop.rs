//! `-stop`: asks a daemon to end, and returns when it has: its children, its socket, and with them this connection. One that is
//! not there is as good as ended; one that does not answer is not waited for without end.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::complain;

/// A refusal is one short line.
const ANSWER_MAX: usize = 4096;
/// Longer than a daemon takes to kill what it hosts, and to give up on what cannot be killed.
const WITHIN: Duration = Duration::from_secs(10);

pub(crate) fn run(socket: &Path) -> ExitCode {
    let deadline = Instant::now() + WITHIN;
    let Ok(mut stream) = ostler_door_rpc::connect_within(socket, WITHIN) else { return ExitCode::SUCCESS };
    let token = std::env::var_os("CLAUDE_RPC_TOKEN").unwrap_or_default();
    let mut request = br#"{"jsonrpc":"2.0","id":1,"method":"server.shutdown","auth":"#.to_vec();
    ostler_door_claustrum::push_json_string(&mut request, &token.to_string_lossy());
    request.extend_from_slice(b"}\n");
    let mut answer = [0; ANSWER_MAX];
    // A daemon that ends while we speak has done what was asked.
    let heard = stream
        .write_all(&request)
        .and_then(|()| stream.set_read_timeout(Some(deadline.saturating_duration_since(Instant::now()).max(SOON))))
        .and_then(|()| stream.read(&mut answer));
    match heard {
        Ok(count) => drop(std::io::stdout().write_all(answer.get(..count).unwrap_or_default())),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            complain(&format!("the daemon on {} has not ended within {} s", socket.display(), WITHIN.as_secs()));
        }
        Err(_) => {}
    }
    ExitCode::SUCCESS
}

/// A time-out of zero would be none.
const SOON: Duration = Duration::from_millis(1);
