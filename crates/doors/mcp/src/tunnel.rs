//! The SSH tunnel to another host's daemon: its socket here, the daemon's socket there, and ssh in between.
//!
//! ssh runs the daemon on its own terminal, so the person who decides sits at this end; the daemon that executes is there.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::hosts::{HostsError, Registry};
use crate::target::{HostNameError, Places, Target, check_host};

#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error(transparent)]
    Host(#[from] HostNameError),
    #[error("invalid --login: {0}")]
    Login(HostNameError),
    #[error("ssh id -u: {0}")]
    Ssh(io::Error),
    #[error("failed to get remote UID via ssh {0} id -u")]
    NoUid(String),
    #[error("ssh {host} id -u returned non-numeric uid: {said:?}")]
    StrangeUid { host: String, said: String },
    #[error("{}: not a socket, left alone", .0.display())]
    NotASocket(PathBuf),
    #[error("failed to exec ssh: {0}")]
    Exec(io::Error),
}

/// Everything that ssh needs to know.
#[derive(Debug)]
pub struct Tunnel {
    host: String,
    near: PathBuf,
    uid: String,
    forward_agent: bool,
    /// Why the list of hosts does not know of it. The tunnel works without.
    pub unnoted: Option<HostsError>,
}

impl Tunnel {
    /// Finds out who we are at `host` (asking it once, then from the list of hosts) and clears the near end of a tunnel
    /// that is no more. May ask for a password on the terminal.
    pub fn prepare(
        host: &str,
        login: Option<&str>,
        forward_agent: bool,
        places: &Places,
        registry: &Registry,
    ) -> Result<Self, TunnelError> {
        check_host(host)?;
        let login = login.filter(|login| !login.is_empty());
        login.map_or(Ok(()), check_host).map_err(TunnelError::Login)?;
        let host = login.map_or_else(|| host.to_owned(), |login| format!("{login}@{host}"));
        let uid = match registry.load_or_empty().hosts.get(&host).map(|known| known.uid.clone()) {
            Some(uid) if is_uid(&uid) => uid,
            _ => ask_uid(&host)?,
        };
        let near = places.socket(&Target::Remote(host.clone()));
        clear(&near)?;
        let noted = registry.change(|hosts| {
            hosts.touch(&host, "");
            hosts.host(&host).uid.clone_from(&uid);
        });
        Ok(Self { host, near, uid, forward_agent, unnoted: noted.err() })
    }

    /// ssh's arguments: the tunnel lives as long as the daemon at its far end, and a dead connection is noticed.
    pub fn ssh_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["-t".into()];
        // ERROR: each connection that comes before the far socket exists would be a line on the approval terminal.
        for option in ["ServerAliveInterval=15", "ServerAliveCountMax=3", "ExitOnForwardFailure=yes", "LogLevel=ERROR"]
        {
            args.extend(["-o".into(), option.into()]);
        }
        let mut ends = self.near.clone().into_os_string();
        ends.push(format!(":/run/user/{}/sudo-proxy.sock", self.uid));
        args.extend(["-L".into(), ends]);
        if self.forward_agent {
            args.push("-A".into());
        }
        args.extend([self.host.as_str().into(), "sudo-proxy".into()]);
        args
    }

    /// Becomes ssh; returns only when that fails.
    pub fn exec(&self) -> TunnelError {
        TunnelError::Exec(Command::new("ssh").args(self.ssh_args()).exec())
    }
}

/// A uid becomes part of a path and of ssh's arguments, so nothing but a number will do, wherever it came from.
fn is_uid(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u32>().is_ok()
}

fn ask_uid(host: &str) -> Result<String, TunnelError> {
    let output = Command::new("ssh")
        .args([host, "id", "-u"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(TunnelError::Ssh)?;
    if !output.status.success() {
        return Err(TunnelError::NoUid(host.to_owned()));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let uid = said.trim();
    if is_uid(uid) {
        Ok(uid.to_owned())
    } else {
        Err(TunnelError::StrangeUid { host: host.to_owned(), said: uid.chars().take(80).collect() })
    }
}

/// Removes a socket that a dead tunnel left; anything else there is not ours to remove. A living one stays, and ssh
/// refuses to take its place.
fn clear(near: &Path) -> Result<(), TunnelError> {
    match std::fs::symlink_metadata(near) {
        Err(_) => Ok(()),
        Ok(found) if found.file_type().is_socket() => {
            if UnixStream::connect(near).is_err() {
                // If it cannot be removed, ssh says why better than we could.
                let _ = std::fs::remove_file(near);
            }
            Ok(())
        }
        Ok(_) => Err(TunnelError::NotASocket(near.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_are_uids() {
        for good in ["0", "1000", "4294967295"] {
            assert!(is_uid(good), "{good}");
        }
        for bad in ["", "0\nx", "0/../etc", "1000 ", "+1", "abc", "4294967296", "12345678901"] {
            assert!(!is_uid(bad), "{bad}");
        }
    }

    #[test]
    fn ssh_is_called_with_both_ends_and_the_daemon_as_its_command() {
        let (host, near, uid) = ("a@b".into(), "/run/user/7/s.sock".into(), "8".into());
        let mut tunnel = Tunnel { host, near, uid, forward_agent: false, unnoted: None };
        let words = |tunnel: &Tunnel| {
            tunnel.ssh_args().iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let options = "-t -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -o ExitOnForwardFailure=yes -o LogLevel=ERROR \
                       -L /run/user/7/s.sock:/run/user/8/sudo-proxy.sock";
        assert_eq!(words(&tunnel), format!("{options} a@b sudo-proxy"));
        tunnel.forward_agent = true;
        assert_eq!(words(&tunnel), format!("{options} -A a@b sudo-proxy"));
    }

    #[test]
    fn a_known_uid_is_not_asked_for_again_and_only_a_dead_socket_goes() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path().join("hosts.json"));
        registry.change(|hosts| hosts.host("me@nowhere.invalid").uid.push_str("77")).unwrap();
        let places = Places::for_tests(folder.path());
        let near = places.socket(&Target::Remote("me@nowhere.invalid".into()));
        let prepare = || Tunnel::prepare("nowhere.invalid", Some("me"), false, &places, &registry);
        let living = std::os::unix::net::UnixListener::bind(&near).unwrap();
        assert_eq!((prepare().unwrap().uid.as_str(), near.exists()), ("77", true));
        drop(living);
        assert!(prepare().unwrap().unnoted.is_none());
        assert!(!near.exists());
        std::fs::write(&near, "precious").unwrap();
        let refused = prepare();
        assert!(matches!(refused, Err(TunnelError::NotASocket(_))), "{refused:?}");
        assert!(near.exists());
    }

    #[test]
    fn a_list_of_hosts_that_cannot_be_written_is_told_and_does_not_stop_a_tunnel() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path().join("hosts.json"));
        std::fs::write(folder.path().join("hosts.json"), r#"{"hosts":{"h":{"uid":"7"}}}"#).unwrap();
        // A folder in place of the lock: nothing can be noted.
        std::fs::create_dir(folder.path().join(".hosts.lock")).unwrap();
        let tunnel = Tunnel::prepare("h", None, false, &Places::for_tests(folder.path()), &registry).unwrap();
        assert!(tunnel.unnoted.is_some());
    }

    #[test]
    fn a_host_or_login_that_could_be_an_option_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (places, registry) = (Places::for_tests(folder.path()), Registry::at(folder.path().join("hosts.json")));
        let prepare = |host, login| Tunnel::prepare(host, login, false, &places, &registry).unwrap_err().to_string();
        assert_eq!(prepare("-x", None), "host must not start with '-'");
        assert_eq!(prepare("box", Some("-l")), "invalid --login: host must not start with '-'");
    }
}
