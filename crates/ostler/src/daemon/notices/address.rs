//! Where a device may be pushed to. Endpoints come from devices, and a device must not make this machine talk to its own network:
//! https to a public address. What a name means is looked up once, judged, and that very address is connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The one port of push services.
const PORT: u16 = 443;

/// What an endpoint may be, as far as its text says it.
pub(super) fn check(endpoint: &str, private: bool) -> Result<Uri, String> {
    let uri: Uri = endpoint.parse().map_err(|_| "this is no address".to_owned())?;
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("this is no address of a push service".to_owned());
    }
    if private {
        return match uri.scheme_str() {
            Some("http" | "https") => Ok(uri),
            _ => Err("an endpoint begins with https://".to_owned()),
        };
    }
    if uri.scheme_str() != Some("https") {
        return Err("an endpoint begins with https://".to_owned());
    }
    if uri.port_u16().is_some_and(|port| port != PORT) {
        return Err(format!("an endpoint is at port {PORT}"));
    }
    match host.parse::<IpAddr>() {
        Ok(address) if !is_public(address) => Err(format!("{address} is not a public address")),
        _ => Ok(uri),
    }
}

/// Looks names up as usual, and lets nothing through that is not public.
pub(super) struct PublicOnly(DefaultResolver);

impl PublicOnly {
    pub(super) fn new() -> Self {
        Self(DefaultResolver::default())
    }
}

impl fmt::Debug for PublicOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicOnly")
    }
}

impl Resolver for PublicOnly {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        // One that is not is enough: which of them is connected to is not ours to choose.
        match found.iter().find(|address| !is_public(address.ip())) {
            Some(address) => {
                Err(Error::Other(format!("{} is not a public address; see notify.push_private", address.ip()).into()))
            }
            None => Ok(found),
        }
    }
}

/// Whether an address is of the internet, and of nobody's own network.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast();
    // This network, carrier-grade NAT, protocol assignments, old 6to4 relays, benchmarks, and what is reserved.
    let reserved = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special && !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Only these are given to anybody; in them, what leads to an address of IPv4, Teredo and examples are not.
    let global = a & 0xe000 == 0x2000;
    let inside = a == 0x2002 || (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || a == 0x3fff;
    global && !inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_the_internet_is_public() {
        for public in ["1.1.1.1", "142.250.1.95", "100.63.0.1", "100.128.0.1", "2a00:1450:4001::5f", "2620:149:208::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for not in [
            "127.0.0.1",
            "127.8.8.8",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::1",
            "64:ff9b::7f00:1",
            "3fff::1",
            "fec0::1",
        ] {
            assert!(!is_public(not.parse().unwrap()), "{not}");
        }
    }

    #[test]
    fn an_endpoint_is_https_at_its_own_port_and_names_nobody() {
        for good in ["https://push.example/a?b=c", "https://push.example:443/", "https://1.1.1.1/x"] {
            assert!(check(good, false).is_ok(), "{good}");
        }
        for bad in [
            "",
            "x",
            "http://push.example/",
            "ftp://push.example/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https:///x",
            "https://user@push.example/",
            "https://user:word@push.example/",
            "https://push.example:8443/",
            "file:///etc/passwd",
            "https://169.254.169.254/latest",
            "https://[::ffff:10.0.0.1]/",
            "/relative",
            "https://push example/",
        ] {
            assert!(check(bad, false).is_err(), "{bad}");
        }
        assert!(check("http://127.0.0.1:3000/x", true).is_ok());
        assert!(check("ftp://127.0.0.1/x", true).is_err());
    }
}
