//! `ostler audit --verify`: every log of this user, whether a daemon runs on it or not. A log that does not hold is told
//! with what does not fit; nothing is repaired.

use std::process::ExitCode;

use ostler_api::{Empty, methods};
use ostler_engine::Inbox;
use ostler_story::{Json, json_of};

use crate::instances::{self, FoundInstance};
use crate::output::{CommandError, Paint, entries, visible};
use crate::verbs::Context;

/// The log in an instance's folder.
pub(super) const LOG_FILE: &str = "inbox.db";

/// One log and what was found.
pub(in crate::verbs) struct Checked {
    pub(in crate::verbs) instance: String,
    pub(in crate::verbs) running: bool,
    /// How many entries, and the hash of the last; or what does not hold.
    pub(in crate::verbs) result: Result<(u64, String), String>,
    /// What another program wrote into the file: positions and records. It was put aside.
    foreign: Vec<(u64, Json)>,
}

pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    let checked = check_all(context)?;
    if checked.is_empty() {
        match &context.instance {
            Some(name) => return Err(CommandError::failed(format!("`{name}` has no audit log"))),
            None => context.screen.note("no audit log yet"),
        }
    }
    let holds = checked.iter().all(|one| one.result.is_ok() && one.foreign.is_empty());
    if context.json() {
        let rows: Vec<_> = checked.iter().map(row).collect();
        context.screen.value(&rows)?;
    } else {
        for one in &checked {
            let (mark, paint, text) = match &one.result {
                Ok((count, head)) if one.foreign.is_empty() => {
                    ("ok  ", Paint::Good, format!("{} verified; head {head}", entries(*count)))
                }
                Ok((count, head)) => {
                    let (count, foreign) = (entries(*count), entries(one.foreign.len() as u64));
                    let text = format!(
                        "{count} verified; head {head}; written by another program, set aside and not counted: {foreign}:"
                    );
                    ("FAIL", Paint::Bad, text)
                }
                Err(why) => ("FAIL", Paint::Bad, visible(why)),
            };
            let running = if one.running { "" } else { " (not running)" };
            context.screen.line(&format!(
                "{} {}{running}: {text}",
                context.screen.paint(paint, mark),
                visible(&one.instance)
            ))?;
            for (seq, record) in &one.foreign {
                let (kind, _, text) = super::words::tell(record);
                context.screen.line(&visible(&format!("       {seq}  {kind}  {text}")))?;
            }
        }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(one: &Checked) -> serde_json::Value {
    let Checked { instance, running, result, foreign } = one;
    match result {
        Ok((entries, head)) => {
            let foreign: Vec<_> =
                foreign.iter().map(|(seq, record)| serde_json::json!({"seq": seq, "record": record})).collect();
            serde_json::json!({
                "instance": instance, "running": running, "holds": foreign.is_empty(), "entries": entries, "head": head,
                "foreign": foreign,
            })
        }
        Err(why) => serde_json::json!({"instance": instance, "running": running, "holds": false, "why": why}),
    }
}

/// Walks every log there is.
pub(in crate::verbs) fn check_all(context: &Context) -> Result<Vec<Checked>, CommandError> {
    let found = instances::find(&context.paths, context.instance.as_deref())?;
    let with_log = found.into_iter().filter(|found| found.dir.join(LOG_FILE).exists());
    Ok(with_log.map(|found| check(context, found)).collect())
}

fn check(context: &Context, found: FoundInstance) -> Checked {
    let (instance, running, path) = (found.name.clone(), found.alive, found.dir.join(LOG_FILE));
    let result = match running {
        // Its daemon holds the file and knows best.
        true => context.reach(found).and_then(|mut reached| {
            // A long log takes its time.
            reached.client.answer_within(None)?;
            let verified = reached.client.call::<methods::AuditVerify>(&Empty {})?;
            let foreign = verified.foreign.into_iter().map(|entry| (entry.seq, entry.record)).collect();
            Ok((verified.entries, verified.head, foreign))
        }),
        false => Inbox::verify_file(&path)
            .map(|verified| {
                let foreign = verified.foreign.into_iter().map(|(_, entry)| (entry.seq, json_of(entry.body))).collect();
                (verified.entries, verified.head, foreign)
            })
            .map_err(|error| CommandError::failed(error.to_string())),
    };
    match result {
        Ok((entries, head, foreign)) => Checked { instance, running, result: Ok((entries, head)), foreign },
        Err(error) => Checked { instance, running, result: Err(error.message), foreign: Vec::new() },
    }
}
