//! `zeroclaw daemon`: what TUIs connect to, and start when nobody answers.

mod endpoint;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use endpoint::Endpoint;

use super::parsed;

/// The newest client that is known to work; it refuses a daemon of another version.
const VERSION: &str = "0.8.7";

/// A daemon for coding agents behind a local socket
#[derive(Debug, Parser)]
#[command(name = "zeroclaw", disable_version_flag = true, after_help = AFTER)]
struct Args {
    /// Print the version
    #[arg(short = 'V', long, global = true)]
    version: bool,

    /// Where the configuration is; the socket is data/daemon.sock in there
    #[arg(long, global = true, value_name = "DIR")]
    config_dir: Option<PathBuf>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients until told to stop
    Daemon {
        /// Leave a second after the last client has left
        #[arg(long)]
        ephemeral: bool,
    },
}

const AFTER: &str = "\
Environment:
  ZEROCLAW_SOCKET       the socket, wherever it is to be
  ZEROCLAW_CONFIG_DIR   as --config-dir (without either: ~/.zeroclaw)
  ZEROCLAW_DATA_DIR     the folder of daemon.sock, if no configuration is named
  OSTLER_ZEROCLAW_VERSION
                        the version to report: a client may refuse any but its own";

/// Behaves as `zeroclaw` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let args: Args = match parsed("zeroclaw", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.version {
        println!("zeroclaw {}", version());
        return ExitCode::SUCCESS;
    }
    let Some(Command::Daemon { ephemeral }) = args.command else {
        return fail("only `zeroclaw daemon` is stood in for; see `zeroclaw --help`");
    };
    match Endpoint::find(args.config_dir, |name| std::env::var_os(name)) {
        Ok(endpoint) => serve::run(&endpoint, ephemeral),
        Err(message) => fail(&message),
    }
}

/// The version to report to clients.
pub(crate) fn version() -> String {
    std::env::var("OSTLER_ZEROCLAW_VERSION").unwrap_or_else(|_| VERSION.to_owned())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("zeroclaw: {message}");
    ExitCode::FAILURE
}
