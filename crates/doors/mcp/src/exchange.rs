//! One request, one answer, over one connection.
//!
//! A connection that ends before any answer is tried again for a while with the very same request: a tunnel may still be
//! coming up, and a daemon tells a repeated id from a second wish. Dropping the future hangs up, which withdraws the question.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use crate::target::impostor;
use crate::wire::{Request, RequestError, Response, VERSION, most_answer_bytes};

/// A unix socket that takes longer is the near end of a dead tunnel.
const PHASE: Duration = Duration::from_secs(5);
const RETRY_FOR: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// However late the request went out, its answer gets this long.
const READ_AT_LEAST: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("connect timed out after {}s — tunnel to {} may be dead, try restarting the server", PHASE.as_secs(), .0.display())]
    ConnectTimeout(PathBuf),
    #[error("connect to {}: {source}", .socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("not asked: the program that listens at {} belongs to user {uid}", .socket.display())]
    Impostor { socket: PathBuf, uid: u32 },
    #[error("write timed out after {}s — server at {} may be unresponsive", PHASE.as_secs(), .0.display())]
    WriteTimeout(PathBuf),
    #[error("write: {0}")]
    Write(io::Error),
    #[error("read: {0}")]
    Read(io::Error),
    #[error(
        "server did not respond within {}s — it may be busy with another command or waiting for user approval", .0.as_secs()
    )]
    Silent(Duration),
    #[error("server closed connection without response (after {0} retries)")]
    Closed(u32),
    #[error("answer is longer than {0} bytes, which no answer to this request can be")]
    TooLong(u64),
    #[error("answer is for another request ({id:?})")]
    NotOurs { id: String },
    #[error("parse response from sudo-proxy {version} (client {client} {VERSION}): {source}")]
    Parse { version: String, client: String, source: serde_json::Error },
}

/// Asks the daemon at `socket` and waits for its answer; without a limit as long as the daemon keeps the connection.
pub async fn send(socket: &Path, request: &Request, limit: Option<Duration>) -> Result<Response, SendError> {
    let line = request.to_line()?;
    let most = most_answer_bytes(request.pipeline.len());
    let give_up = Instant::now() + RETRY_FOR;
    let mut retries = 0;
    let answer = loop {
        match attempt(socket, &line, most, limit).await? {
            Some(answer) => break answer,
            None if Instant::now() < give_up => {
                retries += 1;
                tracing::debug!("send: connection ended without an answer, retry {retries}");
                sleep(RETRY_PAUSE).await;
            }
            None => return Err(SendError::Closed(retries)),
        }
    };
    let answer = Response::parse(&answer).map_err(|source| SendError::Parse {
        version: version_of(&answer),
        client: request.session.clone(),
        source,
    })?;
    if answer.is_to(request) { Ok(answer) } else { Err(SendError::NotOurs { id: answer.id }) }
}

/// The answer's line, or nothing when the connection ended before its first byte.
async fn attempt(socket: &Path, line: &[u8], most: u64, limit: Option<Duration>) -> Result<Option<Vec<u8>>, SendError> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let stream = match timeout(PHASE, UnixStream::connect(socket)).await {
        Err(_) => return Err(SendError::ConnectTimeout(socket.to_owned())),
        Ok(Err(source)) => return Err(SendError::Connect { socket: socket.to_owned(), source }),
        Ok(Ok(stream)) => stream,
    };
    if let Some(uid) = impostor(&stream, socket) {
        return Err(SendError::Impostor { socket: socket.to_owned(), uid });
    }
    let (read, mut write) = stream.into_split();
    match timeout(PHASE, write.write_all(line)).await {
        Err(_) => return Err(SendError::WriteTimeout(socket.to_owned())),
        Ok(Err(error)) if is_hangup(&error) => return Ok(None),
        Ok(Err(error)) => return Err(SendError::Write(error)),
        Ok(Ok(())) => {}
    }
    let mut answer = Vec::new();
    let mut read = BufReader::new(read).take(most + 1);
    let reading = read.read_until(b'\n', &mut answer);
    let done = match deadline {
        None => reading.await,
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now()).max(READ_AT_LEAST);
            timeout(left, reading).await.map_err(|_| SendError::Silent(left))?
        }
    };
    match done {
        Err(error) if is_hangup(&error) && answer.is_empty() => Ok(None),
        Err(error) => Err(SendError::Read(error)),
        Ok(_) if answer.is_empty() => Ok(None),
        Ok(_) if answer.len() as u64 > most => Err(SendError::TooLong(most)),
        Ok(_) => Ok(Some(answer)),
    }
}

fn is_hangup(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Even an answer of a shape that we do not know usually says which release it is from.
fn version_of(line: &[u8]) -> String {
    let whole: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let version = whole.as_ref().and_then(|answer| answer.get("version")?.as_str()).filter(|text| !text.is_empty());
    version.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests;
