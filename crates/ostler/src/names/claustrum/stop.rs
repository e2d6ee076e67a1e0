//! `-stop`: asks a daemon to end. One that is not there is as good as ended.

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// A refusal is one short line.
const ANSWER_MAX: usize = 4096;

pub(crate) fn run(socket: &Path) -> ExitCode {
    if let Ok(mut stream) = ostler_door_rpc::connect(socket) {
        let token = std::env::var_os("CLAUDE_RPC_TOKEN").unwrap_or_default();
        let mut request = br#"{"jsonrpc":"2.0","id":1,"method":"server.shutdown","auth":"#.to_vec();
        ostler_door_claustrum::push_json_string(&mut request, &token.to_string_lossy());
        request.extend_from_slice(b"}\n");
        let mut answer = [0; ANSWER_MAX];
        // A daemon that ends while we speak has done what was asked.
        if stream.write_all(&request).is_ok()
            && let Ok(count) = stream.read(&mut answer)
        {
            let _ = std::io::stdout().write_all(answer.get(..count).unwrap_or_default());
        }
    }
    ExitCode::SUCCESS
}
