//! `ostler help`: one screen for the first day, every verb for later, and the help of one verb.

use std::process::ExitCode;

use clap::{Args, Command};

use super::Context;
use crate::output::{CommandError, nearest};

/// The verbs of every day, as they are met: what fits one screen. All other verbs are in `help --all`.
const DAILY: &[(&str, &[&str])] = &[
    ("Start", &["demo", "up", "new", "run"]),
    ("Talk", &["send", "attach"]),
    ("Look", &["sessions", "ps", "watch", "logs"]),
    ("Decide", &["approvals", "approve"]),
    ("Manage", &["kill", "down"]),
];

/// Where the other verbs belong. One that is in no group is listed last.
const MORE: &[(&str, &[&str])] = &[
    ("Start", &["start", "restart", "service"]),
    ("Talk", &["resume", "tui", "interrupt", "set", "wait"]),
    ("Look", &["history", "diff", "status", "export", "events", "audit", "metrics", "doctor"]),
    ("Decide", &["deny", "rules", "pair", "web", "devices", "notify", "mcp"]),
    ("Manage", &["finish", "close", "forget", "prune", "config", "link", "as", "api", "completions", "uninstall"]),
];

const WHAT: &str = "Run coding agents and commands; leave, come back, lose nothing.";

const ALONE: &str = "`ostler` alone opens Now: what needs you, what runs, what ended.";

const END: &str = "\
Help on a command: ostler help COMMAND     All commands: ostler help --all";

const EXIT_CODES: &str = "\
Global options:
  --json             Print JSON
  --instance <NAME>  Use a separate ostler, by its name
  -h, --help         Print help
  -V, --version      Print version

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 ostler is not running, 4 not found,
5 refused. `run` and `attach` exit with the exit code of the command.";

/// Show help for a command
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ostler help\n  ostler help run\n  ostler help --all")]
pub(crate) struct Help {
    /// The command
    #[arg(value_name = "COMMAND")]
    verb: Vec<String>,

    /// List all commands
    #[arg(short, long)]
    all: bool,
}

impl Help {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let command = crate::cli::command();
        let known = |command: &Command, word: &String| command.find_subcommand(word).cloned();
        let mut at = command.clone();
        for word in &self.verb {
            let Some(found) = known(&at, word) else {
                let verbs = at.get_subcommands().map(Command::get_name);
                let error = CommandError::usage(format!("no command `{word}`"));
                return Err(match nearest(word, verbs) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error.hint("list them: ostler help --all"),
                });
            };
            at = found;
        }
        match (self.verb.is_empty(), self.all) {
            (true, false) => context.screen.line(one_screen(&command).trim_end())?,
            (true, true) => context.screen.line(&everything(&command))?,
            (false, _) => crate::cli::print_help_of(&self.verb),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What `ostler --help` says: a dozen verbs in groups.
pub(crate) fn one_screen(command: &Command) -> String {
    let mut text = format!("{WHAT}\n{ALONE}\n\n");
    for (group, verbs) in DAILY {
        text.push_str(&section(command, group, &mut verbs.iter().copied()));
        text.push('\n');
    }
    format!("{text}{END}\n")
}

fn everything(command: &Command) -> String {
    let mut text = format!("{WHAT}\n{ALONE}\n\n");
    let mut listed: Vec<&str> = vec!["help"];
    for ((group, daily), (_, more)) in DAILY.iter().zip(MORE) {
        let verbs = daily.iter().chain(*more);
        listed.extend(verbs.clone());
        text.push_str(&section(command, group, &mut verbs.copied()));
        text.push('\n');
    }
    let others = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
    let others: Vec<&str> = others.filter(|name| !listed.contains(name)).collect();
    if !others.is_empty() {
        text.push_str(&section(command, "More", &mut others.into_iter()));
        text.push('\n');
    }
    format!("{text}{EXIT_CODES}")
}

/// The verbs of a group that there are, one line each, the group's name before the first.
fn section(command: &Command, group: &str, verbs: &mut dyn Iterator<Item = &str>) -> String {
    let mut group = group;
    let line = |verb: &str| {
        let about = command.find_subcommand(verb)?.get_about()?.to_string();
        Some(format!("{:8}{verb:11}  {about}\n", std::mem::take(&mut group)))
    };
    verbs.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_help_fits_one_screen() {
        let text = one_screen(&crate::cli::command());
        // The prompt of the shell takes a line too.
        assert!(text.lines().count() < 24, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_verb_is_in_the_long_list_once() {
        let (command, text) = (crate::cli::command(), everything(&crate::cli::command()));
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
            let lines = text
                .lines()
                .filter(|line| line.get(8..).is_some_and(|rest| rest.split(' ').next() == Some(verb.get_name())));
            assert_eq!(lines.count(), 1, "{}:\n{text}", verb.get_name());
        }
    }
}
