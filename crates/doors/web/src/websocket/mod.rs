//! A WebSocket with the bounded connection of lines on it. Written here rather than taken from a crate: of those, one has no
//! bound on what it inflates and doubles five dependencies, the others know nothing of a loop that must never wait.

mod deflate;
mod frame;
mod handshake;
mod incoming;
mod transport;

use std::time::Duration;

use hyper_util::rt::TokioIo;
use ostler_door_rpc::{Limits, Session, serve_over};

pub use handshake::{NotAWebSocket, Upgrading, accept};
pub use incoming::MessageMax;
use transport::{GOING_AWAY, NORMAL};
pub use transport::{WebSocket, Writer};

use crate::Arrived;

/// What a protocol says of its WebSockets beyond the RFC.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// A client that has been silent for so long is asked whether it is there.
    pub ask_after: Duration,
    /// One that does not answer within this time is not.
    pub gone_after: Duration,
    /// Taking what is sent is no answer.
    pub must_answer: bool,
    /// What is no text is passed over; otherwise it ends the connection.
    pub ignores_binary: bool,
}

impl Default for Manner {
    /// Proxies hang up on who is silent for a minute.
    fn default() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self { ask_after: half_a_minute, gone_after: half_a_minute, must_answer: false, ignores_binary: false }
    }
}

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
    let socket = WebSocket::new(stream, max, upgrading.deflate).with(upgrading.manner);
    let farewell = socket.farewell();
    let mut stop = arrived.stop.clone();
    tokio::select! {
        served = serve_over(socket, session, limits) => {
            if let Err(error) = served {
                tracing::debug!("{address}: {error}");
            }
            farewell(NORMAL);
        }
        _ = stop.wait_for(|stop| *stop) => farewell(GOING_AWAY),
    }
}
