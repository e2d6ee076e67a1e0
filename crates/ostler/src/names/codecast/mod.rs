//! `codecast-daemon`: the daemon that chat head nodes start over ssh, its files and its few words.

mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The newest head node that is known to work; it restarts a daemon of another version at every start.
const VERSION: &str = "0.3.2";

/// Behaves as `codecast-daemon` with these arguments, of which it knows one. Clients pass others that mean nothing to it.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    if args.iter().any(|arg| arg == "--version" || arg == "-V") {
        println!("codecast-daemon {}", version());
        return ExitCode::SUCCESS;
    }
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from) else {
        return fail("HOME is not set: nobody would find the port in ~/.codecast/daemon.port");
    };
    serve::run(&home)
}

/// The version to report to clients.
pub(crate) fn version() -> String {
    std::env::var("OSTLER_CODECAST_VERSION").unwrap_or_else(|_| VERSION.to_owned())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("codecast-daemon: {message}");
    ExitCode::FAILURE
}
