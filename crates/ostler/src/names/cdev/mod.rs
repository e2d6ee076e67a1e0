//! `cdev`: the server for phones and browsers of one repository, and the few words around it.

mod config;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as ClapArgs, Parser, Subcommand};

use config::Values;

use super::parsed;
use crate::output::CommandError;
use crate::paths::Paths;
use crate::verbs::{self, Context};

/// What clients are told; none is known to refuse another one.
const VERSION: &str = "2.2.0";

/// A server for phones and browsers that watch and guide coding agents
#[derive(Debug, Parser)]
#[command(name = "cdev", disable_version_flag = true)]
struct Args {
    /// Print the version
    #[arg(short = 'V', long, global = true)]
    version: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a repository until told to stop
    Start(Start),
    /// Let a phone in, by a code or a square to scan; prints a link for a browser that lets others in
    Pair,
    /// Look for what keeps it from working
    Doctor,
    /// Devices that are paired
    #[command(subcommand)]
    Auth(Auth),
    /// Show every setting, its value and where that comes from
    Config,
}

#[derive(Debug, Subcommand)]
enum Auth {
    /// Put out every device; each has to be paired again
    Reset,
}

const START: &str = "\
Every setting of `cdev config` can also be given in the environment.

Examples:
  cdev start --repo ~/src/project
  cdev start --port 8766 --external-url https://box.example";

#[derive(Debug, ClapArgs)]
#[command(after_help = START)]
struct Start {
    /// The repository [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    repo: Option<PathBuf>,

    /// The port
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// The address to listen at
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Where a tunnel or proxy in front of the port is found
    #[arg(long, value_name = "URL")]
    external_url: Option<String>,

    /// Print no page address
    #[arg(long)]
    headless: bool,

    /// Let other machines use the port without encryption: everybody on the network can read along
    #[arg(long)]
    insecure_lan: bool,

    /// Show tokens to whoever reaches the port, and let every device in unasked
    #[arg(long)]
    insecure_pairing: bool,
}

/// Behaves as `cdev` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let args: Args = match parsed("cdev", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.version {
        println!("cdev {}", version());
        return ExitCode::SUCCESS;
    }
    let values = match Values::read(|name| std::env::var(name).ok()) {
        Ok(values) => values,
        Err(message) => return fail(&message),
    };
    match args.command {
        Some(Command::Start(start)) => serve::run(start, values),
        Some(Command::Pair) => pair(),
        Some(Command::Doctor) => ostler(&["doctor"]),
        Some(Command::Auth(Auth::Reset)) => ostler(&["devices", "revoke", "--all"]),
        Some(Command::Config) => values.print(),
        None => fail("say what to do: `cdev start`; see `cdev --help`"),
    }
}

/// What ostler has a verb for.
fn ostler(words: &[&str]) -> ExitCode {
    crate::cli::run(words.iter().map(OsString::from).collect())
}

fn pair() -> ExitCode {
    let paired = Paths::from_env().map_err(CommandError::from);
    match paired.and_then(|paths| verbs::pair_cdev(&Context::new(paths, None, false))) {
        Ok(code) => code,
        Err(error) => error.report(false),
    }
}

/// The version to report to clients.
pub(crate) fn version() -> String {
    std::env::var("OSTLER_CDEV_VERSION").unwrap_or_else(|_| VERSION.to_owned())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("cdev: {message}");
    ExitCode::FAILURE
}
