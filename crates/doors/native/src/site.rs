//! The page: files that were built from `web/` and are part of the program. Everybody who may reach the port may have them,
//! since they hold nothing that is anybody's; what is shown on it comes over `/rpc`, to devices.
//!
//! Nothing inline, nothing evaluated, nothing from elsewhere, and no markup that did not go through the sanitizer.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::Response;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ostler_door_web::{Fetch, Refused, fetched};
use sha2::{Digest, Sha256};

/// What the page may do. Its terminal is in a frame of its own.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
     manifest-src 'self'; worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types dompurify ostler-worker";
/// What its terminal may do: it makes style elements, and connects to nothing. The page alone has it in a frame.
const TERMINAL_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types 'none'";
/// What its worker may do, which shows notices while no page is open: ask the instance, and nothing else.
const WORKER_POLICY: &str = "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/// What nobody opens by itself.
const PART_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
/// Letters of the digest in the names of parts: no two builds have the same.
const TAG: usize = 16;

/// One file.
struct File {
    /// Below `/`; parts have the build's tag before it.
    name: &'static str,
    kind: &'static str,
    /// As `build.rs` has packed it.
    gzip: &'static [u8],
}

macro_rules! built {
    ($($name:literal: $kind:literal),* $(,)?) => {
        &[$(File { name: $name, kind: $kind, gzip: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")) }),*]
    };
}

const PAGES: &[File] = built! {
    "index.html": "text/html; charset=utf-8",
    "terminal.html": "text/html; charset=utf-8",
    "worker.js": "text/javascript; charset=utf-8",
};
const PARTS: &[File] = built! {
    "app.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-192.png": "image/png",
    "icon-maskable.png": "image/png",
    "app.webmanifest": "application/manifest+json",
    "terminal.js": "text/javascript; charset=utf-8",
    "terminal.css": "text/css; charset=utf-8",
};

/// What is served, ready to be sent.
struct Ready {
    path: String,
    kind: &'static str,
    policy: &'static str,
    fetch: Fetch,
    cache: &'static str,
    gzip: Cow<'static, [u8]>,
}

static SITE: LazyLock<Vec<Ready>> = LazyLock::new(ready);

fn ready() -> Vec<Ready> {
    let mut digest = Sha256::new();
    for file in PARTS {
        digest.update(file.gzip);
    }
    let tag: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = tag.get(..TAG).unwrap_or_default();
    let part = |file: &File| Ready {
        path: format!("/{tag}/{}", file.name),
        kind: file.kind,
        policy: PART_POLICY,
        fetch: Fetch::Part,
        // The name says which build it is from: what is there never changes.
        cache: "public, max-age=31536000, immutable",
        gzip: file.gzip.into(),
    };
    let page = |file: &File| {
        let text = String::from_utf8_lossy(&unpacked(file.gzip)).replace("/TAG/", &format!("/{tag}/"));
        let (path, policy, fetch) = match file.name {
            "terminal.html" => ("/terminal", TERMINAL_POLICY, Fetch::Part),
            // At the top, because a worker serves what is beneath it.
            "worker.js" => ("/worker.js", WORKER_POLICY, Fetch::Part),
            _ => ("/", PAGE_POLICY, Fetch::Page),
        };
        Ready {
            path: path.to_owned(),
            kind: file.kind,
            policy,
            fetch,
            cache: "no-store",
            gzip: packed(text.as_bytes()).into(),
        }
    };
    PAGES.iter().map(page).chain(PARTS.iter().map(part)).collect()
}

/// Nothing where that fails, which it does not in memory.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// The same, and what was packed here is whole.
fn unpacked(gzip: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let _ = GzDecoder::new(gzip).read_to_end(&mut plain);
    plain
}

/// The file at this path, for whoever may have it; nothing where there is none.
pub(crate) fn serve(method: &Method, path: &str, headers: &HeaderMap) -> Result<Option<Response>, Refused> {
    let Some(file) = SITE.iter().find(|file| file.path == path) else { return Ok(None) };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    fetched(headers, file.fetch)?;
    let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let gzip = accepts.is_some_and(|accepts| accepts.contains("gzip"));
    // Browsers all take it packed.
    let body = if gzip { file.gzip.to_vec() } else { unpacked(&file.gzip) };
    let length = body.len();
    let body = if *method == Method::HEAD { Body::empty() } else { Body::from(body) };
    let mut response = Response::new(body);
    let fixed = [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_SECURITY_POLICY, file.policy),
        (header::CACHE_CONTROL, file.cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, if file.policy == TERMINAL_POLICY { "SAMEORIGIN" } else { "DENY" }),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "Accept-Encoding"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ];
    response.headers_mut().extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(Some(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first screen may cost on a slow line.
    const FIRST_SCREEN_MAX: usize = 150_000;

    fn asked(path: &str, pairs: &[(&'static str, &'static str)]) -> Result<Option<Response>, Refused> {
        let headers =
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        serve(&Method::GET, path, &headers.collect())
    }

    #[test]
    fn the_page_names_parts_that_are_there_and_nothing_inline() {
        let page = String::from_utf8(unpacked(&SITE.first().unwrap().gzip)).unwrap();
        let named: Vec<&str> = page.split(['"']).filter(|text| text.starts_with('/') && text.len() > 1).collect();
        assert!(named.len() >= 3, "{page}");
        for path in named {
            assert!(asked(path, &[]).unwrap().is_some(), "{path}");
        }
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onload"), "{page}");
    }

    #[test]
    fn the_first_screen_is_small() {
        let later = |path: &str| ["terminal", "worker", ".png"].iter().any(|part| path.contains(part));
        let first = SITE.iter().filter(|file| !later(&file.path));
        let sizes: Vec<usize> = first.map(|file| file.gzip.len()).collect();
        assert!(sizes.iter().sum::<usize>() <= FIRST_SCREEN_MAX && sizes.len() <= 15, "{sizes:?}");
    }

    #[test]
    fn the_page_is_framed_by_nobody_and_its_parts_are_for_itself() {
        let page = asked("/", &[("accept-encoding", "gzip, br")]).unwrap().unwrap();
        let policy = page.headers().get(header::CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        for rule in
            ["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "base-uri 'none'"]
        {
            assert!(policy.contains(rule), "{rule}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(page.headers().get(header::CONTENT_ENCODING).unwrap(), "gzip");
        let terminal =
            asked("/terminal", &[("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "iframe")]).unwrap().unwrap();
        let policy = terminal.headers().get(header::CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'self'") && !policy.contains("connect-src"), "{policy}");
        let worker =
            asked("/worker.js", &[("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "serviceworker")]).unwrap();
        let policy = worker.unwrap().headers().get(header::CONTENT_SECURITY_POLICY).unwrap().clone();
        assert!(!policy.to_str().unwrap().contains("script-src") && !policy.to_str().unwrap().contains("unsafe"));
        assert!(asked("/worker.js", &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "serviceworker")]).is_err());
        assert!(asked("/terminal", &[("sec-fetch-site", "same-site"), ("sec-fetch-dest", "iframe")]).is_err());
        let script = &SITE.iter().find(|file| file.path.ends_with("app.js")).unwrap().path;
        assert!(asked(script, &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")]).is_err());
        assert!(asked(script, &[("sec-fetch-site", "same-origin")]).unwrap().is_some());
        assert!(asked("/etc/passwd", &[]).unwrap().is_none());
        assert!(serve(&Method::POST, "/", &HeaderMap::new()).unwrap().is_none());
    }
}
