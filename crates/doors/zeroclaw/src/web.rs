//! The same door on the web port, one WebSocket at [`PATH`]: each text is a message. Only where the listener speaks TLS with the
//! user's certificate; who may offer it to whom is the listener's to say, and what a token is worth the engine's.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use ostler_door_web::websocket::{self, Manner, MessageMax, Upgrading};
use ostler_door_web::{Admitted, Arrived, Exposure, Router, answer};
use ostler_engine::MayWait;

use crate::connection::Client;
use crate::who::{Remote, Who};
use crate::{Door, DoorState, attend, limits};

/// Where it is.
pub const PATH: &str = "/zeroclaw";

/// Versions, names and a token are short; of nobody known no more is read.
const NOBODYS_MAX: usize = 16 * 1024;
/// What clients of this protocol are used to.
const MANNER: Manner = Manner {
    ask_after: Duration::from_secs(20),
    gone_after: Duration::from_secs(10),
    must_answer: true,
    ignores_binary: true,
};

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
        Router::new().route(PATH, any(open)).with_state(served)
    }
}

async fn open(State(served): State<Served>, mut request: Request) -> Response {
    let peer = served.arrived.peer;
    let admitted = match served.exposure.admit_own(peer, request.uri(), request.headers()) {
        Ok(admitted) => admitted,
        Err(refused) => {
            tracing::warn!("zeroclaw door: {}: {refused}", peer.address);
            return answer(refused.status(), &refused.to_string());
        }
    };
    match websocket::accept(&mut request, false) {
        Ok((response, upgrading)) => {
            // The listener counts them: nobody here takes a place of this machine's own clients.
            tokio::spawn(served.serve(upgrading.with(MANNER), admitted));
            response
        }
        Err(error) => answer(error.status(), &error.to_string()),
    }
}

impl Served {
    async fn serve(self, upgrading: Upgrading, admitted: Admitted) {
        let Self { shared, arrived, .. } = self;
        let (here, peer, engine) = (shared.presence.enter(), arrived.peer, shared.engine.clone());
        // Looks at every process of the machine.
        let visitor = MayWait::pool(move |wait| {
            let visitor = admitted.visitor(peer, peer.caller(&engine));
            engine.may_arrive(wait, &visitor).map(|()| visitor)
        });
        let Ok(Ok(visitor)) = visitor.await else { return };
        let max = MessageMax::new(NOBODYS_MAX);
        let remote = Remote::new(peer.address, visitor, max.clone());
        let mut came = remote.came();
        let client = Client::new(Arc::clone(&shared), Who::Remote(remote), here.number());
        let greeted = client.greeted();
        let serving = websocket::serve(arrived.clone(), upgrading, client, limits(), max);
        // A device that was put out is gone at once.
        let revoked = async {
            let known = came.wait_for(Option::is_some).await.ok().and_then(|came| came.clone());
            match known {
                Some(came) => {
                    arrived.is_device();
                    shared.engine.until_revoked(&came.guest).await;
                }
                None => std::future::pending().await,
            }
        };
        let served = async {
            tokio::select! {
                () = serving => {}
                () = revoked => {}
            }
            Ok(())
        };
        attend(&shared, greeted, served).await;
        drop(here);
    }
}
