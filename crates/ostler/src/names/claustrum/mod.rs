//! `claustrum`: one program, five modes, its messages and exit codes.

mod bridge;
mod flags;
mod install;
mod log;
mod serve;
mod stop;
mod token;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flags::{Flags, Refused};

const NAME: &str = "claustrum";
/// What clients and scripts are told when nothing else is configured.
const VERSION: &str = "claustrum-dev";
const BUILT: &str = "unknown";

/// Behaves as `claustrum` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let flags = match Flags::parse(args) {
        Ok(flags) => flags,
        Err(Refused::Help) => {
            eprint!("{}", flags::usage(&called_as()));
            return ExitCode::SUCCESS;
        }
        Err(Refused::Wrong(message)) => {
            eprint!("{message}\n{}", flags::usage(&called_as()));
            return ExitCode::from(2);
        }
    };
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from) else {
        return fail("cannot resolve home directory: $HOME is not defined");
    };
    let socket = match flags.socket.as_str() {
        "" => home.join(".claude/remote/rpc.sock"),
        path => PathBuf::from(path),
    };
    match &flags {
        Flags { version: true, .. } => {
            println!("claustrum {} (built {BUILT})", version());
            ExitCode::SUCCESS
        }
        Flags { install: true, .. } => install::main(&flags),
        Flags { stop: true, .. } => stop::run(&socket),
        Flags { bridge: true, .. } => bridge::run(&socket),
        Flags { serve: true, .. } => serve::run(&flags, &socket, &home),
        _ => {
            complain("one of --version/--install/--serve/--bridge/--stop is required");
            ExitCode::from(2)
        }
    }
}

/// What usage calls this program: the word that it was started with, where that is a link of this name.
fn called_as() -> String {
    let word = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_link = word.file_name().is_some_and(|name| name == NAME);
    if is_link { word.display().to_string() } else { NAME.to_owned() }
}

/// The version to report: some clients refuse a daemon whose version differs from theirs.
pub(crate) fn version() -> String {
    std::env::var("OSTLER_CLAUSTRUM_VERSION").unwrap_or_else(|_| VERSION.to_owned())
}

fn complain(message: &str) {
    // Standard error may be a file on a disk that is full.
    let _ = writeln!(std::io::stderr(), "claustrum: {message}");
}

fn fail(message: &str) -> ExitCode {
    complain(message);
    ExitCode::FAILURE
}

/// `dial unix PATH: connect: REASON`, as scripts know it.
fn dial_error(socket: &Path, error: &std::io::Error) -> String {
    format!("dial unix {}: connect: {}", socket.display(), ostler_door_claustrum::errno_text(error))
}
