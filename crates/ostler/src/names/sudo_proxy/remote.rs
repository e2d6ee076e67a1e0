//! `--host`: a `sudo-proxy` on another machine, seen and answered in this terminal, its socket forwarded to this one. The
//! program becomes ssh.

use std::process::ExitCode;

use ostler_door_mcp::{Places, Registry, Tunnel};

use super::fail;
use super::flags::Flags;

/// Becomes the tunnel; comes back only with a failure.
pub(super) fn run(flags: &Flags, host: &str) -> ExitCode {
    let (places, registry) = (Places::from_env(), Registry::from_env());
    let tunnel = match Tunnel::prepare(host, flags.login.as_deref(), flags.forward_agent, &places, &registry) {
        Ok(tunnel) => tunnel,
        Err(error) => return fail(&error.to_string()),
    };
    if let Some(error) = &tunnel.unnoted {
        eprintln!("warning: {error}");
    }
    if flags.verbose {
        let words: Vec<String> = tunnel.ssh_args().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        eprintln!("+ ssh {}", words.join(" "));
    }
    fail(&tunnel.exec().to_string())
}
