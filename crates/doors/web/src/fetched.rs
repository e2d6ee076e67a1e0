//! What a browser says of itself about a request: whose page asks, and for what. Anything may lead to a page; of what belongs to
//! it, only the page itself may have anything. A program that is no browser says nothing here, and Host and Origin decide.

use axum::http::HeaderMap;

use crate::Refused;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// A page, in a window of its own.
    Page,
    /// What a page is made of, and what it connects to.
    Part,
}

/// Refuses what another site asks for.
pub fn fetched(headers: &HeaderMap, what: Fetch) -> Result<(), Refused> {
    let one = |name: &str| {
        let mut all = headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| Refused::Origin),
            (Some(_), Some(_)) => Err(Refused::Origin),
        }
    };
    let Some(site) = one("sec-fetch-site")? else { return Ok(()) };
    let window =
        what == Fetch::Page && one("sec-fetch-mode")? == Some("navigate") && one("sec-fetch-dest")? == Some("document");
    if site == "same-origin" || window { Ok(()) } else { Err(Refused::Origin) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn asked(what: Fetch, pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        fetched(&headers, what).is_ok()
    }

    const WINDOW: [(&str, &str); 2] = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];

    #[test]
    fn any_link_leads_to_the_page_and_to_nothing_else() {
        for site in ["none", "cross-site", "same-site", "same-origin"] {
            let link = [("sec-fetch-site", site), WINDOW[0], WINDOW[1]];
            assert!(asked(Fetch::Page, &link), "{site}");
            assert_eq!(asked(Fetch::Part, &link), site == "same-origin", "{site}");
        }
        assert!(asked(Fetch::Page, &[]) && asked(Fetch::Part, &[]), "who says nothing is no browser of today");
    }

    #[test]
    fn another_site_neither_frames_nor_loads_nor_connects() {
        for site in ["cross-site", "same-site", "none", "", "Same-Origin"] {
            for (mode, dest) in
                [("no-cors", "script"), ("navigate", "iframe"), ("websocket", "websocket"), ("cors", "empty")]
            {
                let other = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
                assert!(!asked(Fetch::Page, &other) && !asked(Fetch::Part, &other), "{other:?}");
            }
        }
        assert!(asked(Fetch::Part, &[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "websocket")]));
        assert!(
            !asked(Fetch::Page, &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]),
            "said twice"
        );
    }
}
