//! Where the door listens and what it is told: `~/.codecast/daemon.yaml`, then the environment.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::yaml;

/// Where clients look first.
const PORT: u16 = 9100;

/// Where to listen, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The first port to try.
    pub port: u16,
    /// The address; anything but a loopback address means TLS and tokens.
    pub bind: IpAddr,
    /// Who may come in from elsewhere.
    pub tokens_file: PathBuf,
    /// The certificate, made if it is not there.
    pub tls_cert: PathBuf,
    /// Its key.
    pub tls_key: PathBuf,
}

/// A setting that can not be meant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not an address.
    #[error(
        "{from}: {value:?} is not an IP address; use 127.0.0.1 (this machine only), 0.0.0.0 (all) or one of its own"
    )]
    Bind {
        /// Where it was set.
        from: String,
        /// What was set.
        value: String,
    },
    /// Not a port.
    #[error("{from}: {value:?} is not a port (0 to 65535)")]
    Port {
        /// Where it was set.
        from: String,
        /// What was set.
        value: String,
    },
}

impl Config {
    /// What holds where nothing is said: the usual port of the loopback.
    pub fn usual(folder: &Path) -> Self {
        Self {
            port: PORT,
            bind: Ipv4Addr::LOCALHOST.into(),
            tokens_file: folder.join("tokens.yaml"),
            tls_cert: folder.join("tls-cert.pem"),
            tls_key: folder.join("tls-key.pem"),
        }
    }

    /// The settings of this folder and environment. A file that does not read is told of and not used.
    pub fn load(folder: &Path, env: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let file = folder.join("daemon.yaml");
        let names = ["port", "bind", "tokens_file", "tls_cert", "tls_key"];
        let read = yaml::read(&file).map_err(|error| error.to_string());
        let found = read.and_then(|text| yaml::settings(&text.unwrap_or_default(), names));
        let [port, bind, tokens_file, tls_cert, tls_key] = found.unwrap_or_else(|why| {
            tracing::warn!("{}: {why}; using the defaults", file.display());
            names.map(|_| None)
        });
        let usual = Self::usual(folder);
        let of_file = |value: Option<String>| value.map(|value| (file.display().to_string(), value));
        let of_env = |name: &str| {
            let value = env(name).filter(|value| !value.is_empty())?;
            Some((name.to_owned(), value.to_string_lossy().into_owned()))
        };
        let port = match of_env("DAEMON_PORT").or(of_file(port)) {
            Some((from, value)) => value.trim().parse().map_err(|_| ConfigError::Port { from, value })?,
            None => usual.port,
        };
        let bind = match of_env("DAEMON_BIND").or(of_file(bind)) {
            Some((_, value)) if value.trim().eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST.into(),
            Some((from, value)) => value.trim().parse().map_err(|_| ConfigError::Bind { from, value })?,
            None => usual.bind,
        };
        let path = |given: Option<String>, usual: PathBuf| match given {
            Some(given) => match (given.strip_prefix("~/"), folder.parent()) {
                (Some(below), Some(home)) => home.join(below),
                _ => folder.join(given),
            },
            None => usual,
        };
        Ok(Self {
            port,
            bind,
            tokens_file: path(tokens_file, usual.tokens_file),
            tls_cert: path(tls_cert, usual.tls_cert),
            tls_key: path(tls_key, usual.tls_key),
        })
    }

    /// Whether clients from elsewhere may come: then TLS is spoken and tokens are asked for.
    pub fn is_open(&self) -> bool {
        !self.bind.to_canonical().is_loopback()
    }

    /// Listens on the first free port from the wished one on.
    pub fn listen(&self) -> io::Result<TcpListener> {
        ostler_door_web::listen(self.bind, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(yaml: Option<&str>, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".codecast");
        std::fs::create_dir(&folder).unwrap();
        if let Some(yaml) = yaml {
            std::fs::write(folder.join("daemon.yaml"), yaml).unwrap();
        }
        let find = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        Config::load(&folder, find)
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
        let plain = load(None, &[]).unwrap();
        assert_eq!((plain.port, plain.bind.to_string().as_str(), plain.is_open()), (9100, "127.0.0.1", false));
        assert!(plain.tokens_file.ends_with(".codecast/tokens.yaml"));
        let file = "port: 9300\nbind: 0.0.0.0\ntokens_file: ~/t.yaml\ntls_cert: /c.pem\n";
        let filed = load(Some(file), &[]).unwrap();
        assert_eq!((filed.port, filed.is_open()), (9300, true));
        assert!(filed.tokens_file.ends_with("t.yaml") && !filed.tokens_file.ends_with(".codecast/t.yaml"));
        assert_eq!(
            (filed.tls_cert.as_path(), filed.tls_key.ends_with(".codecast/tls-key.pem")),
            (Path::new("/c.pem"), true)
        );
        let set = load(Some(file), &[("DAEMON_PORT", "9400"), ("DAEMON_BIND", "::1")]).unwrap();
        assert_eq!((set.port, set.is_open()), (9400, false));
        assert_eq!(load(None, &[("DAEMON_BIND", "localhost")]).unwrap().bind, IpAddr::from([127, 0, 0, 1]));
    }

    #[test]
    fn a_broken_file_means_the_defaults_and_a_bad_value_is_an_error_with_its_place() {
        assert_eq!(load(Some("port: ["), &[]).unwrap().port, 9100);
        let error = load(None, &[("DAEMON_BIND", "somewhere")]).unwrap_err().to_string();
        assert!(error.starts_with("DAEMON_BIND: \"somewhere\" is not an IP address"), "{error}");
        assert!(
            load(Some("port: 70000\n"), &[]).unwrap_err().to_string().contains("daemon.yaml: \"70000\" is not a port")
        );
    }

    #[test]
    fn a_busy_port_is_passed_over() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let config = Config { port, ..load(None, &[]).unwrap() };
        let second = config.listen().unwrap();
        assert!(second.local_addr().unwrap().port() > port);
    }
}
