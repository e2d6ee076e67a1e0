//! Settings of `cdev`, each with the variable that sets it: `CDEV_<SECTION>_<KEY>`.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ostler_door_cdev::{Pairing, Rate};

/// One setting.
struct Key {
    /// `section.name`.
    name: &'static str,
    variable: &'static str,
    default: &'static str,
    doc: &'static str,
    apply: fn(&mut Values, &str) -> Result<(), String>,
}

/// All of them, as they are meant.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) host: IpAddr,
    pub(super) port: u16,
    pub(super) external_url: Option<String>,
    pub(super) repo: Option<PathBuf>,
    pub(super) heartbeat: Duration,
    pub(super) claude: Option<String>,
    pub(super) file_kb: u64,
    pub(super) diff_kb: usize,
    pub(super) approval: bool,
    pub(super) token: Duration,
    pub(super) origins: Vec<String>,
    pub(super) limited: bool,
    pub(super) rate: Rate,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) shutdown_ends: bool,
    pub(super) shell: bool,
    /// A setting, its value, and whether the environment says so.
    said: Vec<(&'static Key, String, bool)>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const KEYS: &[Key] = &[
    Key {
        name: "server.host",
        variable: "CDEV_SERVER_HOST",
        default: "127.0.0.1",
        doc: "The address to listen at.",
        apply: |values, text| {
            let host = if text == "localhost" { "127.0.0.1" } else { text };
            values.host = host.parse().map_err(|_| "expected an IP address".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "server.port",
        variable: "CDEV_SERVER_PORT",
        default: "8766",
        doc: "The port.",
        apply: |values, text| number(text).map(|port| values.port = port),
    },
    Key {
        name: "server.external_url",
        variable: "CDEV_SERVER_EXTERNAL_URL",
        default: "",
        doc: "Where a tunnel or proxy in front of the port is found.",
        apply: |values, text| {
            values.external_url = some(text);
            Ok(())
        },
    },
    Key {
        name: "repository.path",
        variable: "CDEV_REPOSITORY_PATH",
        default: "",
        doc: "The repository; the current folder unless given.",
        apply: |values, text| {
            values.repo = some(text).map(PathBuf::from);
            Ok(())
        },
    },
    Key {
        name: "heartbeat.secs",
        variable: "CDEV_HEARTBEAT_SECS",
        default: "30",
        doc: "How often clients hear that the server is there, in seconds.",
        apply: |values, text| seconds(text).map(|span| values.heartbeat = span),
    },
    Key {
        name: "claude.command",
        variable: "CDEV_CLAUDE_COMMAND",
        default: "claude",
        doc: "The program that is started as claude.",
        apply: |values, text| {
            values.claude = Some(text.to_owned()).filter(|text| !text.is_empty() && text != "claude");
            Ok(())
        },
    },
    Key {
        name: "limits.max_file_size_kb",
        variable: "CDEV_LIMITS_MAX_FILE_SIZE_KB",
        default: "200",
        doc: "How much of a file is given at once, in kilobytes.",
        apply: |values, text| number(text).map(|most| values.file_kb = most),
    },
    Key {
        name: "limits.max_diff_size_kb",
        variable: "CDEV_LIMITS_MAX_DIFF_SIZE_KB",
        default: "500",
        doc: "How much of a difference is given at once, in kilobytes.",
        apply: |values, text| number(text).map(|most| values.diff_kb = most),
    },
    Key {
        name: "security.require_auth",
        variable: "CDEV_SECURITY_REQUIRE_AUTH",
        default: "true",
        doc: "Ask clients for a token. They are always asked.",
        apply: |_, text| match flag(text)? {
            true => Ok(()),
            false => Err("clients are always asked for a token".to_owned()),
        },
    },
    Key {
        name: "security.require_pairing_approval",
        variable: "CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL",
        default: "false",
        doc: "Ask a person before a device is let in. Always so where other machines reach the port.",
        apply: |values, text| flag(text).map(|approval| values.approval = approval),
    },
    Key {
        name: "security.token_expiry_secs",
        variable: "CDEV_SECURITY_TOKEN_EXPIRY_SECS",
        default: "3600",
        doc: "How long a pairing token can be used, in seconds.",
        apply: |values, text| seconds(text).map(|span| values.token = span),
    },
    Key {
        name: "security.allowed_origins",
        variable: "CDEV_SECURITY_ALLOWED_ORIGINS",
        default: "",
        doc: "Web pages that may call beside those of this machine: https://app.example, https://*.example, with commas.",
        apply: |values, text| {
            let all = text.split([',', ' ']).filter(|origin| !origin.is_empty());
            values.origins = all.map(str::to_owned).collect();
            Ok(())
        },
    },
    Key {
        name: "security.rate_limit_enabled",
        variable: "CDEV_SECURITY_RATE_LIMIT_ENABLED",
        default: "false",
        doc: "Limit how much a client may ask for.",
        apply: |values, text| flag(text).map(|limited| values.limited = limited),
    },
    Key {
        name: "security.rate_limit_requests_per_minute",
        variable: "CDEV_SECURITY_RATE_LIMIT_REQUESTS_PER_MINUTE",
        default: "100",
        doc: "How many requests a connection may send in a minute.",
        apply: |values, text| number(text).map(|most| values.rate.commands = most),
    },
    Key {
        name: "security.rate_limit_runs_per_minute",
        variable: "CDEV_SECURITY_RATE_LIMIT_RUNS_PER_MINUTE",
        default: "10",
        doc: "How many of those may start the agent.",
        apply: |values, text| number(text).map(|most| values.rate.runs = most),
    },
    Key {
        name: "security.tls_cert",
        variable: "CDEV_SECURITY_TLS_CERT",
        default: "",
        doc: "A TLS certificate for the port, as a PEM file.",
        apply: |values, text| {
            values.certificate = some(text).map(PathBuf::from);
            Ok(())
        },
    },
    Key {
        name: "security.tls_key",
        variable: "CDEV_SECURITY_TLS_KEY",
        default: "",
        doc: "The key of that certificate, as a PEM file.",
        apply: |values, text| {
            values.key = some(text).map(PathBuf::from);
            Ok(())
        },
    },
    Key {
        name: "security.shutdown_ends_server",
        variable: "CDEV_SECURITY_SHUTDOWN_ENDS_SERVER",
        default: "false",
        doc: "Let a client's `shutdown` end the server, not only its own connection.",
        apply: |values, text| flag(text).map(|ends| values.shutdown_ends = ends),
    },
    Key {
        name: "security.shell_prompts",
        variable: "CDEV_SECURITY_SHELL_PROMPTS",
        default: "false",
        doc: "Run a prompt that begins with ! in a shell, for devices that may type into terminals. Otherwise it is text.",
        apply: |values, text| flag(text).map(|shell| values.shell = shell),
    },
];

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

/// Less than a day, and not nothing.
fn seconds(text: &str) -> Result<Duration, String> {
    let good = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    good.map(Duration::from_secs_f64).ok_or_else(|| "expected a number of seconds up to 86400".to_owned())
}

impl Values {
    /// Reads the environment.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut values = Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 0,
            external_url: None,
            repo: None,
            heartbeat: Duration::default(),
            claude: None,
            file_kb: 0,
            diff_kb: 0,
            approval: false,
            token: Pairing::default().token,
            origins: Vec::new(),
            limited: false,
            rate: Rate::default(),
            certificate: None,
            key: None,
            shutdown_ends: false,
            shell: false,
            said: Vec::with_capacity(KEYS.len()),
        };
        for key in KEYS {
            let said = variable(key.variable);
            let text = said.clone().unwrap_or_else(|| key.default.to_owned());
            (key.apply)(&mut values, &text).map_err(|why| format!("{}={text}: {why}", key.variable))?;
            values.said.push((key, text, said.is_some()));
        }
        Ok(values)
    }

    /// Shows them all.
    pub(super) fn print(&self) -> ExitCode {
        let mut out = std::io::stdout().lock();
        for (key, text, set) in &self.said {
            let origin = if *set { key.variable } else { "default" };
            let text = if text.is_empty() { "-" } else { text };
            // Whoever reads it may have left.
            let _ = writeln!(out, "{} = {}  ({origin})\n    {} {}", key.name, shown(text), key.doc, key.variable);
        }
        ExitCode::SUCCESS
    }
}

/// A value of the environment on a terminal.
fn shown(text: &str) -> String {
    crate::output::visible(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_variable_and_a_default_that_can_be_read() {
        let values = Values::read(|_| None).unwrap();
        assert_eq!((values.port, values.approval, values.limited), (8766, false, false));
        for key in KEYS {
            let (section, name) = key.name.split_once('.').unwrap();
            assert_eq!(key.variable, format!("CDEV_{section}_{name}").to_uppercase());
        }
    }

    #[test]
    fn the_environment_counts_and_what_cannot_be_read_is_named() {
        let set = |name: &'static str, text: &'static str| move |asked: &str| (asked == name).then(|| text.to_owned());
        assert_eq!(Values::read(set("CDEV_SERVER_PORT", "9")).unwrap().port, 9);
        let error = Values::read(set("CDEV_SERVER_PORT", "many")).unwrap_err();
        assert!(error.starts_with("CDEV_SERVER_PORT=many"), "{error}");
        assert!(Values::read(set("CDEV_SECURITY_REQUIRE_AUTH", "false")).is_err());
    }
}
