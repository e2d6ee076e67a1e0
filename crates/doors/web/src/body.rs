//! The body of a request, with a bound on its size and on the time it takes.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
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

/// What is too long is heard out all the same, and not kept: most clients look for the answer when they have said all, and one that
/// is cut off before finds none. So much and so long at most.
const HEARD_OUT: BodyLimits = BodyLimits { size: 64 << 20, within: Duration::from_secs(10) };

/// The whole body. Of what is announced as too long nothing is kept.
pub async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, BodyError> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut body = request.into_body();
    if length.is_some_and(|length: u64| length > limits.size as u64) {
        hear_out(body);
        return Err(BodyError::TooLarge);
    }
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(piece) = next(&mut body).await? {
            if bytes.len() + piece.len() > limits.size {
                return Err(BodyError::TooLarge);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(())
    };
    let read = tokio::time::timeout(limits.within, reading).await.unwrap_or(Err(BodyError::TooSlow));
    if read == Err(BodyError::TooLarge) {
        hear_out(body);
    }
    read.map(|()| bytes.into())
}

/// The next piece; nothing at the end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, BodyError> {
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyError::BrokeOff),
            Some(Ok(frame)) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

/// Reads the rest beside the answer, which need not wait for it.
fn hear_out(mut body: Body) {
    drop(tokio::spawn(tokio::time::timeout(HEARD_OUT.within, async move {
        let mut heard = 0;
        while let Ok(Some(piece)) = next(&mut body).await
            && heard < HEARD_OUT.size
        {
            heard += piece.len();
        }
    })));
}
