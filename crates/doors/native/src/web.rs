//! The native door on a web listener: the page, which everybody may have, and one WebSocket, at `/rpc`. Whoever comes there is
//! nobody until it shows a device's token or signs with its key; then it is served as at the socket, as far as the device's
//! rights go.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, post};
use ostler_door_web::websocket::{self, MessageMax};
use ostler_door_web::{Admitted, Arrived, Exposure, Refused, answer, bearer};
use ostler_engine::MayWait;
use ostler_engine::access::device::{DeviceError, Guest, Visitor};
use tokio::sync::watch;

use crate::arrival::Arrival;
use crate::{Door, DoorState, site};

/// Who does not say who they are by then come again: a person who is asked about them takes longer than that too.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);
/// Codes, links, tokens and signatures are short; of nobody known no more is read.
const NOBODYS_MAX: usize = 16 * 1024;

/// Where the links of notices lead: behind it stands the secret that answers.
pub const ANSWER_PATH: &str = "/answer/";

/// What a request is served with.
#[derive(Clone)]
struct Served {
    shared: Arc<DoorState>,
    exposure: Arc<Exposure>,
    arrived: Arrived,
}

impl Door {
    /// What answers the requests of a connection to a listener of this exposure.
    pub fn router(&self, exposure: Arc<Exposure>, arrived: Arrived) -> Router {
        let served = Served { shared: Arc::clone(&self.shared), exposure, arrived };
        let link = format!("{ANSWER_PATH}{{secret}}");
        Router::new().route("/rpc", any(rpc)).route(&link, post(answer_link)).fallback(page).with_state(served)
    }
}

/// The page and its parts; of anything else it is not to be found out by trying whether somebody may come in.
async fn page(State(served): State<Served>, request: Request) -> Response {
    match served.admit(&request) {
        Ok(_) => match site::serve(request.method(), request.uri().path(), request.headers()) {
            Ok(Some(response)) => response,
            Ok(None) => answer(StatusCode::NOT_FOUND, "there is nothing here but a page, and a WebSocket at /rpc"),
            Err(refused) => served.refuse(&refused),
        },
        Err(refused) => served.refuse(&refused),
    }
}

/// An answer by the link of a notice. Only what is posted counts: whatever merely looks at links changes nothing.
async fn answer_link(State(served): State<Served>, request: Request) -> Response {
    let admitted = match served.admit_own(&request) {
        Ok(admitted) => admitted,
        Err(refused) => return served.refuse(&refused),
    };
    let secret = request.uri().path().strip_prefix(ANSWER_PATH).unwrap_or_default().to_owned();
    let (engine, peer) = (served.shared.engine.clone(), served.arrived.peer);
    let answered = MayWait::pool(move |wait| {
        let visitor = admitted.visitor(peer, peer.caller(&engine));
        engine.answer_by_link(wait, &secret, &visitor)
    });
    match answered.await {
        Ok(Ok(true)) => answer(StatusCode::OK, "Allowed once."),
        Ok(Ok(false)) => answer(StatusCode::OK, "Denied."),
        Ok(Err(error)) => answer(StatusCode::FORBIDDEN, &error.to_string()),
        Err(lost) => answer(StatusCode::INTERNAL_SERVER_ERROR, &lost.to_string()),
    }
}

async fn rpc(State(served): State<Served>, mut request: Request) -> Response {
    let admitted = match served.admit_own(&request) {
        Ok(admitted) => admitted,
        Err(refused) => return served.refuse(&refused),
    };
    let token = bearer(request.headers()).map(|token| String::from_utf8_lossy(token).into_owned());
    let (response, upgrading) = match websocket::accept(&mut request, false) {
        Ok(accepted) => accepted,
        Err(error) => return answer(error.status(), &error.to_string()),
    };
    let (engine, peer) = (served.shared.engine.clone(), served.arrived.peer);
    // Looks at every process of the machine, and at the disk.
    let known = MayWait::pool(move |wait| {
        let visitor = admitted.visitor(peer, peer.caller(&engine));
        let guest = match token {
            Some(token) => engine.authenticate(wait, &token, &visitor).map(Some),
            None => engine.may_arrive(wait, &visitor).map(|()| None),
        };
        guest.map(|guest| (visitor, admitted.host, guest))
    });
    match known.await {
        Ok(Ok((visitor, host, guest))) => {
            tokio::spawn(served.serve(upgrading, visitor, host, guest));
            response
        }
        Ok(Err(error)) => {
            tracing::info!("web: {}: {error}", served.arrived.peer.address);
            match error {
                DeviceError::Hosted(_) | DeviceError::Unknown => answer(StatusCode::FORBIDDEN, &error.to_string()),
                _ => served.refuse(&Refused::BadToken),
            }
        }
        Err(lost) => answer(StatusCode::INTERNAL_SERVER_ERROR, &lost.to_string()),
    }
}

impl Served {
    fn admit(&self, request: &Request) -> Result<Admitted, Refused> {
        self.exposure.admit(self.arrived.peer, request.uri(), request.headers())
    }

    /// The same for what only our own page may do, if it is a page that asks.
    fn admit_own(&self, request: &Request) -> Result<Admitted, Refused> {
        self.exposure.admit_own(self.arrived.peer, request.uri(), request.headers())
    }

    fn refuse(&self, refused: &Refused) -> Response {
        tracing::warn!("web: {}: {refused}", self.arrived.peer.address);
        answer(refused.status(), &refused.to_string())
    }

    async fn serve(self, upgrading: websocket::Upgrading, visitor: Visitor, host: String, guest: Option<Guest>) {
        let Self { shared, arrived, .. } = self;
        let present = shared.counters.connected();
        let (came, mut who) = watch::channel(guest.map(Arc::new));
        let max = MessageMax::new(if who.borrow().is_some() { ostler_api::LINE_MAX } else { NOBODYS_MAX });
        let session = Arrival::new(Arc::clone(&shared), visitor, host, came, max.clone());
        let serving = websocket::serve(arrived.clone(), upgrading, session, crate::limits(), max);
        // A device that was put out is gone at once; one that never says who it is soon.
        let ended = async {
            let shown = tokio::time::timeout(SHOWN_WITHIN, who.wait_for(Option::is_some)).await;
            let guest = shown.ok().and_then(|shown| shown.ok().and_then(|guest| guest.clone()));
            if let Some(guest) = guest {
                arrived.is_device();
                let share = shared.shares.of(&guest.id);
                match share.enter() {
                    Some(_place) => shared.engine.until_revoked(&guest).await,
                    None => tracing::warn!("web: too many connections of one device"),
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = ended => {}
        }
        drop(present);
    }
}
