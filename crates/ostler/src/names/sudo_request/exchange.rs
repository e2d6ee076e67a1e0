//! One request, one answer, with the messages that scripts know. Answers may be as long as their streams can make them.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ostler_door_mcp::{Request, Response, impostor, most_answer_bytes};

use crate::output::visible;

/// Longer than a daemon's prompt (60 s) and its longest command (300 s) together.
const PATIENCE: Duration = Duration::from_secs(600);
/// A daemon reads at once.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// Of an answer that makes no sense, this much is shown.
const SHOWN: usize = 400;

/// `SUDO_REQUEST_TIMEOUT_SECS`, if it is a number.
pub(super) fn patience() -> Duration {
    let asked = std::env::var("SUDO_REQUEST_TIMEOUT_SECS").ok().and_then(|text| text.parse().ok());
    asked.map_or(PATIENCE, Duration::from_secs)
}

/// The daemon's answer, or what to tell the person instead.
pub(super) fn ask(socket: &Path, request: &Request, patience: Duration) -> Result<Response, String> {
    let line = request.to_line().map_err(|error| error.to_string())?;
    let mut stream = UnixStream::connect(socket).map_err(|error| {
        let there = std::fs::metadata(socket).is_ok_and(|meta| !meta.file_type().is_socket());
        let why = if there { "it is not a socket".to_owned() } else { error.to_string() };
        format!("could not connect to {}: {why}", visible(&socket.to_string_lossy()))
    })?;
    if let Some(uid) = impostor(&stream, socket) {
        let socket = visible(&socket.to_string_lossy());
        return Err(format!("not asked: the program that listens at {socket} belongs to user {uid}"));
    }
    // Zero is no limit; the kernel would refuse it as one.
    let limit = Some(patience).filter(|limit| !limit.is_zero());
    stream
        .set_read_timeout(limit)
        .and_then(|()| stream.set_write_timeout(Some(WRITE_LIMIT)))
        .and_then(|()| stream.write_all(&line))
        .map_err(|error| format!("write failed: {error}"))?;

    let most = most_answer_bytes(request.pipeline.len());
    let mut answer = Vec::new();
    let read = BufReader::new(stream).take(most + 1).read_until(b'\n', &mut answer);
    match read {
        Ok(0) => return Err("server closed connection without response".to_owned()),
        Ok(_) if answer.len() as u64 > most => return Err(format!("answer is longer than {most} bytes")),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Err(format!(
                "no response from daemon after {}s — it may be wedged or waiting on a prompt",
                patience.as_secs()
            ));
        }
        Err(error) => return Err(format!("read failed: {error}")),
    }
    let answer = Response::parse(&answer).map_err(|error| {
        let said: String = String::from_utf8_lossy(&answer).trim().chars().take(SHOWN).collect();
        format!("invalid response JSON: {}\nraw: {}", visible(&error.to_string()), visible(&said))
    })?;
    match answer.is_to(request) {
        true => Ok(answer),
        false => Err(format!("the answer is for another request ({})", visible(&answer.id))),
    }
}
