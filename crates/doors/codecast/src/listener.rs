//! The open door: connections come in, each is looked at before it may say anything, and there are never too many.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ostler_engine::Engine;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::guard::Peer;
use crate::outlet::Metered;
use crate::tokens::Tokens;
use crate::{Config, Settings, Shared, peer, tls};

/// Connections at once: more than all heads of a user have, and fewer than descriptors.
const CONNECTIONS: usize = 512;
/// Of one machine elsewhere: what it can not take from the others.
const OF_ONE_HOST: usize = 64;
/// A client that takes longer for its headers, or between requests, is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
/// A handshake is two round trips.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Headers, and what is gathered before it is written.
const BUFFER: usize = 64 * 1024;
/// A listener without descriptors tries again rather than spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How long streams may take to end when the door closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Shared>,
    open: Option<Open>,
    places: Arc<Semaphore>,
    hosts: Arc<Mutex<HashMap<IpAddr, usize>>>,
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
        let (places, hosts) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::default());
        Self { shared: Arc::new(Shared::new(engine, settings)), open: ready.0, places, hosts }
    }

    /// Serves every client that comes, until dropped.
    pub async fn serve(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((socket, address)) => self.admit(socket, address),
                Err(error) => {
                    tracing::error!("codecast: accept: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Ends every stream as it should end, and waits until they have, if that is soon.
    pub async fn close(&self) {
        self.shared.stop.send_replace(true);
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.places.acquire_many(all)).await;
    }

    fn admit(&self, socket: TcpStream, address: SocketAddr) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!("codecast: {address}: too many connections");
            return;
        };
        let Some(guest) = self.guest(address.ip().to_canonical()) else {
            tracing::warn!("codecast: {address}: too many connections of this machine");
            return;
        };
        let door = self.clone();
        tokio::spawn(async move {
            door.connection(socket, address).await;
            drop((place, guest));
        });
    }

    /// A place among those of one machine; programs of this one are told apart by their user instead.
    fn guest(&self, host: IpAddr) -> Option<Guest> {
        if host.is_loopback() {
            return Some(Guest { hosts: Arc::clone(&self.hosts), host: None });
        }
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = hosts.entry(host).or_default();
        if *count >= OF_ONE_HOST {
            return None;
        }
        *count += 1;
        Some(Guest { hosts: Arc::clone(&self.hosts), host: Some(host) })
    }

    async fn connection(&self, socket: TcpStream, address: SocketAddr) {
        let ours = is_ours(&socket, address).await;
        if !ours && self.open.is_none() {
            tracing::warn!("codecast: {address} belongs to another user: refused");
            return;
        }
        // Small frames are to arrive when they are sent.
        let _ = socket.set_nodelay(true);
        let (socket, meter) = Metered::new(socket);
        let tokens = self.open.as_ref().map(|open| Arc::clone(&open.tokens));
        let connection = Connection { shared: Arc::clone(&self.shared), tokens, peer: Peer { address, ours }, meter };
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

/// A connection of another machine, counted.
struct Guest {
    hosts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    host: Option<IpAddr>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(host) = self.host else { return };
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = hosts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(&host);
            }
        }
    }
}

/// Whether this is a program of our own user on this machine.
async fn is_ours(socket: &TcpStream, address: SocketAddr) -> bool {
    let (true, Ok(own)) = (address.ip().to_canonical().is_loopback(), socket.local_addr()) else { return false };
    let found = tokio::task::spawn_blocking(move || peer::uid(address, own)).await;
    let found = found.unwrap_or_else(|lost| Err(io::Error::other(lost)));
    let uid = found.inspect_err(|error| tracing::error!("codecast: {address}: {error}")).ok().flatten();
    uid == Some(rustix::process::geteuid().as_raw())
}
