//! Where sockets are, and which host a name means.
//!
//! A name for this very machine always means the local daemon: it must never become an SSH tunnel to oneself, which would
//! lead around what holds for local commands.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::sockopt;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    #[error("host must not be empty")]
    Empty,
    #[error("host must not start with '-'")]
    LeadingDash,
    #[error("host contains forbidden character: {0:?}")]
    Character(char),
    #[error("host is longer than {HOST_MAX} characters")]
    Long,
}

/// A DNS name has at most 253 characters; a user name in front of it needs a few more.
const HOST_MAX: usize = 320;

/// Letters, digits and `. - _ @ :` only: a host becomes part of a path and of ssh's arguments.
pub fn check_host(host: &str) -> Result<(), HostNameError> {
    if host.is_empty() {
        return Err(HostNameError::Empty);
    }
    if host.starts_with('-') {
        return Err(HostNameError::LeadingDash);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ':');
    match host.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(HostNameError::Character(c)),
        None if host.len() > HOST_MAX => Err(HostNameError::Long),
        None => Ok(()),
    }
}

/// A checked destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Local,
    Remote(String),
}

impl Target {
    /// How results and the list of hosts call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "localhost",
            Self::Remote(host) => host,
        }
    }

    /// What a request's `host` says: nothing for the local daemon.
    pub fn claimed(&self) -> &str {
        match self {
            Self::Local => "",
            Self::Remote(host) => host,
        }
    }
}

/// The folder of sockets, the local daemon's socket, and this machine's own names.
#[derive(Clone, Debug)]
pub struct Places {
    runtime: PathBuf,
    local: PathBuf,
    elsewhere: Option<Elsewhere>,
    own_names: Vec<String>,
}

/// Where the local daemon is while nothing is at its usual place; asked anew each time.
#[derive(Clone)]
struct Elsewhere(Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>);

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}

/// Where clients look for sockets. A variable that is set but empty means the current folder.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw())),
    }
}

/// The user at the other end of `stream`, if nobody of theirs should listen at `socket`: who does is our own user, root, or the
/// owner of its folder. Anybody else put a socket where we look.
pub fn impostor(stream: impl AsFd, socket: &Path) -> Option<u32> {
    let uid = sockopt::socket_peercred(stream).ok()?.uid;
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let owns = || std::fs::metadata(folder).is_ok_and(|folder| folder.uid() == uid.as_raw());
    (uid != rustix::process::geteuid() && !uid.is_root() && !owns()).then(|| uid.as_raw())
}

impl Places {
    /// `$XDG_RUNTIME_DIR`, else `/run/user/UID`; a variable that is set but empty means the current folder.
    pub fn from_env() -> Self {
        Self::new(runtime_dir(), own_names())
    }

    fn new(runtime: PathBuf, own_names: Vec<String>) -> Self {
        let local = runtime.join("sudo-proxy.sock");
        Self { runtime, local, elsewhere: None, own_names }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(runtime: &Path) -> Self {
        Self::new(runtime.to_owned(), vec!["box.local".into()])
    }

    /// The same, with the local daemon elsewhere.
    pub fn with_local_socket(mut self, socket: PathBuf) -> Self {
        self.local = socket;
        self
    }

    /// The same, with a second place to look while nothing is at the usual one.
    pub fn with_elsewhere(mut self, look: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        self.elsewhere = Some(Elsewhere(Arc::new(look)));
        self
    }

    pub fn local_socket(&self) -> &Path {
        &self.local
    }

    /// The socket to talk to: the daemon's own, or the near end of the tunnel.
    pub fn socket(&self, target: &Target) -> PathBuf {
        match target {
            Target::Local if self.local.exists() => self.local.clone(),
            Target::Local => self.elsewhere.as_ref().and_then(|place| place.0()).unwrap_or_else(|| self.local.clone()),
            Target::Remote(host) => self.runtime.join(format!("sudo-proxy-{host}.sock")),
        }
    }

    /// The destination that a caller's word means.
    pub fn target(&self, host: Option<&str>) -> Result<Target, HostNameError> {
        let Some(host) = host else { return Ok(Target::Local) };
        check_host(host)?;
        Ok(if self.is_this_machine(host) { Target::Local } else { Target::Remote(host.to_owned()) })
    }

    fn is_this_machine(&self, host: &str) -> bool {
        let name = host.rsplit('@').next().unwrap_or(host);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return address.is_loopback();
        }
        if let Ok(address) = name.parse::<Ipv6Addr>() {
            return address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback());
        }
        name == "localhost" || self.own_names.iter().any(|own| is_own_name(&name, own))
    }
}

/// The whole name, or its first label alone; `box.example.com` is not `box.local`.
fn is_own_name(name: &str, own: &str) -> bool {
    name == own || (!name.contains('.') && own.split('.').next() == Some(name))
}

/// What this machine calls itself: `/etc/hostname`, and what the kernel says now.
fn own_names() -> Vec<String> {
    let file = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let kernel = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names: Vec<String> =
        [file, kernel].iter().map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::for_tests(Path::new("/run/user/7"))
    }

    #[test]
    fn names_of_this_machine_mean_the_local_daemon() {
        for name in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0:0::1",
            "::ffff:127.0.0.1",
            "user@localhost",
            "a@b@127.0.0.1",
            "box",
            "Box.Local",
            "box.local.",
        ] {
            assert_eq!(places().target(Some(name)), Ok(Target::Local), "{name}");
        }
        assert_eq!(places().target(None), Ok(Target::Local));
    }

    #[test]
    fn names_that_only_look_like_it_are_remote() {
        for name in ["example.com", "127.0.0.1.evil.com", "box.example.com", "localhost.evil", "128.0.0.1", "::2"] {
            assert_eq!(places().target(Some(name)), Ok(Target::Remote(name.into())), "{name}");
        }
    }

    #[test]
    fn a_host_that_could_be_an_option_or_leave_the_folder_is_refused() {
        assert_eq!(check_host(""), Err(HostNameError::Empty));
        assert_eq!(check_host("-oProxyCommand=x"), Err(HostNameError::LeadingDash));
        for (host, bad) in [("a/../b", '/'), ("a b", ' '), ("a;b", ';'), ("[::1]", '['), ("é", 'é'), ("a\0", '\0')] {
            assert_eq!(check_host(host), Err(HostNameError::Character(bad)));
        }
        assert_eq!(check_host(&"a".repeat(HOST_MAX + 1)), Err(HostNameError::Long));
    }

    #[test]
    fn each_host_has_its_socket() {
        assert_eq!(places().socket(&Target::Local), Path::new("/run/user/7/sudo-proxy.sock"));
        assert_eq!(places().socket(&Target::Remote("a@b".into())), Path::new("/run/user/7/sudo-proxy-a@b.sock"));
        let moved = places().with_local_socket("/x/s".into()).with_elsewhere(|| None);
        assert_eq!(moved.socket(&Target::Local), Path::new("/x/s"));
    }

    #[test]
    fn a_second_place_counts_only_while_nothing_is_at_the_usual_one() {
        let dir = tempfile::tempdir().unwrap();
        let usual = dir.path().join("s");
        let places = places().with_local_socket(usual.clone()).with_elsewhere(|| Some("/else/s".into()));
        assert_eq!(places.socket(&Target::Local), Path::new("/else/s"));
        std::fs::write(&usual, "").unwrap();
        assert_eq!(places.socket(&Target::Local), usual);
    }
}
