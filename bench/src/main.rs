//! Shows what ostler promises: `bench crash` kills its daemon at random moments and counts what is missing;
//! without a word it prints one table of speeds, each beside its raw limit measured in the same run.
//! Everything goes through the product's own doors; nothing here reads the product's files.

mod approvals;
mod args;
mod child;
mod code;
mod conn;
mod crash;
mod flood;
mod fuzz;
mod instance;
mod lines;
mod measure;
mod procfs;
mod raw;
mod rng;
mod rows;
mod running;
mod sessions;
mod supervise;
mod table;
mod verifier;
mod wire;

use std::process::ExitCode;

use anyhow::{Result, bail};
use args::Args;

const HELP: &str = "\
usage: bench [--quick] [--pairs N] [--rows NAME,..] [--bin PATH]   the table
       bench --beside PATH [--quick] [--pairs N] [--rows spawn,stream] [--bin PATH]   two programs by turns
       bench crash --kills N --seed S [--bin PATH] [--keep-dir]    the crash battery
       bench approvals --runs N --kills K --seed S [--bin PATH]    decisions, racing and killed
       bench sessions --kills K --seed S [--bin PATH]              conversations, killed
       bench fuzz --target lines|journal|transcripts|porcelain|ignores|daemon [--seconds N] [--seed S] [--bin PATH]
--bin is the ostler program to measure; without it the one beside this program.";

fn main() -> ExitCode {
    // The raw limit of adopting starts a keeper, which is this program under another name.
    if std::env::args_os().next().is_some_and(|name| name == ostler_keeper::NAME) {
        return ostler_keeper::run();
    }
    match run(Args::new(std::env::args().skip(1))) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(mut args: Args) -> Result<u8> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(0);
    }
    let word = args.word();
    if !supervise::is_worker() && matches!(word.as_deref(), None | Some("approvals" | "crash" | "fuzz" | "sessions")) {
        return supervise::run(std::env::args_os().skip(1));
    }
    match word.as_deref() {
        Some("agent") => rows::agent(args),
        Some("approvals") => approvals::run(args),
        Some("approver") => approvals::approve(args),
        Some("crash") => crash::run(args),
        Some("child") => child::run(args),
        Some("fuzz") => fuzz::run(args),
        Some("flood") => flood::run(args),
        Some("offer") => rows::offer(args),
        Some("raw") => raw::run(args),
        Some("sessions") => sessions::run(args),
        Some("stamp") => rows::stamp(args),
        Some(other) => bail!("no such command: {other}\n{HELP}"),
        None => rows::run(args),
    }
}
