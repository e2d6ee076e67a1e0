//! One request to a destination: bounded in time, never redirected, its answer read no further than its head.

use std::sync::Arc;
use std::time::Duration;

use ureq::http::StatusCode;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Proxy};

use super::address::PublicOnly;
use crate::roots;

/// From looking up the name to the head of the answer.
const WITHIN: Duration = Duration::from_secs(10);
/// What is tried again and when: where nothing can have arrived. Then it is given up: a notice that is late is none.
pub(super) const AGAIN: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(20)];

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was taken.
    Taken(String),
    /// It cannot have been, and may be the next time.
    NotNow(String),
    /// It was refused, or nobody knows.
    Refused(String),
    /// There is nobody any more.
    Gone,
}

/// Whom a request may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Wherever its address leads: a person named it.
    Anywhere,
    /// A public address alone.
    Public,
}

pub(super) fn agent(reach: Reach, proxy: bool) -> Agent {
    let roots = RootCerts::from(roots::trusted(|name| std::env::var_os(name)));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider).root_certs(roots).build();
    let config = Agent::config_builder()
        .proxy(if proxy { Proxy::try_from_env() } else { None })
        .timeout_global(Some(WITHIN))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent("ostler")
        .tls_config(tls)
        .build();
    match reach {
        Reach::Anywhere => Agent::with_parts(config, DefaultConnector::default(), DefaultResolver::default()),
        Reach::Public => Agent::with_parts(config, DefaultConnector::default(), PublicOnly::new()),
    }
}

/// Sends a request with these members of its head.
pub(super) fn post(agent: &Agent, url: &str, head: &[(&str, String)], body: &[u8]) -> Answer {
    let mut request = agent.post(url);
    for (name, value) in head {
        request = request.header(*name, value);
    }
    match request.send(body) {
        Ok(response) => judge(response.status()),
        Err(ureq::Error::Timeout(_)) => Answer::Refused(format!("no answer within {} s", WITHIN.as_secs())),
        Err(error @ (ureq::Error::HostNotFound | ureq::Error::ConnectionFailed)) => Answer::NotNow(error.to_string()),
        Err(ureq::Error::Io(error)) if never_arrived(&error) => Answer::NotNow(error.to_string()),
        Err(error) => Answer::Refused(error.to_string()),
    }
}

fn never_arrived(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    let unreachable = matches!(
        error.kind(),
        AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable
    );
    unreachable || error.to_string().starts_with("failed to lookup address")
}

fn judge(status: StatusCode) -> Answer {
    let words = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()).trim_end().to_owned();
    match status.as_u16() {
        200..=299 => Answer::Taken(words),
        300..=399 => Answer::Refused(format!("{words}: redirects are not followed")),
        404 | 410 => Answer::Gone,
        429 | 500..=599 => Answer::NotNow(words),
        _ => Answer::Refused(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_have_arrived_is_tried_again() {
        let judged = |code: u16| judge(StatusCode::from_u16(code).unwrap());
        assert_eq!(judged(201), Answer::Taken("201 Created".into()));
        assert_eq!(judged(302), Answer::Refused("302 Found: redirects are not followed".into()));
        assert_eq!((judged(410), judged(404)), (Answer::Gone, Answer::Gone));
        assert!(matches!(judged(503), Answer::NotNow(_)) && matches!(judged(429), Answer::NotNow(_)));
        assert!(matches!(judged(403), Answer::Refused(_)));
    }
}
