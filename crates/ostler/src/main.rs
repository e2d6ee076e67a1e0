//! One binary, several names: the command line, the programs it can stand in for, and the keeper.
//!
//! `main` only decides which of them was called; what each does lives in its own module.

mod cli;
mod config;
mod daemon;
mod exclusive;
mod instances;
mod names;
mod output;
mod paths;
#[cfg(test)]
mod reference;
mod request;
mod roots;
mod transcript;
mod usage;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use ostler_keeper::shield;

#[cfg(not(target_os = "linux"))]
compile_error!("ostler runs on Linux only: it needs splice, subreapers and pidfds");

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let called_as = args.next().unwrap_or_default();
    if called_as == "ostler-keeper" {
        shield::raise();
        return ostler_keeper::run();
    }
    let rest: Vec<OsString> = args.collect();
    let verb = rest.first().map(|verb| verb.to_string_lossy().into_owned());
    if gives_nothing_away(verb.as_deref()) {
        shield::raise();
    }
    show_as(verb.as_deref());
    match rest.as_slice() {
        [verb, port, daemon, owner] if verb == daemon::SIGN_VERB => return daemon::show_port(port, daemon, owner),
        [verb, spec, sha256] if verb == "__stages" => {
            return ostler_stages::run(Path::new(spec), &sha256.to_string_lossy());
        }
        [verb, spec, sha256, word, daemon @ ..] if verb == "__stages" => {
            let (sha256, word) = (sha256.to_string_lossy(), word.to_string_lossy());
            let daemon = daemon.first().and_then(|pid| pid.to_string_lossy().parse().ok());
            return ostler_stages::run_when_told(Path::new(spec), &sha256, &word, daemon);
        }
        _ => {}
    }
    if rest.first().is_some_and(|verb| verb == ostler_agents::echo::VERB) {
        return names::echo(rest.get(1..).unwrap_or_default());
    }
    exclusive::clear_left_over();
    let base = Path::new(&called_as).file_name().and_then(|name| name.to_str());
    let code = match base.filter(|name| names::is_known(name)) {
        Some(name) => names::run(name, rest),
        None => cli::run(rest),
    };
    exclusive::give_back();
    code
}

/// Whether this process holds what no agent may take from it: a daemon's sockets, a client's connection, an approved command
/// before it runs. A client that is hosted may decide nothing, so it has nothing to hide; and what is there to be seen, or is an
/// agent, hides nothing either.
fn gives_nothing_away(verb: Option<&str>) -> bool {
    let hosted = || std::env::var_os(ostler_keeper::COOKIE).is_some();
    match verb {
        Some(ostler_engine::RUNNER_VERB) => true,
        Some(daemon::SIGN_VERB | ostler_agents::echo::VERB) => false,
        _ => !hosted(),
    }
}

/// What ps(1) calls this process. Started as `/proc/self/exe` it would be `exe`, which tells nobody anything; started by a
/// path, it is called what that file is called, and a client may look for it by that.
fn show_as(verb: Option<&str>) {
    let name = match verb {
        Some(daemon::SIGN_VERB) => c"ostler-port",
        Some(ostler_engine::RUNNER_VERB) => c"ostler-run",
        Some(ostler_agents::echo::VERB) => c"ostler-echo",
        _ => c"ostler",
    };
    if std::fs::read_to_string("/proc/self/comm").is_ok_and(|comm| comm.trim() == "exe") {
        // A nicety: without it everything works as well.
        let _ = rustix::thread::set_name(name);
    }
}
