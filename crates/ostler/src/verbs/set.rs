//! `ostler set`: changes what a session's agent may do, which model answers, and what it is called. Says what is different now
//! and from when it holds; never touches a turn that the agent is in.

use std::process::ExitCode;

use clap::Args;
use ostler_api::client::Client;
use ostler_api::{AccessParams, Autonomy, ProcessInfo, RenameParams, SessionChangeParams, SessionInfo, methods};
use serde_json::{Value, json};

use super::Context;
use super::connect::{Named, Reached};
use super::session::Free;
use crate::output::{Called, CommandError, visible};

/// Change a session's model, permissions, mode or name, or the name of a process
#[derive(Debug, Args)]
#[command(after_help = "\
Holds from the next prompt that the agent is given: a turn that runs goes on as it was begun, prompts that wait already get the new \
settings. A name holds at once, and no two that live may have the same. All of it is changed or nothing. '' goes back to the agent's own model or mode, or takes the name away.

Permissions:
  ask      ask before changing or running anything
  edits    edit files in the workspace without asking
  plan     plan only, change nothing
  all      never ask; every approval is recorded

Examples:
  ostler set fix --permissions edits
  ostler set fix --model opus --permissions plan
  ostler set fix --model ''            back to the agent's default
  ostler set s3fk --name fix
  ostler set build --name old          a process, too
  ostler set fix --setup               make its worktree ready as .ostler.toml says
  ostler set shell --access all        ostler commands in that shell reach everything")]
pub(crate) struct Set {
    /// Id, unique prefix of it, or name, of a session or a process
    id: String,

    /// Model to use; '' is the agent's own
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// What the agent may do without asking
    #[arg(short = 'p', short_alias = 'a', long = "permissions", alias = "autonomy", value_name = "WHAT")]
    #[arg(value_enum, hide_possible_values = true)]
    autonomy: Option<Free>,

    /// A mode of the agent's own, instead of --permissions
    #[arg(long, value_name = "MODE", conflicts_with = "autonomy")]
    mode: Option<String>,

    /// Rename it; '' removes the name
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,

    /// Read its repository's .ostler.toml, say yes to it, and make its worktree ready
    #[arg(long, conflicts_with_all = ["model", "autonomy", "mode", "name", "access"])]
    setup: bool,

    /// What a process may do with other processes and sessions: `own` or `all`
    #[arg(long, value_name = "WHICH", value_enum, hide_possible_values = true)]
    access: Option<Access>,
}

/// Whose processes and sessions a program that runs in ostler reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Access {
    /// Itself, its session and what was started from there
    Own,
    /// Everything, as your own terminal
    All,
}

/// Lets a process reach more, or less; the daemon refuses it to who is no person.
pub(super) fn open_access(client: &mut Client, id: &str, access: Access) -> Result<(), CommandError> {
    let params = AccessParams { id: id.to_owned(), all: access == Access::All };
    client.call::<methods::ProcessAccess>(&params)?;
    Ok(())
}

impl Set {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.setup {
            return super::setup::again(context, &self.id);
        }
        let other = self.model.is_none() && self.autonomy.is_none() && self.mode.is_none() && self.name.is_none();
        if other && self.access.is_none() {
            return Err(CommandError::usage("nothing to change")
                .hint("use --model, --permissions, --mode, --name, --setup or --access"));
        }
        let (mut reached, before) = match context.find_named(&self.id)? {
            Named::Session(reached, before) => (reached, before),
            Named::Process(mut reached, process) => match self.access {
                Some(access) if other => return open(context, &mut reached, &process, access),
                Some(_) => return Err(CommandError::usage("--access is changed alone")),
                None => return self.rename(context, reached, &process),
            },
        };
        if self.access.is_some() {
            let why = format!("{} is a session: --access is for a process", before.id);
            return Err(CommandError::usage(why).hint("an agent only reaches its own session"));
        }
        // The same again changes nothing, so a repeated request needs no key.
        let params = SessionChangeParams {
            id: before.id.clone(),
            name: self.name,
            autonomy: self.autonomy.map(Autonomy::from),
            raw_mode: self.mode,
            model: self.model,
            key: None,
        };
        let after = reached.client.call::<methods::SessionChange>(&params)?;
        let changed = differences(&before, &after);
        if context.json() {
            context.screen.value(&as_json(&after, &changed))?;
            return Ok(ExitCode::SUCCESS);
        }
        if changed.is_empty() {
            context.screen.line(&format!("{}: nothing to change", after.called()))?;
            return Ok(ExitCode::SUCCESS);
        }
        for Difference { setting, from, to, .. } in &changed {
            let setting = if *setting == "autonomy" { "permissions" } else { setting };
            let line = format!("{}  {setting}: {} -> {}", before.called(), word(from.as_ref()), word(to.as_ref()));
            context.screen.line(&visible(&line))?;
        }
        if let Some(when) = when(&after, &changed) {
            context.screen.line(&format!("  {when}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Set {
    /// A process has a name, and nothing else that could be changed.
    fn rename(self, context: &Context, mut reached: Reached, process: &ProcessInfo) -> Result<ExitCode, CommandError> {
        let (id, called) = (process.id.clone(), process.called());
        let Some(name) = self.name.filter(|_| self.model.is_none() && self.autonomy.is_none() && self.mode.is_none())
        else {
            return Err(CommandError::usage(format!("{called} is a process: only its name can be changed"))
                .hint(format!("ostler set {called} --name NAME")));
        };
        let after = reached.client.call::<methods::ProcessRename>(&RenameParams { id: id.clone(), name, key: None })?;
        let (from, to) = (process.name.as_ref(), after.name.as_ref());
        if context.json() {
            let changed = json!({"setting": "name", "from": from, "to": to, "holds": "now"});
            let changed = if from == to { Vec::new() } else { vec![changed] };
            context.screen.value(&json!({"process": id, "changed": changed}))?;
        } else if from == to {
            context.screen.line(&format!("{called}: nothing to change"))?;
        } else {
            let none = |name: Option<&String>| name.map_or("(none)".to_owned(), Clone::clone);
            context.screen.line(&visible(&format!("{called}  name: {} -> {}", none(from), none(to))))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Says what a process reaches from now on.
fn open(
    context: &Context,
    reached: &mut Reached,
    process: &ProcessInfo,
    access: Access,
) -> Result<ExitCode, CommandError> {
    open_access(&mut reached.client, &process.id, access)?;
    let (id, all) = (&process.id, access == Access::All);
    if context.json() {
        context.screen.value(&json!({"process": id, "access": if all { "all" } else { "own" }}))?;
    } else {
        let what = if all { "everything, until it ends or ostler restarts" } else { "only its own" };
        context.screen.line(&format!("{id} reaches {what}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One setting that is no longer what it was.
struct Difference {
    setting: &'static str,
    from: Option<String>,
    to: Option<String>,
    /// The agent has nothing to do with it.
    at_once: bool,
}

fn differences(before: &SessionInfo, after: &SessionInfo) -> Vec<Difference> {
    let autonomy = |info: &SessionInfo| Some(info.autonomy.as_str().to_owned());
    let all = [
        ("model", before.model.clone(), after.model.clone(), false),
        ("autonomy", autonomy(before), autonomy(after), false),
        ("mode", before.raw_mode.clone(), after.raw_mode.clone(), false),
        ("name", before.name.clone(), after.name.clone(), true),
    ];
    let changed = all.into_iter().filter(|(_, from, to, _)| from != to);
    changed.map(|(setting, from, to, at_once)| Difference { setting, from, to, at_once }).collect()
}

fn word(value: Option<&String>) -> &str {
    value.map_or("(its own)", String::as_str)
}

/// From when what the agent has to do with holds.
fn when(after: &SessionInfo, changed: &[Difference]) -> Option<String> {
    if changed.iter().all(|difference| difference.at_once) {
        return None;
    }
    let mut words = "takes effect with the next prompt".to_owned();
    if let Some(turn) = after.turn {
        words.push_str(&format!("; prompt {turn} is still running with the old settings"));
    }
    Some(words)
}

fn as_json(after: &SessionInfo, changed: &[Difference]) -> Value {
    let one = |difference: &Difference| {
        let Difference { setting, from, to, at_once } = difference;
        json!({"setting": setting, "from": from, "to": to, "holds": if *at_once { "now" } else { "next_prompt" }})
    };
    json!({"session": after.id, "under_way": after.turn, "changed": changed.iter().map(one).collect::<Vec<_>>()})
}
