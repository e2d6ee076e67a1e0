//! The programs that ostler can stand in for.

mod claustrum;
mod codecast;
mod sudo_proxy;
pub(crate) mod sudo_proxy_mcp;
mod sudo_request;
mod zeroclaw;

pub(crate) use claustrum::version as claustrum_version;
pub(crate) use codecast::version as codecast_version;
pub(crate) use sudo_proxy::version as sudo_proxy_version;
pub(crate) use zeroclaw::version as zeroclaw_version;

use std::ffi::OsString;
use std::process::ExitCode;

use ostler_agents::echo::{self, Program};

/// Every name that a link may carry.
pub(crate) const NAMES: &[&str] =
    &["claustrum", "codecast-daemon", "sudo-proxy", "sudo-proxy-mcp", "sudo-request", "zeroclaw"];

pub(crate) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The agent that is built in: says back what it is told.
pub(crate) fn echo(args: &[OsString]) -> ExitCode {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let played = Program::from_args(&args).and_then(|program| {
        echo::run(&program, std::io::stdin(), std::io::stdout()).map_err(|error| error.to_string())
    });
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ostler {}: {error}", echo::VERB);
            ExitCode::FAILURE
        }
    }
}

/// Behaves exactly like the program of that name.
pub(crate) fn run(name: &str, args: Vec<OsString>) -> ExitCode {
    match name {
        "claustrum" => claustrum::run(name, &args),
        "codecast-daemon" => codecast::run(&args),
        "sudo-proxy" => sudo_proxy::run(&args),
        "sudo-proxy-mcp" => sudo_proxy_mcp::run(&args),
        "sudo-request" => sudo_request::run(&args),
        "zeroclaw" => zeroclaw::run(&args),
        other => {
            eprintln!("ostler: cannot stand in for {other:?}; known names: {}", NAMES.join(", "));
            ExitCode::from(2)
        }
    }
}
