//! The open listener: connections come in, each is looked at before it may say anything, and there are never too many.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ostler_door_rpc::{Listener, accept_each};
use ostler_engine::{Caller, Engine, MayWait};
use rustix::event::{PollFd, PollFlags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::guests::{Guest, Guests, Holder};
use crate::response_body::{Meter, Metered};
use crate::{Peer, Tls, peer};

/// Connections that are being looked at. Those that come meanwhile wait in the kernel.
const ARRIVING: usize = 64;
/// A client that takes longer for its headers, or between requests, is let go: a head is one packet.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// A handshake is two round trips.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Headers, and what is gathered before it is written.
const BUFFER: usize = 64 * 1024;
/// The kernel's table is read line by line while it changes: looks at it for a connection that must be in it.
const LOOKS: usize = 5;
/// How long streams may take to end when the listener closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How many ports above the wished one are tried.
const TRIES: u16 = 100;

type Look = Arc<dyn Fn(Peer) -> Caller + Send + Sync>;

/// An open listener; a cheap handle.
#[derive(Clone)]
pub struct Web {
    /// What its complaints begin with.
    name: &'static str,
    tls: Option<Tls>,
    /// Others than our own user may connect; what they may is for their requests to show.
    open: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Which program is at the other end, where programs that are hosted have no business.
    look: Option<Look>,
    arriving: Arc<Semaphore>,
    guests: Guests,
    /// It is being closed: streams end.
    stop: watch::Sender<bool>,
}

/// A connection that may speak, for as long as anybody serves it.
#[derive(Clone)]
pub struct Arrived {
    /// Where it comes from.
    pub peer: Peer,
    /// What went into its socket.
    pub meter: Arc<Meter>,
    pub(crate) stop: watch::Receiver<bool>,
    guests: Guests,
    guest: Arc<Mutex<Guest>>,
}

impl Arrived {
    /// It has shown which device it is: from now on it takes a device's place, and none of those who show nothing. If devices
    /// have all of theirs, it stays where it is.
    pub fn is_device(&self) {
        if let Some(place) = self.guests.admit(Holder::Device) {
            *self.guest.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
    }
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

impl Web {
    /// A listener that speaks TLS where it has a certificate, and lets others than our own user connect where it is `open`.
    pub fn new(name: &'static str, tls: Option<Tls>, open: bool) -> Self {
        let (arriving, guests) = (Arc::new(Semaphore::new(ARRIVING)), Guests::default());
        Self { name, tls, open: Arc::new(move || open), look: None, arriving, guests, stop: watch::channel(false).0 }
    }

    /// The same, `open` from the moment on in which that is said.
    pub fn open_while(self, open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), ..self }
    }

    /// The same, where programs that ostler hosts, and those that hide, have few places of their own.
    pub fn apart_from_hosted(self, engine: Engine) -> Self {
        Self { look: Some(Arc::new(move |peer| peer.caller(&engine))), ..self }
    }

    /// Serves every client that comes with its router, until dropped.
    pub async fn serve(&self, listener: &TcpListener, router: impl Fn(Arrived) -> Router + Clone + Send + 'static) {
        let listener = Unhurried { listener, arriving: &self.arriving };
        accept_each(&format!("{}:", self.name), &listener, |(looking, socket, address)| {
            let (web, router) = (self.clone(), router.clone());
            tokio::spawn(async move { web.connection(socket, address, looking, router).await });
        })
        .await;
    }

    /// Told when it is being closed.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Has every stream end, as its door says. Waits until they have ended, if that is soon.
    pub async fn close(&self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.guests.all_gone()).await;
    }

    async fn connection(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        looking: OwnedSemaphorePermit,
        router: impl Fn(Arrived) -> Router,
    ) {
        let name = self.name;
        let Ok(own) = socket.local_addr() else { return };
        let Some(holder) = self.holder(&socket, address, own).await else {
            // Gone before anybody looked: nobody is there to be served, or to be suspected.
            return tracing::debug!("{name}: {address} closed at once");
        };
        let ours = holder == Holder::Us;
        if !ours && !(self.open)() {
            return match holder {
                Holder::User(uid) => {
                    tracing::warn!("{name}: {address} belongs to another user ({uid}): refused");
                }
                Holder::Host(_) => tracing::warn!("{name}: {address} is another machine: refused"),
                _ => {
                    tracing::warn!("{name}: whose program {address} is could not be found out: refused");
                }
            };
        }
        let peer = Peer { address, own, ours };
        let Some(guest) = self.place(holder, peer).await else {
            return tracing::warn!("{name}: {address}: too many connections");
        };
        drop(looking);
        // Small frames are to arrive when they are sent.
        let _ = socket.set_nodelay(true);
        let (socket, meter) = Metered::new(socket);
        let (guests, guest) = (self.guests.clone(), Arc::new(Mutex::new(guest)));
        let router = router(Arrived { peer, meter, stop: self.stopping(), guests, guest });
        match &self.tls {
            None => self.http(socket, address, router).await,
            Some(tls) => match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(socket)).await {
                Ok(Ok(socket)) => self.http(socket, address, router).await,
                Ok(Err(error)) => tracing::debug!("{name}: {address}: {error}"),
                Err(_) => tracing::debug!("{name}: {address}: no handshake"),
            },
        }
    }

    /// The place of a connection. Which program of our user it is matters once many have come: a hosted one can take few.
    async fn place(&self, holder: Holder, peer: Peer) -> Option<Guest> {
        let Some(look) = self.look.as_ref().filter(|_| holder == Holder::Us) else { return self.guests.admit(holder) };
        if let Some(unseen) = self.guests.admit(Holder::Unseen) {
            return Some(unseen);
        }
        let look = Arc::clone(look);
        let holder = match MayWait::pool(move |_| look(peer)).await {
            Ok(Caller::Free | Caller::Elsewhere) => Holder::Us,
            Ok(Caller::Hosted(_) | Caller::Unknown) | Err(_) => Holder::Hosted,
        };
        self.guests.admit(holder)
    }

    async fn http(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: SocketAddr,
        router: Router,
    ) {
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            // A client that has sent all it wants to send waits for its answer.
            .half_close(true)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
            .with_upgrades();
        tokio::pin!(served);
        let mut stop = self.stopping();
        let stopped = async { stop.wait_for(|stop| *stop).await.map(drop) };
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            _ = stopped => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("{}: {address}: {error}", self.name);
        }
    }

    /// Whose connection it is; nobody's when its other end is held by no program any more.
    async fn holder(&self, socket: &TcpStream, address: SocketAddr, own: SocketAddr) -> Option<Holder> {
        let host = address.ip().to_canonical();
        if !host.is_loopback() {
            return Some(Holder::host(host));
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
                    tracing::error!("{}: {address}: {error}", self.name);
                    return Some(Holder::Unknown);
                }
            }
        }
        Some(Holder::Unknown)
    }
}

/// Listens on the first free port from the wished one on.
pub fn listen(bind: IpAddr, port: u16) -> io::Result<std::net::TcpListener> {
    let last = port.saturating_add(TRIES);
    let mut busy = None;
    for port in port..=last {
        let address = SocketAddr::new(bind, port);
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => busy = Some(error),
            Err(error) => return Err(io::Error::new(error.kind(), format!("{address}: {error}"))),
        }
    }
    let error = busy.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
    Err(io::Error::new(error.kind(), format!("no free port on {bind} from {port} to {last}")))
}

/// Whether the other end sends no more, whatever it has sent before.
fn hung_up(socket: &TcpStream) -> bool {
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut fds = [PollFd::new(socket, gone)];
    let looked = rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default()));
    looked.is_ok() && fds.iter().any(|fd| fd.revents().intersects(gone))
}
