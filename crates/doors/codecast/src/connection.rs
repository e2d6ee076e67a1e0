//! One connection: who it is, and its requests from the first header to the answer. Nothing of a request is read before its
//! sender may speak here.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ostler_door_rpc::RpcError;
use ostler_door_web::{Arrived, BodyLimits, ResponseBody, Tokens, admit, read_body};

use crate::envelope::{self, NotARequest, Params};
use crate::methods::{self, Reply};
use crate::{DoorState, stream};

/// 2 MiB: what clients of this protocol know as too large beyond it.
const BODY: BodyLimits = BodyLimits { size: 2 << 20, within: Duration::from_secs(30) };

/// What a request is served with.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) shared: Arc<DoorState>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) arrived: Arrived,
}

impl Connection {
    /// What answers its requests.
    pub(crate) fn router(self) -> Router {
        Router::new().route("/rpc", post(serve)).with_state(self)
    }
}

async fn serve(State(connection): State<Connection>, request: Request) -> Response {
    let peer = connection.arrived.peer;
    if let Err(refused) = admit(peer, request.uri(), request.headers(), connection.tokens.as_deref()) {
        tracing::warn!("codecast: {}: {refused}", peer.address);
        return plain(refused.status(), refused.to_string());
    }
    if !is_json(request.headers()) {
        let what = "Expected request with `Content-Type: application/json`";
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, what.to_owned());
    }
    let body = match read_body(request, BODY).await {
        Ok(body) => body,
        Err(error) => return plain(error.status(), error.to_string()),
    };
    let request = match envelope::Request::read(&body) {
        Ok(request) => request,
        Err(error @ NotARequest::Syntax(_)) => return plain(StatusCode::BAD_REQUEST, error.to_string()),
        Err(error @ NotARequest::Shape(_)) => return plain(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
    };
    let params = request.params();
    let reply = match request.method.as_deref() {
        None => Reply::Result(Err(RpcError::invalid("Invalid request: missing method"))),
        Some("session.send") => match send(&connection, &params) {
            Ok(response) => return response,
            Err(error) => Reply::Result(Err(error)),
        },
        Some(method) => methods::call(&connection.shared, peer, method, &params).await,
    };
    match reply {
        Reply::Result(result) => json(request.answer(result, false).into()),
        Reply::Health(result) => json(request.answer(Ok(result), true).into()),
        Reply::Owed(session, owed) => {
            let whole = request.answer(Ok(owed.result()), false);
            let (response, body) = ResponseBody::new(Arc::clone(&connection.arrived.meter));
            tokio::spawn(methods::hand_over(Arc::clone(&connection.shared), session, owed, whole, response));
            json(body)
        }
    }
}

fn send(connection: &Connection, params: &Params) -> Result<Response, RpcError> {
    let [id, message] = params.need(["sessionId", "message"])?;
    let (response, body) = ResponseBody::new(Arc::clone(&connection.arrived.meter));
    let (shared, from) = (Arc::clone(&connection.shared), connection.arrived.peer);
    tokio::spawn(stream::serve(shared, from, id.to_owned(), message.to_owned(), response));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// `application/json`, or JSON of a more special kind, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn json(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn plain(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
