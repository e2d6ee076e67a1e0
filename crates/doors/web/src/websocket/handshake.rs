//! From a request to a WebSocket: RFC 6455, section 4.2. Who may come in was decided before.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::upgrade::OnUpgrade;

use super::Manner;
use super::deflate::{AGREED, is_offered};

/// What a key is answered with, by the RFC.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Sixteen bytes in base64.
const KEY_LENGTH: usize = 24;
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// Why a request becomes no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAWebSocket {
    /// It asks for something else.
    #[error("this is a WebSocket: connect with a WebSocket client")]
    Plain,
    /// It speaks another version.
    #[error("WebSocket version 13 is spoken here")]
    Version,
    /// Its key is no key.
    #[error("Bad Request: Sec-WebSocket-Key")]
    Key,
}

impl NotAWebSocket {
    /// What HTTP calls it.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Plain | Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Key => StatusCode::BAD_REQUEST,
        }
    }
}

/// What a connection becomes once the answer was sent.
pub struct Upgrading {
    pub(super) upgraded: OnUpgrade,
    /// Messages may be compressed.
    pub(super) deflate: bool,
    pub(super) manner: Manner,
}

impl Upgrading {
    /// The same in the manner of another protocol.
    #[must_use]
    pub fn with(self, manner: Manner) -> Self {
        Self { manner, ..self }
    }
}

/// The answer that makes a WebSocket of this connection. Messages are compressed where the door asks for it and the client
/// offers it.
pub fn accept(request: &mut Request, deflate: bool) -> Result<(Response, Upgrading), NotAWebSocket> {
    let answer = answer(request.method(), request.headers())?;
    let deflate = deflate && is_offered(request.headers());
    let upgraded = hyper::upgrade::on(request);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, answer);
    if deflate {
        headers.insert(header::SEC_WEBSOCKET_EXTENSIONS, AGREED);
    }
    Ok((response, Upgrading { upgraded, deflate, manner: Manner::default() }))
}

fn answer(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, NotAWebSocket> {
    let asks = *method == Method::GET
        && says(headers, header::CONNECTION, "upgrade")
        && says(headers, header::UPGRADE, "websocket");
    if !asks {
        return Err(NotAWebSocket::Plain);
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        return Err(NotAWebSocket::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == KEY_LENGTH).ok_or(NotAWebSocket::Key)?;
    let mut hash = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(MAGIC);
    HeaderValue::try_from(BASE64_STANDARD.encode(hash.finish())).map_err(|_| NotAWebSocket::Key)
}

/// Whether this is one of a header's words.
fn says(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &'static str)]) -> Result<HeaderValue, NotAWebSocket> {
        let headers =
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        answer(&Method::GET, &headers.collect())
    }

    const GOOD: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_key_of_the_rfc_is_answered_as_the_rfc_says() {
        assert_eq!(asked(&GOOD).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = |name: &str| asked(&GOOD.iter().copied().filter(|(known, _)| *known != name).collect::<Vec<_>>());
        assert_eq!(without("connection"), Err(NotAWebSocket::Plain));
        assert_eq!(without("upgrade"), Err(NotAWebSocket::Plain));
        assert_eq!(without("sec-websocket-version"), Err(NotAWebSocket::Version));
        assert_eq!(without("sec-websocket-key"), Err(NotAWebSocket::Key));
    }
}
