//! `--host`: a `sudo-proxy` on another machine, seen and answered in this terminal, its socket forwarded to this one. The
//! program becomes ssh.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::fail;
use super::flags::Flags;
use super::hosts::{Hosts, is_uid};

/// Becomes the tunnel; comes back only with a failure.
pub(super) fn run(flags: &Flags, host: &str) -> ExitCode {
    if let Err(why) = check_host(host) {
        return fail(&why);
    }
    let target = match flags.login.as_deref() {
        Some(login) if !login.is_empty() => match check_host(login) {
            Ok(()) => format!("{login}@{host}"),
            Err(why) => return fail(&format!("invalid --login: {why}")),
        },
        _ => host.to_owned(),
    };
    let mut hosts = Hosts::load();
    let uid = match hosts.uid(&target).map_or_else(|| ask_uid(&target), Ok) {
        Ok(uid) => uid,
        Err(why) => return fail(&why),
    };
    let local = super::runtime_dir().join(format!("sudo-proxy-{target}.sock"));
    // Only a tunnel that is gone is in the way; ssh itself refuses a living one.
    if ostler_door_rpc::connect(&local).is_err() {
        let _ = std::fs::remove_file(&local);
    }
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if let Err(error) = hosts.connected(&target, &uid, &now) {
        eprintln!("warning: hosts.json not written: {error}");
    }
    let args = ssh_args(&local, &uid, &target, flags.forward_agent);
    if flags.verbose {
        eprintln!("+ ssh {}", args.join(" "));
    }
    let error = Command::new("ssh").args(&args).exec();
    fail(&format!("failed to exec ssh: {error}"))
}

/// The words after `ssh`.
fn ssh_args(local: &Path, uid: &str, target: &str, forward_agent: bool) -> Vec<String> {
    let tunnel = format!("{}:/run/user/{uid}/sudo-proxy.sock", local.display());
    let mut args = vec!["-t"];
    for option in ["ServerAliveInterval=15", "ServerAliveCountMax=3", "ExitOnForwardFailure=yes", "LogLevel=ERROR"] {
        args.extend(["-o", option]);
    }
    args.extend(["-L", &tunnel]);
    if forward_agent {
        args.push("-A");
    }
    args.extend([target, "sudo-proxy"]);
    args.into_iter().map(str::to_owned).collect()
}

/// Asks the other machine; its answer becomes part of a path, so only a number will do.
fn ask_uid(target: &str) -> Result<String, String> {
    let output =
        Command::new("ssh").args([target, "id", "-u"]).stdin(Stdio::inherit()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("ssh id -u: {error}"))?;
    if !output.status.success() {
        return Err(format!("failed to get remote UID via ssh {target} id -u"));
    }
    let uid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match is_uid(&uid) {
        true => Ok(uid),
        false => Err(format!("ssh {target} id -u returned non-numeric uid: {uid:?}")),
    }
}

/// Names that can be neither an option of ssh nor a path.
fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("host must not be empty".into());
    }
    if host.starts_with('-') {
        return Err("host must not start with '-'".into());
    }
    match host.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_' | '@' | ':')) {
        Some(c) => Err(format!("host contains forbidden character: {c:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_and_nothing_else() {
        for good in ["localhost", "user@host.example.com", "10.0.0.1", "::1", "a_b-c"] {
            assert_eq!(check_host(good), Ok(()), "{good}");
        }
        for bad in ["", "-oProxyCommand=x", "a/b", "a b", "a;b", "a\nb", "é", "$(x)"] {
            assert!(check_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ssh_is_called_as_it_always_was() {
        let expected = "-t -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -o ExitOnForwardFailure=yes -o LogLevel=ERROR \
                        -L /run/user/0/sudo-proxy-u@h.sock:/run/user/1000/sudo-proxy.sock -A u@h sudo-proxy";
        let local = Path::new("/run/user/0/sudo-proxy-u@h.sock");
        assert_eq!(ssh_args(local, "1000", "u@h", true).join(" "), expected);
        assert!(!ssh_args(local, "1000", "u@h", false).contains(&"-A".to_owned()));
    }
}
