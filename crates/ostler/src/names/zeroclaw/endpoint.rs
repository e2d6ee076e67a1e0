//! Where the daemon is: one socket for each data folder, so that several do not meet.

use std::ffi::OsString;
use std::path::PathBuf;

/// The socket and the folders around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) config_dir: PathBuf,
    pub(super) data_dir: PathBuf,
    pub(super) socket: PathBuf,
}

impl Endpoint {
    /// A folder that is named on the command line comes first, then the environment, then the home.
    pub(super) fn find(flag: Option<PathBuf>, var: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let named = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = flag.or_else(|| named("ZEROCLAW_CONFIG_DIR"));
        let (config_dir, data_dir) = match (config, named("ZEROCLAW_DATA_DIR")) {
            (Some(config), _) => (config.clone(), config.join("data")),
            (None, Some(data)) => (data.clone(), data),
            (None, None) => {
                let home = named("HOME").ok_or("HOME is not set; say where with --config-dir")?;
                (home.join(".zeroclaw"), home.join(".zeroclaw/data"))
            }
        };
        let absolute =
            |path: PathBuf| std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()));
        let (config_dir, data_dir) = (absolute(config_dir)?, absolute(data_dir)?);
        let socket = match named("ZEROCLAW_SOCKET") {
            Some(socket) => absolute(socket)?,
            None => data_dir.join("daemon.sock"),
        };
        Ok(Self { config_dir, data_dir, socket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(flag: Option<&str>, vars: &[(&str, &str)]) -> (String, String) {
        let var = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        let found = Endpoint::find(flag.map(PathBuf::from), var).unwrap();
        (found.data_dir.display().to_string(), found.socket.display().to_string())
    }

    fn beside(data: &str) -> (String, String) {
        (data.to_owned(), format!("{data}/daemon.sock"))
    }

    #[test]
    fn the_more_definite_word_wins() {
        let home = ("HOME", "/h");
        assert_eq!(found(None, &[home]), beside("/h/.zeroclaw/data"));
        assert_eq!(found(None, &[home, ("ZEROCLAW_DATA_DIR", "/d")]), beside("/d"));
        assert_eq!(found(None, &[("ZEROCLAW_CONFIG_DIR", "/c"), ("ZEROCLAW_DATA_DIR", "/d")]), beside("/c/data"));
        assert_eq!(found(Some("/f"), &[("ZEROCLAW_CONFIG_DIR", "/c")]), beside("/f/data"));
        let socket = ("ZEROCLAW_SOCKET", "/tmp/x.sock");
        assert_eq!(found(None, &[home, socket]), ("/h/.zeroclaw/data".into(), "/tmp/x.sock".into()));
        assert_eq!(
            found(None, &[home, ("ZEROCLAW_SOCKET", ""), ("ZEROCLAW_CONFIG_DIR", "")]),
            beside("/h/.zeroclaw/data")
        );
        assert!(Endpoint::find(None, |_| None).is_err());
    }
}
