//! Pages of other sites that may call a door and read its answers. None, unless the door's protocol or its user says so: what
//! a browser does for such a page is done with whatever that page was given, and never with more.

use crate::guard::is_loopback_page;

/// Which pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// Those that this machine serves itself, at requests to a loopback name.
    pub loopback: bool,
    /// Those that the user named: `https://app.example`, or `https://*.example` for every name below.
    pub named: Vec<String>,
}

impl Pages {
    /// Whether this page may.
    pub(crate) fn allow(&self, origin: &str) -> bool {
        (self.loopback && is_loopback_page(origin)) || self.names(origin)
    }

    /// Whether the user named this page.
    pub(crate) fn names(&self, origin: &str) -> bool {
        self.named.iter().any(|named| is_named(named.trim_end_matches('/'), origin))
    }
}

fn is_named(named: &str, origin: &str) -> bool {
    match named.split_once("://*.") {
        None => named.eq_ignore_ascii_case(origin),
        Some((scheme, domain)) => origin.split_once("://").is_some_and(|(own, host)| {
            let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
            let below = host.strip_suffix(&domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
            own.eq_ignore_ascii_case(scheme) && !domain.is_empty() && below && !host.contains('@')
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_loopback_are_known_by_their_whole_name() {
        let pages = Pages { loopback: true, named: Vec::new() };
        for own in ["http://localhost:3000", "http://127.0.0.1:5173", "https://[::1]:8443", "http://app.localhost"] {
            assert!(pages.allow(own) && !Pages::default().allow(own), "{own}");
        }
        for other in [
            "null",
            "http://localhost.evil.example",
            "https://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "http://evillocalhost",
            "file://localhost",
            "http://evil.example#.localhost",
        ] {
            assert!(!pages.allow(other), "{other}");
        }
    }

    #[test]
    fn the_user_names_pages_one_by_one_or_all_below_a_name() {
        let pages =
            Pages { loopback: false, named: vec!["https://app.example".into(), "https://*.dev.example".into()] };
        assert!(pages.allow("https://app.example") && pages.allow("https://a.b.dev.example"));
        for other in ["http://app.example", "https://dev.example", "https://evildev.example", "http://a.dev.example"] {
            assert!(!pages.allow(other), "{other}");
        }
        assert!(!pages.allow("http://localhost:3000"));
    }
}
