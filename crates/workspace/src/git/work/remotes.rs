//! Remotes: where commits come from and go to. Addresses are shown without the secrets that people put into them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{GitError, WorkTree};

/// A remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// What it is called.
    pub name: OsString,
    /// Where it is, without a password.
    pub url: String,
    /// Where commits are sent, if that is elsewhere.
    pub push_url: Option<String>,
}

impl WorkTree {
    /// The remotes of the repository, by name.
    pub fn remotes(&self) -> Result<Vec<Remote>, GitError> {
        let args = ["config", "-z", "--get-regexp", r"^remote\..*\.(url|pushurl)$"];
        let listed = self.asks(&args)?.unwrap_or_default();
        let mut remotes: BTreeMap<&[u8], (Option<String>, Option<String>)> = BTreeMap::new();
        for setting in listed.split(|byte| *byte == 0) {
            let Some(at) = setting.iter().position(|byte| *byte == b'\n') else { continue };
            let (key, value) = setting.split_at(at);
            let url = shown(value.get(1..).unwrap_or_default());
            let Some(key) = key.strip_prefix(b"remote.") else { continue };
            if let Some(name) = key.strip_suffix(b".url") {
                remotes.entry(name).or_default().0.get_or_insert(url);
            } else if let Some(name) = key.strip_suffix(b".pushurl") {
                remotes.entry(name).or_default().1.get_or_insert(url);
            }
        }
        let remote = |(name, (url, push_url)): (&[u8], (Option<String>, Option<String>))| Remote {
            name: OsStr::from_bytes(name).to_owned(),
            url: url.unwrap_or_default(),
            push_url,
        };
        Ok(remotes.into_iter().map(remote).collect())
    }

    /// Adds a remote; nothing is fetched.
    pub fn add_remote(&self, name: &OsStr, url: &OsStr) -> Result<(), GitError> {
        // Where commits come from decides what runs to fetch them: a helper by name is not for others to choose.
        let odd =
            url.is_empty() || url.as_bytes().starts_with(b"-") || url.as_bytes().windows(2).any(|two| two == b"::");
        if odd || url.as_bytes().contains(&0) {
            return Err(GitError::name("remote's address", url));
        }
        if name.as_bytes().starts_with(b"-") || name.as_bytes().contains(&0) {
            return Err(GitError::name("remote", name));
        }
        let args: Vec<&OsStr> = ["remote", "add", "--"].map(OsStr::new).into_iter().chain([name, url]).collect();
        self.act("remote", &args, Vec::new()).map(drop)
    }

    /// Removes a remote, and what is known of its branches.
    pub fn remove_remote(&self, name: &OsStr) -> Result<(), GitError> {
        let name = self.remote(name)?;
        let args: Vec<&OsStr> =
            ["remote", "remove", "--"].map(OsStr::new).into_iter().chain([name.as_os_str()]).collect();
        self.act("remote", &args, Vec::new()).map(drop)
    }
}

/// An address whose password is left out; of a token that stands alone, too.
fn shown(url: &[u8]) -> String {
    let url = String::from_utf8_lossy(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.into_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let Some((user, host)) = place.rsplit_once('@') else { return url.into_owned() };
    match (scheme, user.split_once(':')) {
        (_, Some((user, _))) => format!("{scheme}://{user}:***@{host}{path}"),
        ("http" | "https", None) => format!("{scheme}://***@{host}{path}"),
        _ => url.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn an_address_is_shown_without_its_secret() {
        for (url, want) in [
            ("https://me:pw@host/a/b", "https://me:***@host/a/b"),
            ("https://token@host/a", "https://***@host/a"),
            ("https://a:b@c@host/x", "https://a:***@host/x"),
            ("ssh://git@host/a", "ssh://git@host/a"),
            ("git@host:a/b", "git@host:a/b"),
            ("/srv/a@b:c", "/srv/a@b:c"),
            ("https://host/a@b", "https://host/a@b"),
        ] {
            assert_eq!(shown(url.as_bytes()), want);
        }
    }
}
