//! Under which names a listener for devices may be reached, and from where. A request that names another host is refused,
//! whoever sends it: that is what a page does whose name was bound to our address.
//!
//! A token or a key vouches for the device behind a request; nothing here does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};
use ostler_engine::Caller;
use ostler_engine::access::device::Visitor;

use crate::guard::{self, Refused};
use crate::{Fetch, Pages, Peer, Tls, fetched};

/// Where a tunnel or a proxy in front of us is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalUrl {
    /// `https://host:port`, as a browser writes it.
    origin: String,
    /// As a client writes it into `Host`.
    host: String,
}

/// It is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected https://NAME, or http://NAME, and nothing after it")]
pub struct NotAnOrigin;

impl FromStr for ExternalUrl {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").ok_or(NotAnOrigin)?;
        let usual = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(NotAnOrigin),
        };
        let authority: Authority = rest.parse().map_err(|_| NotAnOrigin)?;
        let is_plain = !authority.host().is_empty() && !rest.contains(['@', '*', '?', '#', '/']);
        let host = rest.strip_suffix(usual).unwrap_or(rest).to_owned();
        is_plain.then(|| Self { origin: format!("{scheme}://{host}"), host }).ok_or(NotAnOrigin)
    }
}

impl ExternalUrl {
    /// As it is shown to people.
    pub fn as_str(&self) -> &str {
        &self.origin
    }
}

/// Who can reach a listener, and under which names, beside our own user at a loopback name.
#[derive(Clone, Default)]
pub struct Exposure {
    /// Whoever comes through a tunnel or a proxy.
    pub external: Option<ExternalUrl>,
    /// Whoever knows a name that the user's own certificate is for.
    pub certificate: Option<Tls>,
    /// Whoever knows our address, in the clear: said out loud.
    pub insecure_lan: bool,
    /// Pages of other sites that may call, and read what they are answered.
    pub pages: Pages,
    /// Whoever comes by a name that a person has allowed while this was open.
    pub allowed: Option<Allowed>,
}

/// The name that a person allowed last; looked up with every request.
pub type Allowed = Arc<dyn Fn() -> Option<ExternalUrl> + Send + Sync>;

/// A request that came to one of our names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The name.
    pub host: String,
    /// It is the name of a tunnel or proxy in front of us.
    pub external: bool,
    /// The client's address, as the proxy that it came through says; none where it came by itself.
    pub forwarded: Option<IpAddr>,
    /// It came to a loopback name, from a program of our own user that passes nothing on.
    pub here: bool,
    /// The page that asks, where it is another site's: one of those that may.
    pub page: Option<String>,
}

impl Admitted {
    /// Who is at the other end. Through a tunnel or a proxy that is somebody elsewhere, unless a hosted program plays the proxy.
    pub fn visitor(&self, peer: Peer, caller: Caller) -> Visitor {
        let caller = match caller {
            Caller::Free if self.external => Caller::Elsewhere,
            caller => caller,
        };
        Visitor { address: self.forwarded.unwrap_or(peer.address.ip()), caller }
    }
}

impl Exposure {
    /// Whether others than our own user may connect at all.
    pub fn is_open(&self) -> bool {
        self.external.is_some() || self.certificate.is_some() || self.insecure_lan || self.allowed().is_some()
    }

    /// The name that a person has allowed meanwhile.
    fn allowed(&self) -> Option<ExternalUrl> {
        self.allowed.as_ref().and_then(|allowed| allowed())
    }

    /// Where a listener that is bound to this address is found from elsewhere, under a name that lets a request in: by the tunnel
    /// or proxy, a name of the certificate, or the address. Nothing where only this machine finds it.
    pub fn from_elsewhere(&self, bound: SocketAddr) -> Option<String> {
        if let Some(external) = self.external.clone().or_else(|| self.allowed()) {
            return Some(external.origin);
        }
        if bound.ip().to_canonical().is_loopback() {
            return None;
        }
        let address = || outgoing(bound.ip());
        let (scheme, usual, name) = match &self.certificate {
            Some(tls) => {
                let certified = || address().filter(|address| tls.is_for(&address.to_string())).map(in_url);
                ("https", 443, tls.name().or_else(certified)?)
            }
            None => ("http", 80, address().filter(|_| self.insecure_lan).map(in_url)?),
        };
        let port = if bound.port() == usual { String::new() } else { format!(":{}", bound.port()) };
        Some(format!("{scheme}://{name}{port}"))
    }

    /// Where the same listener is found from this machine.
    pub fn from_here(&self, bound: SocketAddr) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        let ip = match bound.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("{scheme}://{}", SocketAddr::new(ip, bound.port()))
    }

    /// The tunnel or proxy in front of us that has this name.
    fn proxy(&self, host: &str) -> Option<ExternalUrl> {
        let named = |external: &ExternalUrl| external.host.eq_ignore_ascii_case(host);
        self.external.clone().filter(named).or_else(|| self.allowed().filter(named))
    }

    /// Lets a request in as far as to show who it is from, or says why not.
    pub fn admit(&self, peer: Peer, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Refused> {
        let host = guard::the_host(uri, headers).ok_or(Refused::Form)?;
        let admitted = |page| Admitted { host: host.to_owned(), external: false, forwarded: None, here: false, page };
        // A page of this machine speaks to this machine, not to one that it reaches through a tunnel.
        let named = |origin: &str| self.pages.names(origin);
        if let Some(external) = self.proxy(host) {
            let page = guard::page(headers, |origin| origin.eq_ignore_ascii_case(&external.origin), named)?;
            return Ok(Admitted { external: true, forwarded: guard::forwarded_for(headers), ..admitted(page) });
        }
        if guard::is_loopback(host) {
            let page = guard::from_here(peer, host, headers, |origin| self.pages.allow(origin))?;
            return Ok(Admitted { here: true, ..admitted(page) });
        }
        guard::not_forwarded(headers)?;
        if !self.is_ours(host, peer) {
            return Err(Refused::Host);
        }
        let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host));
        guard::page(headers, is_own, named).map(admitted)
    }

    /// The same for what only our own page may do, if it is a page that asks.
    pub fn admit_own(&self, peer: Peer, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Refused> {
        let admitted = self.admit(peer, uri, headers)?;
        fetched(headers, Fetch::Part)?;
        Ok(admitted)
    }

    /// Whether this is a name of ours. In the clear only the address itself is: a name can be bound to it by anybody.
    fn is_ours(&self, host: &str, peer: Peer) -> bool {
        let Some(name) = guard::without_port(host) else { return false };
        let certified = self.certificate.as_ref().is_some_and(|tls| tls.is_for(name));
        let own = || name.parse().is_ok_and(|address: IpAddr| address.to_canonical() == peer.own.ip().to_canonical());
        certified || (self.insecure_lan && own())
    }
}

/// The address that others on the network know: the one that is bound, or if that is all of them the one that we would send from.
/// A datagram socket that is connected has chosen it; nothing is sent. The addresses are for documentation: nobody has them.
fn outgoing(bound: IpAddr) -> Option<IpAddr> {
    const FAR: [&str; 2] = ["198.51.100.1:9", "[2001:db8::1]:9"];
    if !bound.is_unspecified() {
        return Some(bound);
    }
    let from = |far: &str| {
        let any: IpAddr =
            if far.starts_with('[') { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(far).map(|()| socket));
        socket.and_then(|socket| socket.local_addr()).ok().map(|own| own.ip()).filter(|own| !own.is_loopback())
    };
    // What listens on all addresses of the newer kind listens on the older ones too.
    FAR.iter().filter(|far| bound.is_ipv6() || !far.starts_with('[')).find_map(|far| from(far))
}

fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn peer(ours: bool) -> Peer {
        Peer { address: "192.0.2.9:1".parse().unwrap(), own: "192.0.2.1:8767".parse().unwrap(), ours }
    }

    fn admit(
        exposure: &Exposure,
        ours: bool,
        pairs: &[(&'static str, &'static str)],
    ) -> Result<Option<IpAddr>, Refused> {
        let headers =
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        exposure.admit(peer(ours), &Uri::from_static("/rpc"), &headers.collect()).map(|admitted| admitted.forwarded)
    }

    fn behind(url: &str) -> Exposure {
        Exposure { external: Some(url.parse().unwrap()), ..Exposure::default() }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host_and_nothing_else() {
        for (text, origin) in [
            ("https://Box.Example", "https://box.example"),
            ("https://box.example:443/", "https://box.example"),
            ("http://box:8080", "http://box:8080"),
            ("https://[2001:db8::1]:9", "https://[2001:db8::1]:9"),
        ] {
            assert_eq!(text.parse::<ExternalUrl>().map(|url| url.origin), Ok(origin.to_owned()), "{text}");
        }
        for bad in
            ["box.example", "ftp://x", "https://", "https://x/y", "https://a@b", "https://x?y", "https://*.x", ""]
        {
            assert_eq!(bad.parse::<ExternalUrl>(), Err(NotAnOrigin), "{bad}");
        }
    }

    #[test]
    fn what_a_proxy_passes_on_is_taken_under_the_external_name_only() {
        let exposure = behind("https://box.example");
        let forwarded = ("x-forwarded-for", "203.0.113.5, 198.51.100.7");
        assert_eq!(admit(&exposure, false, &[("host", "box.example"), forwarded]), Ok("198.51.100.7".parse().ok()));
        assert_eq!(admit(&exposure, false, &[("host", "BOX.example")]), Ok(None));
        for host in ["localhost:8767", "192.0.2.1:8767", "evil.example", "box.example:8767", "box.example.evil.example"]
        {
            assert!(admit(&exposure, true, &[("host", host), forwarded]).is_err(), "{host}");
        }
        assert_eq!(admit(&exposure, false, &[("host", "localhost:8767")]), Err(Refused::Stranger));
        assert_eq!(admit(&exposure, true, &[("host", "localhost:8767")]), Ok(None));
    }

    #[test]
    fn a_page_is_served_only_if_it_came_from_the_same_name() {
        let exposure = behind("https://box.example");
        let from = |origin| admit(&exposure, false, &[("host", "box.example"), ("origin", origin)]);
        assert_eq!(from("https://box.example"), Ok(None));
        for origin in ["http://box.example", "https://evil.example", "null", "https://box.example:8443", ""] {
            assert_eq!(from(origin), Err(Refused::Origin), "{origin}");
        }
    }

    #[test]
    fn an_own_certificate_is_for_its_names() {
        let dir = tempfile::tempdir().unwrap();
        // Made for localhost and 127.0.0.1: as good a name as any.
        let tls = Tls::made(&dir.path().join("c.pem"), &dir.path().join("k.pem")).unwrap();
        let exposure = Exposure { certificate: Some(tls), ..Exposure::default() };
        assert!(exposure.is_ours("localhost:8767", peer(false)) && !exposure.is_ours("evil.example:8767", peer(false)));
        assert_eq!(admit(&exposure, false, &[("host", "evil.example")]), Err(Refused::Host));
        assert_eq!(admit(&exposure, false, &[("host", "192.0.2.1:8767")]), Err(Refused::Host));
    }

    #[test]
    fn in_the_clear_only_the_address_itself_is_a_name() {
        let exposure = Exposure { insecure_lan: true, ..Exposure::default() };
        assert_eq!(
            admit(&exposure, false, &[("host", "192.0.2.1:8767"), ("origin", "http://192.0.2.1:8767")]),
            Ok(None)
        );
        for host in ["box.lan:8767", "192.0.2.2:8767", "evil.example", "192.0.2.1:x"] {
            assert_eq!(admit(&exposure, false, &[("host", host)]), Err(Refused::Host), "{host}");
        }
        let evil = [("host", "192.0.2.1:8767"), ("origin", "http://evil.example")];
        assert_eq!(admit(&exposure, false, &evil), Err(Refused::Origin));
        let through = [("host", "192.0.2.1:8767"), ("x-forwarded-for", "1.2.3.4")];
        assert_eq!(admit(&exposure, false, &through), Err(Refused::Forwarded));
    }

    #[test]
    fn others_are_told_an_address_that_lets_them_in_and_this_machine_one_that_lets_it_in() {
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let told = |exposure: &Exposure, bound| exposure.from_elsewhere(at(bound));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(&behind("https://box.example"), "127.0.0.1:8767"), some("https://box.example"));
        let lan = Exposure { insecure_lan: true, ..Exposure::default() };
        assert_eq!(told(&lan, "192.0.2.1:8767"), some("http://192.0.2.1:8767"));
        assert_eq!(told(&lan, "[2001:db8::1]:80"), some("http://[2001:db8::1]"));
        assert_eq!((told(&lan, "127.0.0.1:1"), told(&Exposure::default(), "192.0.2.1:1")), (None, None));
        for all in ["0.0.0.0:8767", "[::]:8767"] {
            let told = told(&lan, all);
            assert!(told.as_ref().is_none_or(|url| !url.contains("0.0.0.0") && !url.contains("[::]")), "{told:?}");
        }
        assert_eq!(lan.from_here(at("0.0.0.0:8767")), "http://127.0.0.1:8767");
        assert_eq!(lan.from_here(at("[::]:8767")), "http://[::1]:8767");
        assert_eq!(lan.from_here(at("192.0.2.1:8767")), "http://192.0.2.1:8767");
    }

    #[test]
    fn a_certificate_is_found_by_its_first_name_that_leads_here() {
        let dir = tempfile::tempdir().unwrap();
        let told = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            let certificate = Some(Tls::read(&certificate, &key).unwrap());
            let exposure = Exposure { certificate, ..Exposure::default() };
            let told = exposure.from_elsewhere("192.0.2.1:8767".parse().unwrap());
            if let Some(url) = &told {
                let host = url.strip_prefix("https://").unwrap();
                assert!(exposure.is_ours(host, peer(false)), "{host} would not be let in");
            }
            told
        };
        assert_eq!(told(&["localhost", "*.box.example", "box.example"]).as_deref(), Some("https://box.example:8767"));
        assert_eq!(told(&["localhost", "192.0.2.1"]).as_deref(), Some("https://192.0.2.1:8767"));
        assert_eq!(told(&["localhost", "192.0.2.9"]), None);
    }

    #[test]
    fn without_any_of_them_only_our_own_user_is_served() {
        let closed = Exposure::default();
        assert!(!closed.is_open());
        assert_eq!(admit(&closed, true, &[("host", "localhost:8767")]), Ok(None));
        assert_eq!(admit(&closed, false, &[("host", "localhost:8767")]), Err(Refused::Stranger));
        assert_eq!(admit(&closed, true, &[("host", "192.0.2.1:8767")]), Err(Refused::Host));
    }
}
