//! Whose requests are served: those of our own user on this machine, or of whoever shows a token.
//!
//! A browser is a program of our user too, and any page can make it connect here. What only a browser or a proxy would
//! send (a foreign Host, an Origin, a forwarding header) is therefore refused where no token vouches for the request.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::{Peer, Tokens};

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Two hosts, or none.
    #[error("Bad Request: one Host header, and the same host in the request line if it names one")]
    Form,
    /// Nothing to vouch for it.
    #[error("Unauthorized: missing Bearer token")]
    NoToken,
    /// Nobody knows that token.
    #[error("Unauthorized: invalid token")]
    BadToken,
    /// Another user.
    #[error("Forbidden: this daemon serves its own user only")]
    Stranger,
    /// Meant for another machine.
    #[error("Forbidden: the Host header names another machine")]
    Host,
    /// From a page of another site.
    #[error("Forbidden: requests from web pages are not served")]
    Origin,
    /// Passed on by somebody.
    #[error("Forbidden: forwarded requests need a token")]
    Forwarded,
}

impl Refused {
    /// What HTTP calls it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Form => StatusCode::BAD_REQUEST,
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

/// Lets a request in, or says why not. `tokens` is there in auth mode only.
pub fn admit(peer: Peer, uri: &Uri, headers: &HeaderMap, tokens: Option<&Tokens>) -> Result<(), Refused> {
    let host = the_host(uri, headers).ok_or(Refused::Form)?;
    if let Some(tokens) = tokens {
        match bearer(headers) {
            Some(token) if tokens.know(token) => return Ok(()),
            Some(_) if !peer.ours => return Err(Refused::BadToken),
            None if !peer.ours => return Err(Refused::NoToken),
            _ => {}
        }
    }
    from_here(peer, host, headers, |_| false).map(drop)
}

/// What our own user's programs send, and neither a browser for another site (but for those that `may`) nor a proxy.
pub(crate) fn from_here(
    peer: Peer,
    host: &str,
    headers: &HeaderMap,
    may: impl Fn(&str) -> bool,
) -> Result<Option<String>, Refused> {
    if !peer.ours {
        return Err(Refused::Stranger);
    }
    if !is_loopback(host) {
        return Err(Refused::Host);
    }
    let page = page(headers, |origin| origin.split_once("://").is_some_and(|(_, own)| own == host), may)?;
    not_forwarded(headers).map(|()| page)
}

pub(crate) fn not_forwarded(headers: &HeaderMap) -> Result<(), Refused> {
    if headers.keys().any(|name| forwards(name.as_str())) { Err(Refused::Forwarded) } else { Ok(()) }
}

/// The client, as the last proxy before us names it: what stands before that anybody can have written.
pub(crate) fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok()
}

/// A page is one of our own, or one of those that may, if it is a page that asks. The one of another site is given back.
pub(crate) fn page(
    headers: &HeaderMap,
    is_own: impl Fn(&str) -> bool,
    may: impl Fn(&str) -> bool,
) -> Result<Option<String>, Refused> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => return Ok(None),
        (Some(origin), None) => origin.to_str().map_err(|_| Refused::Origin)?,
        _ => return Err(Refused::Origin),
    };
    match () {
        () if is_own(origin) => Ok(None),
        () if may(origin) => Ok(Some(origin.to_owned())),
        () => Err(Refused::Origin),
    }
}

/// The host that a request is for, which is said once, or twice in the same words: else whoever stands between a client and us
/// may have understood another one.
pub(crate) fn the_host<'a>(uri: &Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    let same = |named: &Authority| named.as_str().eq_ignore_ascii_case(host);
    (hosts.next().is_none() && uri.authority().is_none_or(same)).then_some(host)
}

/// The token that a request shows.
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn forwards(name: &str) -> bool {
    name == "forwarded" || name.starts_with("x-forwarded-") || name == "x-real-ip" || name == "via"
}

/// `localhost`, or an address of the loopback, with or without a port.
pub(crate) fn is_loopback(host: &str) -> bool {
    without_port(host).is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    })
}

/// A host without its port and brackets; nothing where that is no host.
pub(crate) fn without_port(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']')? {
            (name, "") => Some(name),
            (name, port) => port.strip_prefix(':').is_some_and(is_port).then_some(name),
        },
        None => match host.split_once(':') {
            Some((name, port)) => is_port(port).then_some(name),
            None => Some(host),
        },
    }
}

/// Whether a page is served from the loopback: `http://localhost:3000`.
pub(crate) fn is_loopback_page(origin: &str) -> bool {
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|host| {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        let below =
            without_port(host).is_some_and(|name| is_name(name) && name.to_ascii_lowercase().ends_with(".localhost"));
        is_loopback(host) || below
    })
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const HERE: (&str, &str) = ("host", "localhost:9100");

    fn peer(ours: bool) -> Peer {
        let (address, own) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        Peer { address, own, ours }
    }

    fn admit(peer: Peer, headers: &HeaderMap, tokens: Option<&Tokens>) -> Result<(), Refused> {
        super::admit(peer, &Uri::from_static("/rpc"), headers, tokens)
    }

    fn with(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn our_own_user_needs_nothing_and_nobody_else_is_served() {
        assert_eq!(admit(peer(true), &with(&[("host", "127.0.0.1:9100")]), None), Ok(()));
        assert_eq!(admit(peer(false), &with(&[("host", "127.0.0.1:9100")]), None), Err(Refused::Stranger));
        assert_eq!(admit(peer(false), &with(&[HERE, ("authorization", "Bearer x")]), None), Err(Refused::Stranger));
    }

    #[test]
    fn a_name_that_was_rebound_to_the_loopback_is_foreign() {
        for host in
            ["127.0.0.1", "localhost:19100", "LOCALHOST", "[::1]:9100", "[::1]", "127.9.9.9:1", "[::ffff:127.0.0.1]"]
        {
            assert_eq!(admit(peer(true), &with(&[("host", host)]), None), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.1:9100", "[::1", "[::1]x", "localhost:x", "::1", ""]
        {
            assert_eq!(admit(peer(true), &with(&[("host", host)]), None), Err(Refused::Host), "{host}");
        }
    }

    #[test]
    fn the_host_is_said_once_or_twice_in_the_same_words_whoever_asks() {
        let tokens = Tokens::of(["good"]);
        let admit = |uri: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| ("host", *host));
            let headers = with(&hosts.chain([("authorization", "Bearer good")]).collect::<Vec<_>>());
            super::admit(peer(false), &uri.parse().unwrap(), &headers, Some(&tokens))
        };
        assert_eq!(admit("/rpc", &["box.example"]), Ok(()));
        assert_eq!(admit("https://BOX.example/rpc", &["box.example"]), Ok(()));
        for (uri, hosts) in [
            ("/rpc", &[] as &[&str]),
            ("/rpc", &["box.example", "box.example"]),
            ("/rpc", &["localhost", "evil.example"]),
            ("https://box.example/rpc", &[]),
            ("https://box.example/rpc", &["evil.example"]),
            ("https://box.example:443/rpc", &["box.example"]),
        ] {
            assert_eq!(admit(uri, hosts), Err(Refused::Form), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_foreign_also_one_on_this_machine() {
        for origin in ["https://evil.example", "null", "", "http://localhost:3000", "http://127.0.0.1:9100"] {
            assert_eq!(admit(peer(true), &with(&[HERE, ("origin", origin)]), None), Err(Refused::Origin), "{origin}");
        }
        let own = ("origin", "http://localhost:9100");
        assert_eq!(admit(peer(true), &with(&[HERE, own]), None), Ok(()));
        for two in [[HERE, own, ("origin", "https://evil.example")], [HERE, ("origin", "https://evil.example"), own]] {
            assert_eq!(admit(peer(true), &with(&two), None), Err(Refused::Origin), "{two:?}");
        }
    }

    #[test]
    fn what_a_proxy_passes_on_is_not_from_here() {
        for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] {
            assert_eq!(admit(peer(true), &with(&[HERE, (name, "1.2.3.4")]), None), Err(Refused::Forwarded), "{name}");
        }
    }

    #[test]
    fn in_auth_mode_a_token_is_the_way_in_for_everybody_else() {
        let tokens = Tokens::of(["good"]);
        let admit = |ours, value: Option<&str>| {
            let headers = value.map_or_else(|| with(&[HERE]), |value| with(&[HERE, ("authorization", value)]));
            admit(peer(ours), &headers, Some(&tokens))
        };
        assert_eq!(admit(false, None), Err(Refused::NoToken));
        assert_eq!(admit(false, Some("Basic good")), Err(Refused::NoToken));
        assert_eq!(admit(false, Some("Bearer nope")), Err(Refused::BadToken));
        assert_eq!(admit(false, Some("Bearer ")), Err(Refused::BadToken));
        assert_eq!(admit(false, Some("Bearer good")), Ok(()));
        assert_eq!(admit(false, Some("bearer good ")), Ok(()));
        assert_eq!(admit(true, None), Ok(()));
    }
}
