//! The body of a request, with a bound on its size and on the time it takes.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};

/// How much of a body is read, and for how long it is waited for.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Bytes.
    pub size: usize,
    /// A client that takes longer to send that much has stopped.
    pub within: Duration,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is longer than allowed.
    #[error("length limit exceeded")]
    TooLarge,
    /// The client stopped in the middle of it.
    #[error("the request body broke off")]
    BrokeOff,
    /// It did not come in time.
    #[error("the request body took too long")]
    TooSlow,
}

impl BodyError {
    /// What HTTP calls it.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokeOff => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// The whole body. What is announced as too long is not read at all.
pub async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, BodyError> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > limits.size as u64) {
        return Err(BodyError::TooLarge);
    }
    match tokio::time::timeout(limits.within, to_bytes(request.into_body(), limits.size)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) if length.is_none() => Err(BodyError::TooLarge),
        Ok(Err(_)) => Err(BodyError::BrokeOff),
        Err(_) => Err(BodyError::TooSlow),
    }
}
