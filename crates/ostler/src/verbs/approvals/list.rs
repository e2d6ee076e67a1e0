//! `ostler approvals --list`: the inbox for scripts and for a quick look.

use std::process::ExitCode;
use std::time::Duration;

use ostler_api::{ApprovalInfo, ApprovalListParams, ApprovalState, methods};

use super::told::word;
use crate::config::show_duration;
use crate::output::{Align, CommandError, Paint, Table, ago, user};
use crate::verbs::{Context, rules_affirm};

/// Lists what waits; says how it is answered, to somebody who came to answer and has no screen to do it on.
pub(super) fn run(context: &Context, all: bool, answers: bool) -> Result<ExitCode, CommandError> {
    let mut rows: Vec<(String, ApprovalInfo)> = Vec::new();
    let mut reached = context.reach_all_deciding()?;
    let (mut suspended, mut locked) = (0, false);
    for instance in &mut reached {
        let list = instance.client.call::<methods::ApprovalList>(&ApprovalListParams { all })?;
        suspended += list.rules_suspended;
        locked |= list.locked;
        rows.extend(list.approvals.into_iter().map(|info| (instance.found.name.clone(), info)));
    }
    rows.sort_by_key(|(_, info)| info.asked);
    if context.json() {
        let rows: Vec<serde_json::Value> = rows.iter().map(|(name, info)| with_instance(name, info)).collect();
        context.screen.value(&rows)?;
    } else if rows.is_empty() {
        let hint = if all { "" } else { "; recent ones: --all" };
        context.screen.note(&format!("{}{hint}", super::NOTHING));
    } else {
        table(&rows, reached.len() > 1).print(&context.screen)?;
        if let Some((_, first)) = rows.first().filter(|_| answers) {
            let id = &first.id;
            context
                .screen
                .line(&format!("\n  read and approve:  ostler approve {id}\n  deny:              ostler deny {id}"))?;
        }
    }
    let locked = locked.then(|| super::LOCKED.to_owned());
    for hint in rules_affirm::hint(suspended).into_iter().chain(locked).filter(|_| !context.json()) {
        context.screen.note(&hint);
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[(String, ApprovalInfo)], several: bool) -> Table {
    let mut columns = vec![("ID", Align::Left), ("STATE", Align::Left), ("AS", Align::Left), ("ASKED", Align::Left)];
    columns.extend([("LEFT", Align::Right), ("FROM", Align::Left), ("WHAT", Align::Left)]);
    let mut table = Table::of_instances(&columns, several);
    for (instance, info) in rows {
        let paint = match info.state {
            ApprovalState::Pending => Paint::Warn,
            ApprovalState::Applied | ApprovalState::Accepted => Paint::Good,
            ApprovalState::Failed | ApprovalState::Denied => Paint::Bad,
            _ => Paint::Dim,
        };
        let left = info.expires_in_ms.map(|left| show_duration(Duration::from_millis(left)));
        let row = vec![
            (info.id.clone(), Paint::Head),
            (word(info.state).to_owned(), paint),
            (if info.privileged { "root" } else { "" }.to_owned(), Paint::Bad),
            (ago(info.asked), Paint::Dim),
            (left.unwrap_or_default(), Paint::Plain),
            (who(info), Paint::Plain),
            (info.title.clone(), Paint::Plain),
        ];
        table.row_of(instance, row);
    }
    table
}

/// Who asks, in a few words: the agent, its session by name, and the folder it works in; else who started it.
pub(super) fn who(info: &ApprovalInfo) -> String {
    let asker = &info.asker;
    let agent = serde_json::from_str::<Agent>(&info.content).ok().map(|content| content.agent);
    let claimed = Some(asker.claimed_session.clone()).filter(|name| !name.is_empty());
    let session = asker.session_name.clone().or_else(|| asker.verified_session.clone()).or(claimed);
    let folder = info.workspace.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    let known: Vec<String> = [agent, session, folder].into_iter().flatten().filter(|word| !word.is_empty()).collect();
    if known.is_empty() { user(asker.uid) } else { known.join(" ") }
}

/// What a request of an agent says of it.
#[derive(serde::Deserialize)]
struct Agent {
    agent: String,
}

pub(in crate::verbs) fn with_instance(name: &str, value: &impl serde::Serialize) -> serde_json::Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("instance".into(), name.into());
    }
    value
}
