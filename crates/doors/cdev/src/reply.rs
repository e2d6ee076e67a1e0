//! Answers of HTTP: JSON with its headers, compressed where that is worth it and the client can read it.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use ostler_door_web::{Admitted, answer};
use serde::Serialize;

use crate::PROTOCOL;
use crate::error::{Code, Error};

/// The header by which both sides say which version they speak.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("x-cdev-protocol-version");
/// Shorter answers are sent as they are.
const GZIP_FROM: usize = 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// What such a page may read beside the answer.
const EXPOSED: HeaderValue = HeaderValue::from_static("x-cdev-protocol-version, retry-after");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// An answer, before it is dressed for whoever asked.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// Bytes of some other kind.
    pub(crate) fn of(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Self {
        Self { status, body, headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(kind))] }
    }

    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self { status, body, headers: vec![(header::CONTENT_TYPE, JSON)] },
            Err(error) => Self::from(&Error::internal(error)),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::try_from(value).map(|value| (name, value)));
        self
    }

    /// With what goes along with every answer: what keeps a browser from making something of it, the version, and for a page
    /// of another site that may read it that it may.
    pub(crate) fn dressed(self, admitted: Option<&Admitted>, asked: &HeaderMap) -> Response {
        let Self { status, mut body, headers: own } = self;
        let mut response = answer(status, "");
        let headers = response.headers_mut();
        for (name, value) in own {
            headers.insert(name, value);
        }
        headers.insert(VERSION, HeaderValue::from_static(PROTOCOL));
        headers.insert(header::VARY, HeaderValue::from_static("Origin, Accept-Encoding"));
        // A page that was let in, and no other: see `Exposure`.
        if let Some(page) = admitted.and(asked.get(header::ORIGIN)) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        if body.len() >= GZIP_FROM
            && reads_gzip(asked)
            && !headers.get(header::CONTENT_TYPE).is_some_and(is_packed)
            && let Some(packed) = gzip(&body)
        {
            headers.insert(header::CONTENT_ENCODING, GZIP);
            body = packed;
        }
        *response.body_mut() = Body::from(body);
        response
    }
}

impl From<&Error> for Reply {
    fn from(error: &Error) -> Self {
        let body = error.to_rest().to_string().into_bytes();
        let mut reply = Self { status: error.code.status(), body, headers: vec![(header::CONTENT_TYPE, JSON)] };
        if error.code == Code::Unauthorized {
            reply = reply.with(header::WWW_AUTHENTICATE, "Bearer");
        }
        match error.detail("retry_after_ms").and_then(serde_json::Value::as_u64) {
            Some(millis) => reply.with(header::RETRY_AFTER, &millis.div_ceil(1000).to_string()),
            None => reply,
        }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

fn is_packed(kind: &HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"image/png")
}

fn reads_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    packed.write_all(body).ok()?;
    packed.finish().ok()
}
