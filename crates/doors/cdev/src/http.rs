//! From a request of HTTP to what answers it. What needs no token is named here, path by path; everything else, whether it is
//! there or not, is answered to devices only.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use ostler_door_web::websocket::{self, MessageMax};
use ostler_door_web::{Admitted, Arrived, BodyLimits, Exposure, Refused, bearer, read_body};
use ostler_engine::access::device::{DeviceError, Guest, Visitor};
use ostler_engine::{Caller, MayWait};
use serde_json::json;

use crate::connection::{Client, MESSAGE_MAX, limits};
use crate::error::{Code, Error};
use crate::form::Form;
use crate::method::{Call, Source};
use crate::reply::{Reply, VERSION};
use crate::table::{self, ROUTES, Route, Verb};
use crate::{DoorState, PROTOCOL, auth, discover, pair};

/// 1 MiB: prompts and lists of paths; what is larger is uploaded in pieces.
pub(crate) const BODY: BodyLimits = BodyLimits { size: 1 << 20, within: Duration::from_secs(30) };
/// What a token is shown in front of.
const ACCESS: &str = "cdev_s_";

/// What a request is served with.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) state: Arc<DoorState>,
    pub(crate) exposure: Arc<Exposure>,
    /// What the listener is bound to.
    pub(crate) bound: SocketAddr,
    arrived: Arrived,
    /// What program is at the other end, once it was looked at: that takes a look at every process.
    caller: Arc<OnceLock<Caller>>,
}

/// What answers the requests of a connection.
pub(crate) fn router(state: Arc<DoorState>, exposure: Arc<Exposure>, bound: SocketAddr, arrived: Arrived) -> Router {
    Router::new().fallback(handle).with_state(Served { state, exposure, bound, arrived, caller: Arc::default() })
}

async fn handle(State(served): State<Served>, request: Request) -> Response {
    let asked = request.headers().clone();
    let peer = served.arrived.peer;
    let admitted = match served.exposure.admit(peer, request.uri(), &asked) {
        Ok(admitted) => admitted,
        Err(refused) => {
            tracing::warn!("cdev: {}: {refused}", peer.address);
            return Reply::from(not_admitted(&refused)).dressed(None, &asked);
        }
    };
    let is_pairing = is_pairing(request.uri().path());
    if is_pairing && admitted.page.is_some() {
        // A page that this machine serves may be an agent's, and the browser is a person's.
        let error = Error::new(Code::Forbidden, "pages of other sites do not pair devices");
        return Reply::from(error).dressed(None, &asked);
    }
    if request.method() == Method::OPTIONS {
        return preflight().dressed(Some(&admitted), &asked);
    }
    let answered = match speaks(&asked) {
        Ok(()) => served.answer(request, &admitted).await,
        Err(error) => Ok(error.into()),
    };
    match answered {
        Ok(reply) => reply.dressed(Some(&admitted), &asked),
        Err(upgraded) => *upgraded,
    }
}

fn not_admitted(refused: &Refused) -> Error {
    match refused {
        Refused::Form => Error::new(Code::Request, refused.to_string()),
        Refused::Origin => Error::new(Code::Forbidden, "Origin not allowed"),
        _ => Error::new(Code::Forbidden, refused.to_string()),
    }
}

/// What a browser asks before it lets a page of another site call.
fn preflight() -> Reply {
    Reply { status: StatusCode::NO_CONTENT, body: Vec::new(), headers: Vec::new() }
        .with(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE, OPTIONS")
        .with(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, X-Cdev-Protocol-Version")
        .with(header::ACCESS_CONTROL_MAX_AGE, "600")
}

/// Whether the client speaks our version, where it says which.
fn speaks(asked: &HeaderMap) -> Result<(), Error> {
    let Some(said) = asked.get(VERSION) else { return Ok(()) };
    let major = |text: &str| text.trim().split('.').next().and_then(|major| major.parse::<u32>().ok());
    match said.to_str().ok().and_then(major) {
        Some(said) if Some(said) == major(PROTOCOL) => Ok(()),
        _ => {
            let message = format!("this server speaks version {PROTOCOL} of the protocol");
            Err(Error::new(Code::Version, message).with("supported", PROTOCOL))
        }
    }
}

/// What pairs devices and decides about them: for programs of this machine and our own page.
fn is_pairing(path: &str) -> bool {
    path == "/pair" || path.starts_with("/api/pair/") || path.starts_with("/api/auth/pairing/")
}

/// What a request of REST came with.
enum Payload {
    Query(String),
    Json(String),
    Form(Form),
}

/// A plain answer; or one that makes a WebSocket of the connection.
type Answered = Result<Reply, Box<Response>>;

impl Served {
    async fn answer(&self, request: Request, admitted: &Admitted) -> Answered {
        let path = request.uri().path().to_owned();
        // The whole of what needs no token.
        Ok(match path.as_str() {
            "/health" => match *request.method() {
                Method::GET => health(&self.state),
                _ => wrong_verb("GET"),
            },
            "/api/auth/exchange" | "/api/auth/refresh" | "/api/auth/revoke" => {
                auth::token(self, request, admitted).await
            }
            path if path.starts_with("/api/auth/pairing/") => auth::pairing(self, request, admitted).await,
            path if path == "/pair" || path.starts_with("/api/pair/") => pair::answer(self, request, admitted).await,
            _ => return self.for_devices(request, admitted).await,
        })
    }

    async fn for_devices(&self, mut request: Request, admitted: &Admitted) -> Answered {
        let asked = request.headers().clone();
        let guest = match self.guest(admitted, &asked).await {
            Ok(guest) => Arc::new(guest),
            Err(error) => return Ok(error.into()),
        };
        let path = request.uri().path().to_owned();
        if path == "/ws" {
            return match websocket::accept(&mut request, true) {
                Ok((mut response, upgrading)) => {
                    response.headers_mut().insert(VERSION, axum::http::HeaderValue::from_static(PROTOCOL));
                    tokio::spawn(self.clone().websocket(upgrading, guest));
                    Err(Box::new(response))
                }
                Err(error) => {
                    let body = json!({ "error": error.to_string(), "code": Code::Request.word() });
                    Ok(Reply::json(error.status(), &body).with(header::UPGRADE, "websocket"))
                }
            };
        }
        if let Err(error) = self.state.count_device(&guest, Instant::now()) {
            return Ok(error.into());
        }
        if let Some(description) = discover::answer(&path) {
            return Ok(if request.method() == Method::GET { description } else { wrong_verb("GET") });
        }
        let named: Vec<&'static Route> = ROUTES.iter().filter(|route| route.path == path).collect();
        if named.is_empty() {
            let words = format!("there is nothing at {}", path.chars().take(200).collect::<String>());
            return Ok(Error::new(Code::NotFound, words).into());
        }
        let Some(route) = named.iter().find(|route| route.verb.is(request.method())) else {
            return Ok(wrong_verb(&named.iter().map(|route| route.verb.word()).collect::<Vec<_>>().join(", ")));
        };
        Ok(self.route(route, request, guest).await.unwrap_or_else(Reply::from))
    }

    async fn route(&self, route: &'static Route, request: Request, guest: Arc<Guest>) -> Result<Reply, Error> {
        let payload = match route.verb {
            Verb::Get => Payload::Query(request.uri().query().unwrap_or_default().to_owned()),
            Verb::Post => Payload::Json(body(request).await?),
            Verb::Form => Payload::Form(Form::read(request).await?),
        };
        let call = Call { state: Arc::clone(&self.state), guest, connection: None };
        let answered = MayWait::pool(move |wait| {
            let prepare = || match &payload {
                Payload::Query(query) => (route.entry.prepare)(Source::Query(query)),
                // Nothing at all is an empty object; this is another thing.
                Payload::Json(body) if matches!(body.trim(), "null" | "[]") => {
                    Err(Error::params("the body is no object"))
                }
                Payload::Json(body) => (route.entry.prepare)(Source::Json(body)),
                Payload::Form(form) => (route.entry.prepare)(Source::Json(&form.params()?)),
            };
            table::allowed(&call, &route.entry, prepare)?.run(wait, &call)
        });
        let outcome = answered.await.map_err(Error::internal)??;
        Ok(Reply::json(StatusCode::OK, &outcome))
    }

    /// The device that a request shows the token of.
    pub(crate) async fn guest(&self, admitted: &Admitted, asked: &HeaderMap) -> Result<Guest, Error> {
        let nobody = || Error::new(Code::Unauthorized, "Unauthorized: a Bearer token is needed");
        let token = bearer(asked).and_then(|token| std::str::from_utf8(token).ok()).filter(|token| !token.is_empty());
        let token = token.ok_or_else(nobody)?;
        let token = token.strip_prefix(ACCESS).unwrap_or(token).to_owned();
        self.with_visitor(admitted, move |wait, state, visitor| {
            state.engine.authenticate(wait, &token, visitor).map_err(|error| not_in(&error))
        })
        .await
    }

    /// Works on a thread that may wait, with whoever is at the other end.
    pub(crate) async fn with_visitor<T: Send + 'static>(
        &self,
        admitted: &Admitted,
        work: impl FnOnce(&MayWait, &Arc<DoorState>, &Visitor) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (state, peer, known) = (Arc::clone(&self.state), self.arrived.peer, Arc::clone(&self.caller));
        let admitted = admitted.clone();
        let worked = MayWait::pool(move |wait| {
            let caller = known.get().cloned().unwrap_or_else(|| {
                let caller = peer.caller(&state.engine);
                // Who could not be looked at is looked at again.
                if caller != Caller::Unknown {
                    let _ = known.set(caller.clone());
                }
                caller
            });
            work(wait, &state, &admitted.visitor(peer, caller))
        });
        worked.await.map_err(Error::internal)?
    }

    async fn websocket(self, upgrading: websocket::Upgrading, guest: Arc<Guest>) {
        let Ok(id) = ostler_engine::uuid() else { return };
        let client = Client::new(Arc::clone(&self.state), Arc::clone(&guest), id);
        self.arrived.is_device();
        let serving = websocket::serve(self.arrived, upgrading, client, limits(), MessageMax::new(MESSAGE_MAX));
        // A device that was put out is gone at once.
        tokio::select! {
            () = serving => {}
            () = self.state.engine.until_revoked(&guest) => {}
        }
    }
}

/// Why a device was not let in.
pub(crate) fn not_in(error: &DeviceError) -> Error {
    let code = match error {
        DeviceError::NotIn(_) | DeviceError::Unsigned(_) => Code::Unauthorized,
        DeviceError::Store(_) | DeviceError::Random(_) => Code::Internal,
        _ => Code::Forbidden,
    };
    Error::new(code, error.to_string())
}

/// A body of JSON; an empty one is none.
pub(crate) async fn body(request: Request) -> Result<String, Error> {
    let bytes = read_body(request, BODY).await.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Error::new(Code::FileTooLarge, error.to_string()),
        _ => Error::params(error.to_string()),
    })?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::params("the body is no text"))
}

pub(crate) fn wrong_verb(allowed: &str) -> Reply {
    let body = json!({ "error": format!("use {allowed}"), "code": Code::Request.word() });
    Reply::json(StatusCode::METHOD_NOT_ALLOWED, &body).with(header::ALLOW, allowed)
}

fn health(state: &DoorState) -> Reply {
    let uptime = state.started.elapsed().as_secs();
    Reply::json(StatusCode::OK, &json!({ "status": "ok", "uptime_seconds": uptime }))
}

impl Verb {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post | Self::Form => "POST",
        }
    }

    fn is(self, method: &Method) -> bool {
        method.as_str() == self.word()
    }
}
