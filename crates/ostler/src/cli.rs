//! The command line: global flags, the verbs, and the one place where an error becomes an exit code.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::names;
use crate::output::{CommandError, visible};
use crate::paths::{DEMO_INSTANCE, Paths, made_absolute};
use crate::usage;
use crate::verbs::{self, Context, Verb};

/// Run coding agents and commands; leave, come back, lose nothing
#[derive(Debug, Parser)]
#[command(name = "ostler", bin_name = "ostler", version, disable_help_flag = true, disable_help_subcommand = true)]
struct Cli {
    /// Print JSON
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,

    /// Use a separate ostler, by its name
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    instance: Option<String>,

    /// Print help
    #[arg(short, long, global = true, action = clap::ArgAction::Help, help_heading = "Global options")]
    #[allow(dead_code, reason = "clap acts on it")]
    help: Option<bool>,

    #[command(subcommand)]
    verb: Option<Verb>,
}

/// The whole command line, for what is made from it.
pub(crate) fn description() -> clap::Command {
    Cli::command()
}

/// The same, with a first help that fits one screen.
pub(crate) fn command() -> clap::Command {
    let command = description();
    let help = verbs::one_screen(&command);
    command.override_help(help)
}

/// Prints the help of a verb, given by its words.
pub(crate) fn print_help_of(verb: &[String]) {
    let args = std::iter::once("ostler").chain(verb.iter().map(String::as_str)).chain(["--help"]);
    if let Err(help) = command().try_get_matches_from(args) {
        // If nobody reads it, nobody misses it.
        let _ = help.print();
    }
}

/// Runs a verb and turns what came of it into an exit code.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    if let Some((name, rest)) = stands_in_for(&args) {
        return names::run(name, rest.to_vec());
    }
    let words = std::iter::once(OsString::from("ostler")).chain(args.iter().cloned());
    let parsed = command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage::report(error, &args, &description()),
    };
    let json = cli.json;
    match act(cli) {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}

/// `as NAME ...`: everything after the name belongs to that program, also what looks like a flag of ours.
fn stands_in_for(args: &[OsString]) -> Option<(&str, &[OsString])> {
    let [verb, name, rest @ ..] = args else { return None };
    let name = name.to_str().filter(|name| verb == "as" && names::is_known(name))?;
    Some((name, rest))
}

fn act(cli: Cli) -> Result<ExitCode, CommandError> {
    if let Some(name) = &cli.instance {
        crate::paths::check_instance_name(name)?;
    }
    let paths = Paths::from_env()?;
    if std::io::stderr().is_terminal() {
        // From another folder it would be another ostler.
        for (name, path) in made_absolute() {
            eprintln!("ostler: {name} is not absolute; used as {}", visible(&path.to_string_lossy()));
        }
    }
    let paths = if cli.instance.as_deref() == Some(DEMO_INSTANCE) { paths.of_demo() } else { paths };
    let context = Context::new(paths, cli.instance, cli.json);
    match cli.verb {
        Some(verb) => verbs::run(verb, &context),
        None => verbs::alone(&context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_teaches_with_an_example() {
        for verb in command().get_subcommands() {
            let help = verb.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example:\n{help}", verb.get_name());
            assert!(help.contains(&format!("ostler {}", verb.get_name())), "{help}");
        }
    }
}
