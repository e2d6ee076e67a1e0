//! The port for devices of a shared instance: the native door on a web listener, for whoever shows a paired device's token or
//! key. On the loopback, unless the user has chosen a way for other machines and confirmed it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ostler_door_web::{Exposure, Pages, Tls, Web, listen};
use tokio::net::TcpListener;

use super::{Doing, Door, native};
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
}

impl Door for WebPort {
    /// A machine without a loopback has no use for it, and goes on without.
    fn open(options: &Options, _: &Host) -> Result<Option<Self>, HostError> {
        let opened = options.config.doors.web.then(|| Self::open_here(&options.config.web));
        Ok(opened.and_then(|opened| opened.inspect_err(|error| tracing::warn!("web: {error}")).ok()))
    }

    fn describe(&self) -> DoorRecord {
        let scheme = if self.exposure.certificate.is_some() { "wss" } else { "ws" };
        let own = format!("{scheme}://{}/rpc", self.address);
        let connect = match &self.exposure.external {
            Some(url) => format!("paired phones and browsers: {own}, from elsewhere {}", url.as_str()),
            None => format!("paired phones and browsers: {own}"),
        };
        DoorRecord { name: "web".into(), address: self.address.to_string(), connect }
    }

    fn page(&self) -> Option<String> {
        let scheme = if self.exposure.certificate.is_some() { "https" } else { "http" };
        let external = self.exposure.external.as_ref().map(|url| url.as_str().to_owned());
        Some(external.unwrap_or_else(|| format!("{scheme}://{}", self.address)))
    }

    fn serve<'a>(&'a mut self, _: &'a Host, native: &'a native::Door) -> Doing<'a> {
        let (native, exposure) = (native.clone(), Arc::clone(&self.exposure));
        let router = move |arrived| native.router(Arc::clone(&exposure), arrived);
        Box::pin(async move { self.web.serve(&self.listener, router).await })
    }

    fn close(self: Box<Self>) -> Doing<'static> {
        Box::pin(async move { self.web.close().await })
    }
}

impl WebPort {
    fn open_here(settings: &config::Web) -> io::Result<Self> {
        // What a person has not confirmed yet does not count, and what is left may protect nothing.
        let bind = if settings.is_unprotected() { Ipv4Addr::LOCALHOST.into() } else { settings.bind };
        let own = settings.certificate.as_deref().zip(settings.key.as_deref());
        let certificate = own.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
        let exposure = Exposure {
            external: settings.url.clone(),
            certificate,
            insecure_lan: settings.insecure_lan && !bind.to_canonical().is_loopback(),
            pages: Pages::default(),
        };
        let web = Web::new("web", exposure.certificate.clone(), exposure.is_open());
        let listener = listen(bind, settings.port)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self { web, listener, address, exposure: Arc::new(exposure) })
    }
}
