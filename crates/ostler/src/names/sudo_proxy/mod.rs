//! `sudo-proxy`: the foreground daemon whose terminal is where a person decides, its messages and exit codes.

mod desk;
mod flags;
mod front;
mod joined;
mod prompt;
mod remote;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use ostler_door_mcp::runtime_dir;

use flags::{Flags, Instead, USAGE};

/// The newest version that clients are known to work with.
const VERSION: &str = "1.2.0";

/// Behaves as `sudo-proxy` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let flags = match Flags::parse(args) {
        Ok(flags) => flags,
        Err(Instead::Help) => {
            eprint!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(Instead::Version) => {
            println!("sudo-proxy {}", version());
            return ExitCode::SUCCESS;
        }
        Err(Instead::Unknown(arg)) => {
            eprintln!("unknown option: {arg}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(host) = &flags.host {
        return remote::run(&flags, host);
    }
    if flags.forward_agent {
        return fail("--forward-agent requires --host (no SSH session in local mode)");
    }
    if flags.pkexec {
        return fail("--pkexec is not supported: its dialog cannot show the exact command that would run");
    }
    let socket = flags.socket.clone().unwrap_or_else(|| runtime_dir().join("sudo-proxy.sock"));
    serve::run(&flags, &socket)
}

/// The version to report to clients.
pub(crate) fn version() -> String {
    std::env::var("OSTLER_SUDO_PROXY_VERSION").unwrap_or_else(|_| VERSION.to_owned())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}
