//! Short answers in words, with the headers that keep a browser from making anything of them. Nobody is ever told that another
//! site may read an answer: there are no CORS headers here, so a page elsewhere reads nothing and sends nothing but what a form
//! could send, and that is refused before it is read.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

/// With every answer. What is served is never a page, is framed by nobody, and is kept by nobody.
const SECURITY: [(HeaderName, HeaderValue); 7] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// An answer in words.
pub fn answer(status: StatusCode, words: &str) -> Response {
    let mut response = Response::new(Body::from(words.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().extend(SECURITY);
    response
}
