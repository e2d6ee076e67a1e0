//! `ostler rules`: standing answers, listed, made and taken back. There are none until a person makes one.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ostler_api::{ArgPattern, Empty, RuleAddParams, RuleEffect, RuleInfo, RuleNameParams, SessionIdParams, methods};
use ostler_story::Pattern;
use serde::Deserialize;

use super::Context;
use super::approvals::with_instance;
use super::connect::Reached;
use super::recorded::recorded;
use crate::config::parse_duration;
use crate::output::{Align, CommandError, Kind, Paint, Table, ago, by_name, visible};

const HELP: &str = "\
A rule answers for you; every answer is in `ostler audit` with the rule's name. It matches a whole command: the program \
and each argument. Quote an argument with *, which matches any text in that argument; --exact matches * literally. Deny \
rules win.

Examples:
  ostler rules
  ostler rules add -- git fetch origin
  ostler rules add --privileged --expires 8h -- apt-get install 'lib*-dev'
  ostler rules add --deny --privileged -- systemctl stop '*'
  ostler rules revoke r3kd
  ostler rules affirm               use them again after ostler was stopped";

/// List, add and revoke rules that answer for you
#[derive(Debug, Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Rules {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the rules
    List,
    /// Add a rule
    #[command(
        after_help = "* in an argument matches any text.\n\nExample:\n  ostler rules add --privileged --expires 30d -- apt-get install 'lib*-dev'"
    )]
    Add(Add),
    /// Confirm the rules that are suspended since ostler was stopped
    #[command(
        after_help = "A rule is only used as long as ostler runs without a break: nobody else could have written it then. After that it \
waits for you. This shows the rules and asks you to press y; it needs a terminal.\n\nExample:\n  ostler rules affirm"
    )]
    Affirm,
    /// Revoke a rule
    Revoke {
        /// Name of the rule, or the beginning of it
        name: String,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// Deny instead of approve
    #[arg(long)]
    deny: bool,

    /// Only in this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,

    /// Only for sessions in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    workspace: Option<String>,

    /// Let the command run as root
    #[arg(long)]
    privileged: bool,

    /// How long it lasts, such as 8h or 30d [default: until revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// Match * literally
    #[arg(long)]
    exact: bool,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM ARGS")]
    command: Vec<String>,
}

impl Rules {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        match self.action.unwrap_or(Action::List) {
            Action::List => list(context),
            Action::Add(add) => add.run(context),
            Action::Affirm => super::affirm::run::<RuleInfo>(context),
            Action::Revoke { name } => revoke(context, &name),
        }
    }
}

/// The rules of every instance that answers.
fn all(reached: &mut [Reached]) -> Result<Vec<(String, RuleInfo)>, CommandError> {
    let mut rows = Vec::new();
    for instance in reached {
        let rules = instance.client.call::<methods::RuleList>(&Empty {})?.rules;
        rows.extend(rules.into_iter().map(|rule| (instance.found.name.clone(), rule)));
    }
    rows.sort_by_key(|(_, rule)| rule.made);
    Ok(rows)
}

fn list(context: &Context) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_all_deciding()?;
    let rows = all(&mut reached)?;
    if context.json() {
        let rows: Vec<_> = rows.iter().map(|(name, rule)| with_instance(name, rule)).collect();
        context.screen.value(&rows)?;
    } else if rows.is_empty() {
        context.screen.note("no rules; you are asked about everything");
    } else {
        table(&rows, reached.len() > 1).print(&context.screen)?;
        let suspended = rows.iter().filter(|(_, rule)| rule.suspended).count() as u64;
        if let Some(hint) = super::rules_affirm::hint(suspended) {
            context.screen.note(&hint);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[(String, RuleInfo)], several: bool) -> Table {
    let mut columns = vec![("NAME", Align::Left), ("SAYS", Align::Left), ("AS", Align::Left), ("WHERE", Align::Left)];
    columns.extend([("MADE", Align::Left), ("BY", Align::Left), ("ENDS", Align::Left), ("WHAT", Align::Left)]);
    let mut table = Table::of_instances(&columns, several);
    for (instance, rule) in rows {
        let says = match rule.effect {
            _ if rule.suspended => ("suspended".to_owned(), Paint::Warn),
            RuleEffect::Allow => ("yes".to_owned(), Paint::Good),
            RuleEffect::Deny => ("no".to_owned(), Paint::Bad),
        };
        let pattern = Pattern::deserialize(&rule.pattern).ok();
        let root = matches!(pattern, Some(Pattern::Command { privileged: true, .. }));
        let ends = rule
            .expires
            .map_or("never".to_owned(), |end| end.to_string().get(..16).unwrap_or_default().replace('T', " "));
        let row = vec![
            (rule.name.clone(), Paint::Head),
            says,
            (if root { "root" } else { "" }.to_owned(), Paint::Bad),
            (place(&rule.scope), Paint::Plain),
            (ago(rule.made), Paint::Dim),
            (by_name(&rule.made_by), Paint::Plain),
            (ends, Paint::Plain),
            (what(pattern.as_ref(), &rule.title), Paint::Plain),
        ];
        table.row_of(instance, row);
    }
    table
}

/// The command as the rule has it: patterns without quotes, everything else as it would be typed.
pub(super) fn what(pattern: Option<&Pattern>, title: &str) -> String {
    let Some(Pattern::Command { stages, env, .. }) = pattern else { return title.to_owned() };
    let word = |arg: &ostler_story::ArgPattern| match arg {
        ostler_story::ArgPattern::Is(text) if text.contains('*') => format!("'{text}'"),
        ostler_story::ArgPattern::Is(text) => ostler_door_sudo_proxy::words::command(std::slice::from_ref(text)),
        ostler_story::ArgPattern::Like(text) => text.clone(),
    };
    let stages: Vec<String> = stages.iter().map(|stage| stage.iter().map(word).collect::<Vec<_>>().join(" ")).collect();
    let variables: String = env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    variables + &stages.join(" | ")
}

impl Add {
    fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let expires_in = match &self.expires {
            Some(text) => {
                let span =
                    parse_duration(text).map_err(|why| CommandError::usage(format!("--expires {text}: {why}")))?;
                Some(span.as_secs())
            }
            None => None,
        };
        let mut reached = one(context)?;
        let params = RuleAddParams {
            effect: if self.deny { RuleEffect::Deny } else { RuleEffect::Allow },
            stages: vec![self.pattern()?],
            privileged: self.privileged,
            session: self.session.clone(),
            workspace: self.workspace.map(|dir| absolute(&dir)).transpose()?,
            expires_in,
        };
        let rule = recorded::<methods::RuleAdd>(&context.screen, &mut reached.client, &params)?;
        if let Some(id) = self.session.filter(|_| !context.json())
            && reached.client.call::<methods::SessionGet>(&SessionIdParams { id: id.clone() }).is_err()
        {
            let id = visible(&id);
            context.screen.note(&format!("no session {id} here; the rule applies to requests that claim to be {id}"));
        }
        let instance = reached.found.name;
        if context.json() {
            context.screen.value(&with_instance(&instance, &rule))?;
        } else {
            table(&[(instance, rule)], false).print(&context.screen)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One pattern per argument; the program is the very file that would be found when the command is asked for.
    fn pattern(&self) -> Result<Vec<ArgPattern>, CommandError> {
        let [program, args @ ..] = self.command.as_slice() else {
            return Err(CommandError::usage("a rule needs a command"));
        };
        let uid = rustix::process::getuid().as_raw();
        let found = ostler_stages::resolve(program, uid).map_err(|error| {
            CommandError::new(Kind::NotFound, visible(&error.to_string()))
                .hint("use the program's name, or its full path")
        })?;
        let is = |text: String| ArgPattern { is: Some(text), like: None };
        let pattern = |text: &String| match text.contains('*') && !self.exact {
            true => ArgPattern { is: None, like: Some(text.clone()) },
            false => is(text.clone()),
        };
        Ok(std::iter::once(is(found.path.display().to_string())).chain(args.iter().map(pattern)).collect())
    }
}

fn absolute(dir: &str) -> Result<String, CommandError> {
    let path =
        std::fs::canonicalize(dir).map_err(|error| CommandError::usage(format!("--workspace {dir}: {error}")))?;
    Ok(path.display().to_string())
}

/// Where a rule holds; the protocol calls the whole machine its host.
pub(super) fn place(scope: &str) -> String {
    if scope == "host" { "everywhere".to_owned() } else { scope.to_owned() }
}

/// Where a rule is made: `--instance`, else the only one that runs, else `main`.
pub(super) fn one(context: &Context) -> Result<Reached, CommandError> {
    let mut living = context.living()?;
    match (living.len(), context.instance.is_some(), living.pop()) {
        (1, false, Some(only)) => context.reach_deciding(only),
        _ => context.reach_one_deciding(),
    }
}

fn revoke(context: &Context, name: &str) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_all_deciding()?;
    let fits = |(_, rule): &(String, RuleInfo)| !name.is_empty() && rule.name.starts_with(name);
    let found: Vec<(String, RuleInfo)> = all(&mut reached)?.into_iter().filter(fits).collect();
    let (instance, rule) = match found.as_slice() {
        [one] => one,
        [] => {
            return Err(CommandError::new(Kind::NotFound, format!("no rule `{name}`")).hint("list them: ostler rules"));
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(_, rule)| rule.name.as_str()).collect();
            return Err(CommandError::usage(format!("`{name}` matches several: {}", names.join(", "))));
        }
    };
    if let Some(instance) = reached.iter_mut().find(|one| one.found.name == *instance) {
        let params = RuleNameParams { name: rule.name.clone() };
        recorded::<methods::RuleRevoke>(&context.screen, &mut instance.client, &params)?;
    }
    if context.json() {
        context.screen.value(&serde_json::json!({ "revoked": rule.name }))?;
    } else {
        context.screen.line(&format!("{} revoked", rule.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(command: &[&str], exact: bool) -> Add {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Add { deny: false, session: None, workspace: None, privileged: false, expires: None, exact, command }
    }

    #[test]
    fn a_star_is_a_pattern_unless_it_is_to_be_a_star() {
        let [program, arg] = &add(&["ls", "*.rs"], false).pattern().unwrap()[..] else { panic!() };
        assert!(program.is.as_deref().is_some_and(|path| path.starts_with('/') && path.ends_with("/ls")));
        assert_eq!((arg.is.as_deref(), arg.like.as_deref()), (None, Some("*.rs")));
        let exact = add(&["ls", "*.rs"], true).pattern().unwrap();
        assert_eq!((exact[1].is.as_deref(), exact[1].like.as_deref()), (Some("*.rs"), None));
    }

    #[test]
    fn a_rule_is_about_one_program_that_is_there() {
        for program in ["*", "no-such-program-anywhere", "./ls", ""] {
            assert_eq!(add(&[program], false).pattern().unwrap_err().kind, Kind::NotFound, "{program}");
        }
    }
}
