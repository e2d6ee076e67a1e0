//! `hosts.json`, which belongs to `sudo-proxy-mcp`: known hosts, and whether unattended grants may be offered. Members that
//! we do not know are kept as they are.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The file's content.
pub(super) struct Hosts {
    path: PathBuf,
    all: Map<String, Value>,
}

impl Hosts {
    /// Reads it; a file that is not there or not readable knows no hosts and allows nothing.
    pub(super) fn load() -> Self {
        let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".config")
        });
        Self::at(base.join("sudo-proxy/hosts.json"))
    }

    fn at(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self { path, all: serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Whether a person may be offered a grant for unprivileged commands.
    pub(super) fn unattended_eligible(&self) -> bool {
        let policy = self.all.get("policy").and_then(|policy| policy.get("unattended_eligible"));
        policy.and_then(Value::as_bool).unwrap_or(false)
    }

    /// The user's number on that host, if it is known and is one.
    pub(super) fn uid(&self, host: &str) -> Option<String> {
        let known = self.all.get("hosts")?.get(host)?.get("uid")?.as_str()?;
        is_uid(known).then(|| known.to_owned())
    }

    /// Remembers when a host was last reached, and as whom.
    pub(super) fn connected(&mut self, host: &str, uid: &str, now: &str) -> io::Result<()> {
        let hosts = self.all.entry("hosts").or_insert_with(|| json!({}));
        let Some(hosts) = hosts.as_object_mut() else { return Err(io::ErrorKind::InvalidData.into()) };
        let entry = hosts.entry(host.to_owned()).or_insert_with(|| json!({"description": "", "os": ""}));
        let Some(entry) = entry.as_object_mut() else { return Err(io::ErrorKind::InvalidData.into()) };
        entry.insert("last_connected".to_owned(), now.into());
        entry.insert("uid".to_owned(), uid.into());
        save(&self.path, &serde_json::to_string_pretty(&self.all)?)
    }
}

/// Ten digits hold every uid; the text becomes part of a path.
pub(super) fn is_uid(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Readers see the old file or the new one, never a part.
fn save(path: &Path, text: &str) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let fresh = folder.join(format!(".hosts.json.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_allowed_unless_the_file_says_so_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts.json");
        let eligible = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Hosts::at(path.clone()).unattended_eligible()
        };
        assert!(!Hosts::at(dir.path().join("none")).unattended_eligible());
        for no in ["", "[]", "{}", r#"{"policy":{"unattended_eligible":"true"}}"#, r#"{"policy":{"unattended":true}}"#]
        {
            assert!(!eligible(no), "{no}");
        }
        assert!(eligible(r#"{"policy":{"unattended_eligible":true}}"#));
    }

    #[test]
    fn a_host_is_remembered_and_what_others_wrote_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/hosts.json");
        Hosts::at(path.clone()).connected("box", "1000", "2026-01-01T00:00:00Z").unwrap();
        let text = std::fs::read_to_string(&path).unwrap().replacen('{', r#"{"later":[1],"#, 1);
        std::fs::write(&path, text).unwrap();
        let mut hosts = Hosts::at(path.clone());
        assert_eq!((hosts.uid("box"), hosts.uid("other")), (Some("1000".into()), None));
        hosts.connected("other", "7", "2026-01-01T00:00:00Z").unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("later") && kept.contains("box"), "{kept}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_uid_is_digits() {
        assert!(is_uid("0") && is_uid("4294967295"));
        for bad in ["", "1/../2", "-1", "12345678901", "1000 "] {
            assert!(!is_uid(bad), "{bad}");
        }
    }
}
