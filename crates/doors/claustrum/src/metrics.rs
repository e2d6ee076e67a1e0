//! Counters over HTTP for Prometheus, on an address that the operator chose. No authentication, no content.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Counters;

/// A scraper sends a few hundred bytes; more is not one.
const REQUEST_MAX: usize = 8 * 1024;
/// A client that dawdles holds a descriptor.
const WITHIN: Duration = Duration::from_secs(5);

/// Answers `GET /metrics` until dropped.
pub async fn serve(listener: TcpListener, counters: Arc<Counters>) {
    ostler_door_rpc::accept_each("[Server] metrics:", &listener, |(stream, _)| {
        let counters = Arc::clone(&counters);
        tokio::spawn(async move {
            // One scrape that fails is the scraper's to notice.
            let _ = tokio::time::timeout(WITHIN, answer(stream, &counters)).await;
        });
    })
    .await;
}

async fn answer(mut stream: TcpStream, counters: &Counters) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let mut words = request.split(|byte| byte.is_ascii_whitespace());
    // What follows a question mark picks nothing here.
    let (method, path) = (words.next(), words.next().and_then(|target| target.split(|byte| *byte == b'?').next()));
    let (status, body) = match (method, path) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", render(counters)),
        (Some(b"GET" | b"HEAD"), Some(_)) => ("404 Not Found", "404 page not found\n".to_owned()),
        (Some(_), Some(b"/metrics")) => ("405 Method Not Allowed", String::new()),
        _ => ("400 Bad Request", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn render(counters: &Counters) -> String {
    let mut text = String::new();
    for (name, help, value) in counters.all() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
    }
    text
}
