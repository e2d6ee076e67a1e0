//! The one line that a client sends, bounded in size and time, and whether the client is still there.

use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;

/// 1 MiB with the newline: the size that clients know.
const REQUEST_MAX: usize = 1024 * 1024;
/// A client that has not said what it wants by then holds one of few places for nothing.
const WITHIN: Duration = Duration::from_secs(10);
/// One read's worth; most requests are smaller.
const CHUNK: usize = 16 * 1024;
/// A client that sends too much is still writing when it is answered; it gets a moment to stop.
const LINGER: Duration = Duration::from_secs(1);

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A whole line, without its end.
    Line(Vec<u8>),
    /// The client left, or sent an empty line: there is nothing to answer.
    Nothing,
    /// No request, and what to say about it.
    Broken(&'static str),
    /// More than a request may be.
    TooLong,
}

/// What is answered to a request that is too long.
pub(crate) const TOO_LONG: &str = "read error: request exceeds maximum size";

/// Reads one line; what follows it is ignored.
pub(crate) async fn request(stream: &UnixStream) -> io::Result<Arrived> {
    match tokio::time::timeout(WITHIN, line(stream)).await {
        Ok(arrived) => arrived,
        Err(_) => Ok(Arrived::Broken("handshake deadline exceeded")),
    }
}

async fn line(stream: &UnixStream) -> io::Result<Arrived> {
    let mut bytes = Vec::new();
    loop {
        let searched = bytes.len();
        if !read_some(stream, &mut bytes).await? {
            return Ok(match bytes.is_empty() {
                true => Arrived::Nothing,
                false => Arrived::Broken("read error: request missing trailing newline"),
            });
        }
        let fresh = bytes.get(searched..).unwrap_or_default();
        match fresh.iter().position(|byte| *byte == b'\n') {
            Some(at) if searched + at < REQUEST_MAX => {
                bytes.truncate(searched + at);
                return Ok(if bytes.is_empty() { Arrived::Nothing } else { Arrived::Line(bytes) });
            }
            None if bytes.len() < REQUEST_MAX => {}
            _ => return Ok(Arrived::TooLong),
        }
    }
}

/// Appends what has come; `false` at the end.
async fn read_some(stream: &UnixStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        bytes.reserve(CHUNK);
        match stream.try_read_buf(bytes) {
            Ok(count) => return Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads and drops what a client still sends, for a moment, so that it gets to read its answer.
pub(crate) async fn drain(stream: &UnixStream) {
    let drained = async {
        let mut bytes = Vec::new();
        while matches!(read_some(stream, &mut bytes).await, Ok(true)) {
            bytes.clear();
        }
    };
    // Either way the connection closes now.
    let _ = tokio::time::timeout(LINGER, drained).await;
}

/// Resolves when the client is gone for good. One that only stopped sending still waits for its answer.
pub(crate) async fn gone(stream: &UnixStream) {
    loop {
        match stream.ready(Interest::WRITABLE).await {
            Ok(ready) if !ready.is_write_closed() => {
                // There is always room to write; forgetting it makes the next wait end with the next event only.
                let _ = stream.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    async fn sent(bytes: &[u8], more: bool) -> Arrived {
        let (mut client, server) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let writer = tokio::spawn(async move {
            let _ = client.write_all(&bytes).await;
            if !more {
                let _ = client.shutdown().await;
            }
            client
        });
        let arrived = request(&server).await.unwrap();
        drop(server);
        drop(writer.await);
        arrived
    }

    #[tokio::test]
    async fn one_line_is_taken_and_what_follows_is_ignored() {
        assert_eq!(sent(b"{}\n{\"second\":1}\n", true).await, Arrived::Line(b"{}".to_vec()));
        assert_eq!(sent(b"{}\r\n", true).await, Arrived::Line(b"{}\r".to_vec()));
    }

    #[tokio::test]
    async fn silence_and_an_empty_line_need_no_answer() {
        for nothing in [&b""[..], b"\n"] {
            assert_eq!(sent(nothing, false).await, Arrived::Nothing);
        }
        assert_eq!(sent(b"\r\n", false).await, Arrived::Line(b"\r".to_vec()), "not empty: it is answered");
    }

    #[tokio::test]
    async fn a_line_without_its_end_is_told_apart() {
        assert_eq!(sent(b"{\"pipe", false).await, Arrived::Broken("read error: request missing trailing newline"));
    }

    #[tokio::test]
    async fn the_longest_request_arrives_and_one_byte_more_does_not() {
        let mut line = vec![b'x'; REQUEST_MAX - 1];
        line.push(b'\n');
        assert_eq!(sent(&line, true).await, Arrived::Line(vec![b'x'; REQUEST_MAX - 1]));
        line.insert(0, b'x');
        assert_eq!(sent(&line, true).await, Arrived::TooLong);
        assert_eq!(sent(&vec![b'x'; 3 * REQUEST_MAX], true).await, Arrived::TooLong);
    }

    #[tokio::test]
    async fn a_half_closed_client_is_there_and_a_closed_one_is_gone() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"later\n").await.unwrap();
        client.shutdown().await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(100), gone(&server)).await;
        assert!(waited.is_err(), "a half-closed client counts as gone");
        drop(client);
        tokio::time::timeout(Duration::from_secs(30), gone(&server)).await.expect("a hang-up goes unnoticed");
    }

    #[tokio::test]
    async fn a_client_that_left_before_anybody_looked_is_gone() {
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        tokio::time::timeout(Duration::from_secs(30), gone(&server)).await.expect("a hang-up goes unnoticed");
    }
}
