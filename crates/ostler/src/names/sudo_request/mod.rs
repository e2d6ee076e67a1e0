//! `sudo-request`: asks a sudo-proxy daemon for one command and ends as that command did.
//!
//! The command's own output is passed on byte for byte; what the daemon says about it is made safe for a terminal.

mod exchange;
mod flags;
mod print;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use flags::{Flags, Parsed};
use ostler_door_mcp::{Places, Request, Response, Status, VERSION};

use crate::output::visible;
use crate::paths::Paths;

/// What requests say of where they come from.
fn own_host() -> String {
    std::fs::read_to_string("/etc/hostname").map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// Behaves as `sudo-request` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let flags = match Flags::parse(args) {
        Ok(Parsed::Run(flags)) => flags,
        Ok(Parsed::Version) => {
            println!("sudo-request {VERSION}");
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Help) => {
            eprint!("{}", flags::HELP);
            return ExitCode::SUCCESS;
        }
        Err(message) => return fail(&format!("{}\n{}", visible(&message), flags::USAGE)),
    };
    let print = flags.print;
    match ask(flags) {
        Err(message) => fail(&message),
        Ok(answer) if print => told(print::result(&mut io::stdout().lock(), &answer), 0),
        Ok(answer) => end_like(&answer),
    }
}

fn ask(flags: Flags) -> Result<Response, String> {
    let usual = flags.socket.is_none();
    let socket = flags.socket.unwrap_or_else(|| Places::from_env().local_socket().to_owned());
    let request = Request::exec(&flags.session, flags.pipeline).map_err(|error| error.to_string())?;
    let request = Request {
        host: own_host(),
        reason: flags.reason,
        privileged: flags.privileged,
        forward_agent: flags.forward_agent,
        ..request
    };
    let answered = exchange::ask(&socket, &request, exchange::patience());
    // Scripts know the first line; a person is helped by the second.
    answered.map_err(|message| match usual && (!socket.exists() || crate::instances::is_stale(&socket)) {
        true => format!("{message}{}", elsewhere()),
        false => message,
    })
}

/// Where ostler runs with this door open, in a line of its own.
fn elsewhere() -> String {
    let door = Paths::from_env().ok().and_then(|paths| crate::instances::sudo_proxy_door(&paths));
    door.map_or(String::new(), |socket| {
        let socket = visible(&socket.to_string_lossy());
        format!("\n  ostler listens at {socket}: give it with --socket, or run `ostler restart --drop-in`")
    })
}

/// Passes on what the command wrote, and ends with its code.
fn end_like(answer: &Response) -> ExitCode {
    let refused = match answer.status {
        Status::Ok => return pass_on(answer),
        Status::Denied => "Request denied.".to_owned(),
        Status::Timeout => "Request timed out.".to_owned(),
        Status::Error => format!("Error: {}", visible(answer.message())),
    };
    eprintln!("{refused}");
    ExitCode::FAILURE
}

fn pass_on(answer: &Response) -> ExitCode {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(&answer.stdout).and_then(|()| stdout.flush());
    // If nobody reads stderr, nobody misses it.
    for stage in &answer.stages {
        let _ = io::stderr().write_all(&stage.stderr);
    }
    if answer.stdout_truncated {
        eprintln!("(stdout truncated at 16 MiB)");
    }
    if answer.stages.iter().any(|stage| stage.stderr_truncated) {
        eprintln!("(stderr truncated at 16 MiB)");
    }
    let code = answer.exit_code();
    match code {
        0 => {}
        -1..=255 => eprintln!("(exit code: {code})"),
        _ => eprintln!("(exit code: {code}, which no command can have; this one is 255)"),
    }
    told(written, code)
}

/// The command's code as a process can have one, unless its output got lost on the way: -1, a death by signal, is 255, and so
/// is what no command can have.
fn told(written: io::Result<()>, code: i32) -> ExitCode {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => fail(&format!("write failed: {error}")),
        _ => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}
