//! The port for devices of a shared instance: the native door on a web listener, for whoever shows a paired device's token or
//! key. On the loopback, unless the user has chosen a way for other machines and confirmed it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ostler_door_web::{Allowed, Arrived, Exposure, Pages, Router, Tls, Web, listen};
use ostler_engine::Engine;
use tokio::net::TcpListener;

use super::{Doing, Door, Entrance, native};
use crate::config;
use crate::daemon::Options;
use crate::daemon::host::{Host, HostError};
use crate::instances::DoorRecord;

/// The port, open.
pub(super) struct WebPort {
    web: Web,
    listener: TcpListener,
    address: SocketAddr,
    exposure: Arc<Exposure>,
    /// Other doors that are here too, with TLS only.
    entrances: Vec<Entrance>,
}

impl Door for WebPort {
    /// A machine without a loopback has no use for it, and goes on without.
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        let opened = options.config.doors.web.then(|| Self::open_here(&options.config.web, host.engine()));
        Ok(opened.and_then(|opened| opened.inspect_err(|error| tracing::warn!("web: {error}")).ok()))
    }

    fn describe(&self) -> DoorRecord {
        let own = self.exposure.from_here(self.address).replacen("http", "ws", 1);
        let mut connect = match self.exposure.from_elsewhere(self.address) {
            Some(url) => format!("paired phones and browsers: {own}/rpc, from elsewhere {url}"),
            None => format!("paired phones and browsers: {own}/rpc"),
        };
        for Entrance { clients, path, .. } in &self.entrances {
            connect.push_str(&format!("; {clients}: {own}{path}"));
        }
        DoorRecord { name: "web".into(), address: self.address.to_string(), connect }
    }

    fn page(&self) -> Option<String> {
        let (exposure, bound) = (&self.exposure, self.address);
        Some(exposure.from_elsewhere(bound).unwrap_or_else(|| exposure.from_here(bound)))
    }

    fn add_entrances(&mut self, entrances: &[Entrance]) {
        if self.exposure.certificate.is_some() {
            self.entrances = entrances.to_vec();
        }
    }

    fn serve<'a>(&'a mut self, _: &'a Host, native: &'a native::Door) -> Doing<'a> {
        let (native, exposure, entrances) = (native.clone(), Arc::clone(&self.exposure), self.entrances.clone());
        let router = move |arrived: Arrived| {
            let all = native.router(Arc::clone(&exposure), arrived.clone());
            let more = entrances.iter().map(|entrance| (entrance.router)(Arc::clone(&exposure), arrived.clone()));
            more.fold(all, Router::merge)
        };
        Box::pin(async move { self.web.serve(&self.listener, router).await })
    }

    fn close(self: Box<Self>) -> Doing<'static> {
        Box::pin(async move { self.web.close().await })
    }
}

impl WebPort {
    fn open_here(settings: &config::Web, engine: &Engine) -> io::Result<Self> {
        // What a person has not confirmed yet does not count, and what is left may protect nothing.
        let bind = if settings.is_unprotected() { Ipv4Addr::LOCALHOST.into() } else { settings.bind };
        let own = settings.certificate.as_deref().zip(settings.key.as_deref());
        let certificate = own.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
        let exposure = Exposure {
            external: settings.url.clone(),
            certificate,
            insecure_lan: settings.insecure_lan && !bind.to_canonical().is_loopback(),
            pages: Pages::default(),
            allowed: Some(allowed(engine.clone())),
        };
        let exposure = Arc::new(exposure);
        let opens = Arc::clone(&exposure);
        let web = Web::new("web", exposure.certificate.clone(), false)
            .open_while(move || opens.is_open())
            .apart_from_hosted(engine.clone());
        let listener = listen(bind, settings.port)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self { web, listener, address, exposure, entrances: Vec::new() })
    }
}

/// The name in a tailnet that a person has allowed.
fn allowed(engine: Engine) -> Allowed {
    Arc::new(move || engine.allowed_tailnet()?.parse().ok())
}
