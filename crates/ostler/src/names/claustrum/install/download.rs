//! Fetches the compressed CLI over HTTP into a file without a name: whatever happens, nothing is left behind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use super::path_error;
use super::unpack::SIZE_MAX;
use crate::roots;

/// From the first byte sent to the last one received.
const TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Downloads `url`. The words of an error are those that callers know.
pub(super) fn fetch(url: &str, dir: &Path) -> Result<File, String> {
    let uri: Uri = url.parse().map_err(|error| get_failed(url, error))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        scheme => return Err(get_failed(url, format!("unsupported protocol scheme {:?}", scheme.unwrap_or_default()))),
    }
    let response = agent(&uri).get(url).call().map_err(|error| get_failed(url, wording(&error, &uri)))?;
    let status = response.status();
    if status != 200 {
        let phrase = status.canonical_reason().unwrap_or_default();
        return Err(format!("download {url}: {} {phrase}", status.as_u16()).trim_end().to_owned());
    }
    save(response, dir, SIZE_MAX)
}

fn agent(uri: &Uri) -> Agent {
    let roots = RootCerts::from(roots::trusted(|name| std::env::var_os(name)));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider).root_certs(roots).build();
    let proxy = if is_this_machine(uri) { None } else { Proxy::try_from_env() };
    Agent::config_builder()
        .proxy(proxy)
        .timeout_global(Some(TIME_MAX))
        .http_status_as_error(false)
        .tls_config(tls)
        .build()
        .into()
}

/// No proxy stands between a machine and itself.
fn is_this_machine(uri: &Uri) -> bool {
    let host = bare_host(uri);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// The host without the brackets of an IPv6 address.
fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn save(response: Response<Body>, dir: &Path, limit: u64) -> Result<File, String> {
    let mut file = nameless(dir).map_err(|error| path_error("open", dir, &error))?;
    let mut body = response.into_body().into_reader().take(limit.saturating_add(1));
    let mut chunk = vec![0; 128 << 10];
    let mut total = 0;
    loop {
        let count = match body.read(&mut chunk) {
            Ok(0) => return Ok(file),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err("unexpected EOF".to_owned()),
            Err(error) => return Err(ostler_door_claustrum::errno_text(&error)),
        };
        total += count as u64;
        if total > limit {
            return Err(format!("more than {} MiB", limit >> 20));
        }
        file.write_all(chunk.get(..count).unwrap_or_default()).map_err(|error| path_error("write", dir, &error))?;
    }
}

/// A file that vanishes when it is closed; on file systems that know no such thing, one whose name is removed at once.
fn nameless(dir: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let flags = OFlags::TMPFILE.bits().cast_signed();
    options.clone().custom_flags(flags).open(dir).or_else(|_| {
        let path = dir.join(format!(".download-{}", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

fn get_failed(url: &str, reason: impl std::fmt::Display) -> String {
    format!("Get {url:?}: {reason}")
}

fn wording(error: &ureq::Error, uri: &Uri) -> String {
    match error {
        ureq::Error::Io(error) if error.raw_os_error().is_some() => {
            format!("dial tcp {}: connect: {}", dialled(uri), ostler_door_claustrum::errno_text(error))
        }
        // The system's resolver has errors of its own, which no number tells.
        ureq::Error::Io(error) if error.to_string().starts_with("failed to lookup address") => no_such_host(uri),
        ureq::Error::HostNotFound => no_such_host(uri),
        ureq::Error::Io(error) => ostler_door_claustrum::errno_text(error),
        ureq::Error::Timeout(_) => "context deadline exceeded".to_owned(),
        ureq::Error::TooManyRedirects => "stopped after 10 redirects".to_owned(),
        other => other.to_string(),
    }
}

fn no_such_host(uri: &Uri) -> String {
    format!("dial tcp: lookup {}: no such host", bare_host(uri))
}

/// The address that was tried: a name stands for its first one.
fn dialled(uri: &Uri) -> String {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = bare_host(uri);
    let resolved = (host, port).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    resolved.map_or_else(|| format!("{host}:{port}"), |address| address.to_string())
}
