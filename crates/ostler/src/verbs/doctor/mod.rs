//! `ostler doctor`: which promises hold on this machine, one line each, with what follows from it.

mod agents;
mod disk;
mod gate;
mod limits;
mod neighbours;
mod notices;
mod service;

use std::borrow::Cow;
use std::process::ExitCode;

use clap::Args;
use ostler_api::{Empty, Status, methods};

use super::{Context, helper};
use crate::config::Config;
use crate::output::{CommandError, Paint};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It works, but not as well as it could.
    Weak,
    /// A promise does not hold here.
    Broken,
    /// It is not there, and nothing needs it to be.
    Absent,
}

/// One line of the report.
struct Check {
    name: Cow<'static, str>,
    verdict: Verdict,
    /// What was found, and what follows from it.
    text: String,
}

impl Check {
    fn new(name: impl Into<Cow<'static, str>>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { name: name.into(), verdict, text: text.into() }
    }

    fn good(name: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self::new(name, Verdict::Good, text)
    }

    fn weak(name: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self::new(name, Verdict::Weak, text)
    }

    fn absent(name: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self::new(name, Verdict::Absent, text)
    }

    fn broken(name: &'static str, text: impl Into<String>) -> Self {
        Self::new(name, Verdict::Broken, text)
    }
}

/// Check this machine for problems
#[derive(Debug, Args)]
#[command(after_help = "\
ok: fine. weak: works, but could be better. FAIL: broken (exit code 1). -: not installed, not needed. Logins are checked where ostler runs agents, not in this terminal.

Example:
  ostler doctor")]
pub(crate) struct Doctor {}

/// What the settings say; settings that cannot be read are told apart.
fn keep_free(context: &Context) -> Option<u64> {
    Config::load(context.paths.config_file()).ok().and_then(|config| config.journal.keep_free)
}

impl Doctor {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut checks = vec![settings(context)];
        checks.extend(disk::checks(&context.paths, keep_free(context)));
        checks.extend(limits::checks());
        checks.push(daemon(context));
        checks.extend(unconfirmed(context));
        checks.extend(kept(context));
        checks.push(service::custody(context));
        checks.extend(service::checks(context));
        checks.extend(gate::checks(context));
        checks.extend(neighbours::checks());
        checks.extend(notices::checks(context));
        checks.push(git());
        checks.extend(agents::checks(context));
        report(context, &checks)
    }
}

fn report(context: &Context, checks: &[Check]) -> Result<ExitCode, CommandError> {
    let broken = checks.iter().any(|check| check.verdict == Verdict::Broken);
    if context.json() {
        let rows: Vec<_> = checks
            .iter()
            .map(|check| {
                let verdict = match check.verdict {
                    Verdict::Good => "good",
                    Verdict::Weak => "weak",
                    Verdict::Broken => "broken",
                    Verdict::Absent => "absent",
                };
                serde_json::json!({"check": check.name, "verdict": verdict, "text": check.text})
            })
            .collect();
        context.screen.value(&rows)?;
    } else {
        let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        for check in checks {
            let (mark, paint) = match check.verdict {
                Verdict::Good => ("ok  ", Paint::Good),
                Verdict::Weak => ("weak", Paint::Warn),
                Verdict::Broken => ("FAIL", Paint::Bad),
                Verdict::Absent => ("-   ", Paint::Dim),
            };
            context.screen.line(&format!(
                "{} {:width$}  {}",
                context.screen.paint(paint, mark),
                check.name,
                check.text
            ))?;
        }
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn settings(context: &Context) -> Check {
    let path = context.paths.config_file();
    match Config::load(path) {
        Ok(_) if path.exists() => Check::good("settings", format!("{} is fine", path.display())),
        Ok(_) => Check::good("settings", "no file, using defaults"),
        Err(error) => Check::broken("settings", format!("{error}; ostler will not start")),
    }
}

fn daemon(context: &Context) -> Check {
    let living = match context.living() {
        Ok(living) => living,
        Err(error) => return Check::broken("daemon", error.message),
    };
    let (mut answering, mut silent) = (Vec::new(), Vec::new());
    for found in living {
        let name = found.name.clone();
        match context.reach(found) {
            Ok(reached) => answering.push(format!("{name} (pid {})", reached.hello.pid)),
            Err(error) => silent.push(error.message),
        }
    }
    match (silent.first(), answering.is_empty()) {
        (Some(_), _) => Check::broken("daemon", format!("{}; restart it: ostler restart", silent.join("; "))),
        (None, true) => Check::absent("daemon", "not running; start it with: ostler up"),
        (None, false) => Check::good("daemon", format!("{} answering", answering.join(", "))),
    }
}

/// Settings that do not count, because nobody has confirmed them.
fn unconfirmed(context: &Context) -> Vec<Check> {
    let reached = context.living().unwrap_or_default().into_iter().filter_map(|found| context.reach(found).ok());
    let told = reached.filter_map(|mut reached| reached.client.call::<methods::InstanceStatus>(&Empty {}).ok());
    let check = |status: Status| {
        let instance = status.instance;
        let waiting = status.unconfirmed.into_iter();
        waiting.map(|one| Check::weak("settings", super::status::unconfirmed(&instance, &one))).collect::<Vec<_>>()
    };
    told.flat_map(check).collect()
}

/// What waits with a keeper for a daemon to come back.
fn kept(context: &Context) -> Vec<Check> {
    let found = crate::instances::find(&context.paths, context.instance.as_deref()).unwrap_or_default();
    let kept = found.iter().filter(|found| !found.alive).filter_map(|found| context.kept(&found.name));
    kept.map(|kept| Check::weak("processes", format!("{}; {}", kept.message, kept.hint))).collect()
}

fn git() -> Check {
    match helper::output("git", &["--version"]) {
        Some(text) => Check::good("git", text.trim().to_owned()),
        None => Check::weak("git", "not installed: worktrees and git requests of clients will fail"),
    }
}
