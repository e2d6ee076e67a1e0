//! The programs that ostler can stand in for.

mod cdev;
mod claustrum;
mod codecast;
mod sudo_proxy;
pub(crate) mod sudo_proxy_mcp;
mod sudo_request;
mod zeroclaw;

pub(crate) use cdev::version as cdev_version;
pub(crate) use claustrum::version as claustrum_version;
pub(crate) use codecast::version as codecast_version;
pub(crate) use sudo_proxy::version as sudo_proxy_version;
pub(crate) use zeroclaw::version as zeroclaw_version;

use std::ffi::OsString;
use std::process::ExitCode;

use ostler_agents::echo::{self, Program};

/// A name that a link may carry, and the program that it stands for.
type StandIn = (&'static str, fn(&[OsString]) -> ExitCode);

const STAND_INS: &[StandIn] = &[
    ("cdev", cdev::run),
    ("claustrum", claustrum::run),
    ("codecast-daemon", codecast::run),
    ("sudo-proxy", sudo_proxy::run),
    ("sudo-proxy-mcp", sudo_proxy_mcp::run),
    ("sudo-request", sudo_request::run),
    ("zeroclaw", zeroclaw::run),
];

/// The arguments of a program of this name, as they are meant. What was wrong with them, or asked for, was said.
fn parsed<A: clap::Parser>(name: &str, args: &[OsString]) -> Result<A, ExitCode> {
    let name = OsString::from(name);
    A::try_parse_from(std::iter::once(&name).chain(args)).map_err(|error| {
        // Whoever reads it may have left.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Every name.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    STAND_INS.iter().map(|(name, _)| *name)
}

pub(crate) fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
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
    match STAND_INS.iter().find(|(known, _)| *known == name) {
        Some((_, run)) => run(&args),
        None => {
            let known: Vec<_> = names().collect();
            eprintln!("ostler: cannot stand in for {name:?}; known names: {}", known.join(", "));
            ExitCode::from(2)
        }
    }
}
