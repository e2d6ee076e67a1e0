//! A WebSocket with the bounded connection of lines on it. Written here rather than taken from a crate: of those, one has no
//! bound on what it inflates and doubles five dependencies, the others know nothing of a loop that must never wait.

mod deflate;
mod frame;
mod handshake;
mod incoming;
mod transport;

use hyper_util::rt::TokioIo;
use ostler_door_rpc::{Limits, Session, serve_over};

pub use handshake::{NotAWebSocket, Upgrading, accept};
pub use incoming::MessageMax;
pub use transport::{WebSocket, Writer};

use crate::Arrived;

/// Serves a session over what a connection has become, until the client goes, the session closes, or the listener does.
pub async fn serve<S: Session + 'static>(
    arrived: Arrived,
    upgrading: Upgrading,
    session: S,
    limits: Limits,
    max: MessageMax,
) where
    S::Tag: 'static,
{
    let address = arrived.peer.address;
    let stream = match upgrading.upgraded.await {
        Ok(stream) => TokioIo::new(stream),
        Err(error) => return tracing::debug!("{address}: no WebSocket after all: {error}"),
    };
    let socket = WebSocket::new(stream, max, upgrading.deflate);
    let farewell = socket.farewell();
    let mut stop = arrived.stop.clone();
    tokio::select! {
        served = serve_over(socket, session, limits) => {
            if let Err(error) = served {
                tracing::debug!("{address}: {error}");
            }
        }
        _ = stop.wait_for(|stop| *stop) => farewell(),
    }
}
