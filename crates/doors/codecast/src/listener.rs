//! The open door: connections come in, each is looked at before it may say anything, and there are never too many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ostler_door_rpc::{Listener, accept_each};
use ostler_engine::{Engine, MayWait};
use rustix::event::{PollFd, PollFlags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::guard::Peer;
use crate::guests::{Guests, Holder};
use crate::response_body::Metered;
use crate::tokens::Tokens;
use crate::{Config, DoorState, Settings, peer, tls};

/// Connections that are being looked at. Those that come meanwhile wait in the kernel.
const ARRIVING: usize = 64;
/// A client that takes longer for its headers, or between requests, is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// A handshake is two round trips.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Headers, and what is gathered before it is written.
const BUFFER: usize = 64 * 1024;
/// The kernel's table is read line by line while it changes: looks at it for a connection that must be in it.
const LOOKS: usize = 5;
/// How long streams may take to end when the door closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
    open: Option<Open>,
    arriving: Arc<Semaphore>,
    guests: Guests,
}

/// A listener that lets nobody in before there is time for a look at them.
struct Unhurried<'a> {
    listener: &'a TcpListener,
    arriving: &'a Arc<Semaphore>,
}

impl Listener for Unhurried<'_> {
    type Client = (OwnedSemaphorePermit, TcpStream, SocketAddr);

    async fn accept(&self) -> io::Result<Self::Client> {
        let looking = Arc::clone(self.arriving).acquire_owned().await.map_err(io::Error::other)?;
        let (socket, address) = self.listener.accept().await?;
        Ok((looking, socket, address))
    }
}

/// What a door of this configuration needs, read: there is no door without it, and so nothing to start an engine for.
#[derive(Clone)]
pub struct Ready(Option<Open>);

/// What auth mode needs.
#[derive(Clone)]
struct Open {
    tls: TlsAcceptor,
    tokens: Arc<Tokens>,
}

impl Ready {
    /// In auth mode reads tokens and the certificate, which may wait for the disk.
    pub fn read(config: &Config) -> io::Result<Self> {
        if !config.is_open() {
            return Ok(Self(None));
        }
        let tokens = Tokens::read(&config.tokens_file)?;
        if tokens.is_empty() {
            tracing::warn!(
                "codecast: {} holds no token: nobody can come in from elsewhere",
                config.tokens_file.display()
            );
        }
        Ok(Self(Some(Open { tls: tls::acceptor(&config.tls_cert, &config.tls_key)?, tokens: Arc::new(tokens) })))
    }
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, settings: Settings, ready: Ready) -> Self {
        let (arriving, guests) = (Arc::new(Semaphore::new(ARRIVING)), Guests::default());
        Self { shared: Arc::new(DoorState::new(engine, settings)), open: ready.0, arriving, guests }
    }

    /// Serves every client that comes, until dropped.
    pub async fn serve(&self, listener: &TcpListener) {
        let listener = Unhurried { listener, arriving: &self.arriving };
        accept_each("codecast:", &listener, |(looking, socket, address)| {
            let door = self.clone();
            tokio::spawn(async move { door.connection(socket, address, looking).await });
        })
        .await;
    }

    /// Ends every stream: as it should end where its turn is over, broken off where that goes on. Waits until they have
    /// ended, if that is soon.
    pub async fn close(&self) {
        self.shared.stop.send_replace(true);
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.guests.all_gone()).await;
    }

    async fn connection(&self, socket: TcpStream, address: SocketAddr, looking: OwnedSemaphorePermit) {
        let Ok(own) = socket.local_addr() else { return };
        let Some(holder) = holder(&socket, address, own).await else {
            // Gone before anybody looked: nobody is there to be served, or to be suspected.
            return tracing::debug!("codecast: {address} closed at once");
        };
        drop(looking);
        let ours = holder == Holder::Us;
        if self.open.is_none() && !ours {
            return match holder {
                Holder::User(uid) => {
                    tracing::warn!("codecast: {address} belongs to another user ({uid}): refused");
                }
                Holder::Host(_) => tracing::warn!("codecast: {address} is another machine: refused"),
                Holder::Us | Holder::Unknown => {
                    tracing::warn!("codecast: whose program {address} is could not be found out: refused");
                }
            };
        }
        let Some(_guest) = self.guests.admit(holder) else {
            return tracing::warn!("codecast: {address}: too many connections");
        };
        // Small frames are to arrive when they are sent.
        let _ = socket.set_nodelay(true);
        let (socket, meter) = Metered::new(socket);
        let tokens = self.open.as_ref().map(|open| Arc::clone(&open.tokens));
        let connection =
            Connection { shared: Arc::clone(&self.shared), tokens, peer: Peer { address, own, ours }, meter };
        match &self.open {
            None => self.http(socket, connection).await,
            Some(open) => match tokio::time::timeout(HANDSHAKE_WITHIN, open.tls.accept(socket)).await {
                Ok(Ok(socket)) => self.http(socket, connection).await,
                Ok(Err(error)) => tracing::debug!("codecast: {address}: {error}"),
                Err(_) => tracing::debug!("codecast: {address}: no handshake"),
            },
        }
    }

    async fn http(&self, socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, connection: Connection) {
        let address = connection.peer.address;
        let service = TowerToHyperService::new(connection.router());
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            // A client that has sent all it wants to send waits for its answer.
            .half_close(true)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(socket), service);
        tokio::pin!(served);
        let mut stop = self.shared.stop.subscribe();
        let stopped = async { stop.wait_for(|stop| *stop).await.map(drop) };
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            _ = stopped => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("codecast: {address}: {error}");
        }
    }
}

/// Whose connection it is; nobody's when its other end is held by no program any more.
async fn holder(socket: &TcpStream, address: SocketAddr, own: SocketAddr) -> Option<Holder> {
    let host = address.ip().to_canonical();
    if !host.is_loopback() {
        return Some(Holder::Host(host));
    }
    for _ in 0..LOOKS {
        let found = MayWait::pool(move |_| peer::uid(address, own)).await;
        match found.unwrap_or_else(|lost| Err(io::Error::other(lost))) {
            Ok(Some(uid)) if uid == rustix::process::geteuid().as_raw() => return Some(Holder::Us),
            Ok(Some(uid)) => return Some(Holder::User(uid)),
            Ok(None) if hung_up(socket) => return None,
            // It is there: others that came and went while the table was read have moved its line.
            Ok(None) => {}
            Err(error) => {
                tracing::error!("codecast: {address}: {error}");
                return Some(Holder::Unknown);
            }
        }
    }
    Some(Holder::Unknown)
}

/// Whether the other end sends no more, whatever it has sent before.
fn hung_up(socket: &TcpStream) -> bool {
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut fds = [PollFd::new(socket, gone)];
    let looked = rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default()));
    looked.is_ok() && fds.iter().any(|fd| fd.revents().intersects(gone))
}
