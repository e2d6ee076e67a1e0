//! What tailscale says of this machine: its name in the tailnet, and whether what comes to that name is passed on to a port of
//! ours. Only a program that nobody but root can replace is believed: whoever could put another one in its place would have a
//! person's phone show its code to a name of theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_story::By;
use serde::Deserialize;

use crate::approval::DecideError;
use crate::brief::{Brief, Forker};
use crate::{Engine, MayWait};

const PROGRAM: &str = "tailscale";
/// It asks a daemon of this machine; one that takes longer is down.
const SAYS_WITHIN: Duration = Duration::from_secs(5);
/// 8 MiB: a tailnet of thousands of machines is told machine by machine.
const SAYS_MOST: usize = 8 << 20;
/// Where browsers look.
const PORT: u16 = 443;

/// This machine in a tailnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tailnet {
    /// Where devices find it: `https://` and its name.
    pub url: String,
    /// What comes to that name is passed on to our port.
    pub served: bool,
    /// And not only from the tailnet.
    pub public: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Status {
    #[serde(default)]
    backend_state: String,
    #[serde(default, rename = "Self")]
    own: Option<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default, rename = "DNSName")]
    dns_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Serve {
    #[serde(default)]
    web: Option<BTreeMap<String, Site>>,
    #[serde(default)]
    allow_funnel: Option<BTreeMap<String, bool>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Site {
    #[serde(default)]
    handlers: Option<BTreeMap<String, Handler>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Handler {
    #[serde(default)]
    proxy: Option<String>,
}

impl Engine {
    /// This machine in a tailnet, and whether `port` is reached there. Otherwise why not; nothing without tailscale. Waits for
    /// that program.
    pub fn tailnet(&self, _wait: &MayWait, port: u16) -> Option<Result<Tailnet, String>> {
        let own = rustix::process::geteuid().as_raw();
        let found = ostler_stages::resolve(PROGRAM, own).ok()?;
        if let Some(place) = found.writable_by_asker {
            let (program, place) = (found.path.display(), place.display());
            return Some(Err(format!("{program} is not believed: programs of yours can replace it ({place})")));
        }
        let says = |args: &[&str]| said(&self.forker(), &found.path, args);
        Some(says(&["status", "--json"]).and_then(|status| {
            let name = name(&status)?;
            let serve = says(&["serve", "status", "--json"])?;
            Ok(served(&name, &serve, port))
        }))
    }

    /// Lets devices come by this name from now on: a person wants it so. May wait for the disk.
    pub fn allow_tailnet(&self, wait: &MayWait, url: &str, by: By) -> Result<(), DecideError> {
        self.inbox().allow_tailnet(wait, url, by)
    }

    /// The name in a tailnet by which a person lets devices come.
    pub fn allowed_tailnet(&self) -> Option<String> {
        self.inbox().allowed_tailnet()
    }
}

fn said(forker: &Forker, program: &std::path::Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let mut brief = Brief::new(program, args, SAYS_WITHIN);
    (brief.with_stderr, brief.max, brief.leaves_nothing) = (false, SAYS_MOST, true);
    let command = || format!("{PROGRAM} {}", args.join(" "));
    let ran = forker.run(&brief).map_err(|error| format!("{}: {error}", command()))?;
    match ran.ended.well() {
        true => Ok(ran.said),
        false => Err(format!("{} failed ({})", command(), ran.ended)),
    }
}

/// The name of this machine in its tailnet, without the dot at its end.
fn name(status: &[u8]) -> Result<String, String> {
    let status: Status = serde_json::from_slice(status).map_err(|_| "tailscale is not understood".to_owned())?;
    if status.backend_state != "Running" {
        return Err(format!("tailscale is not connected ({})", status.backend_state));
    }
    let name = status.own.map(|own| own.dns_name.trim_end_matches('.').to_ascii_lowercase()).unwrap_or_default();
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.');
    match !name.is_empty() && name.chars().all(plain) {
        true => Ok(name),
        false => Err("this machine has no name in its tailnet: switch MagicDNS on".to_owned()),
    }
}

fn served(name: &str, serve: &[u8], port: u16) -> Tailnet {
    // Nothing at all is said where nothing is served.
    let serve: Serve = serde_json::from_slice(serve).unwrap_or_default();
    let place = format!("{name}:{PORT}");
    let site = serve.web.as_ref().and_then(|sites| sites.get(&place));
    let proxy = site.and_then(|site| site.handlers.as_ref()?.get("/")?.proxy.as_deref()).unwrap_or_default();
    let own = ["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{port}"));
    Tailnet {
        url: format!("https://{name}"),
        served: own.iter().any(|own| proxy.trim_end_matches('/') == own),
        public: serve.allow_funnel.and_then(|open| open.get(&place).copied()).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{"Version":"1.90.8","BackendState":"Running","Self":{"ID":"n1","HostName":"Box",
        "DNSName":"Box.tail1234.ts.net.","Online":true},"MagicDNSSuffix":"tail1234.ts.net","Peer":null}"#;

    #[test]
    fn the_name_is_that_of_a_machine_that_is_connected() {
        assert_eq!(name(STATUS.as_bytes()).unwrap(), "box.tail1234.ts.net");
        let stopped = STATUS.replace("Running", "Stopped");
        assert_eq!(name(stopped.as_bytes()).unwrap_err(), "tailscale is not connected (Stopped)");
        let odd = STATUS.replace("Box.tail1234", "evil.example/#");
        let nameless = STATUS.replace("Box.tail1234.ts.net.", "");
        for status in [nameless.as_str(), odd.as_str(), "{}", "no"] {
            assert!(name(status.as_bytes()).is_err(), "{status}");
        }
    }

    #[test]
    fn only_the_root_of_that_very_name_and_port_counts_as_served() {
        let config = |proxy: &str, path: &str, place: &str| {
            format!(
                r#"{{"TCP":{{"443":{{"HTTPS":true}}}},"Web":{{"{place}":{{"Handlers":{{"{path}":{{"Proxy":"{proxy}"}}}}}}}}}}"#
            )
        };
        let (own, place) = ("http://127.0.0.1:8767", "box.ts.net:443");
        let looked = |config: &str| served("box.ts.net", config.as_bytes(), 8767);
        assert_eq!(
            looked(&config(own, "/", place)),
            Tailnet { url: "https://box.ts.net".into(), served: true, public: false }
        );
        assert!(looked(&config("http://localhost:8767/", "/", place)).served);
        for other in [
            config("http://127.0.0.1:8768", "/", place),
            config(own, "/x", place),
            config(own, "/", "box.ts.net:8443"),
            config(own, "/", "other.ts.net:443"),
            "{}".into(),
            String::new(),
            r#"{"Web":null}"#.into(),
        ] {
            assert!(!looked(&other).served, "{other}");
        }
        let open = config(own, "/", place).replacen('{', r#"{"AllowFunnel":{"box.ts.net:443":true},"#, 1);
        assert!(looked(&open).public);
    }
}
