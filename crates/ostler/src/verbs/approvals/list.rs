//! `ostler approvals --list`: the inbox for scripts and for a quick look.

use std::process::ExitCode;
use std::time::Duration;

use ostler_api::{ApprovalInfo, ApprovalListParams, ApprovalState, methods};

use super::told::word;
use crate::config::show_duration;
use crate::output::{Align, CommandError, Paint, Table, ago};
use crate::verbs::Context;

pub(super) fn run(context: &Context, all: bool) -> Result<ExitCode, CommandError> {
    let mut rows: Vec<(String, ApprovalInfo)> = Vec::new();
    let mut reached = context.reach_all()?;
    for instance in &mut reached {
        let list = instance.client.call::<methods::ApprovalList>(&ApprovalListParams { all })?;
        rows.extend(list.approvals.into_iter().map(|info| (instance.found.name.clone(), info)));
    }
    rows.sort_by_key(|(_, info)| info.asked);
    if context.json() {
        let rows: Vec<serde_json::Value> = rows.iter().map(|(name, info)| with_instance(name, info)).collect();
        context.screen.value(&rows)?;
    } else if rows.is_empty() {
        let hint = if all { "" } else { "; with --all: what was settled lately" };
        context.screen.note(&format!("nothing waits for a decision{hint}"));
    } else {
        table(&rows, reached.len() > 1).print(&context.screen)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[(String, ApprovalInfo)], several: bool) -> Table {
    let mut columns = vec![("ID", Align::Left), ("STATE", Align::Left), ("AS", Align::Left), ("ASKED", Align::Left)];
    columns.extend([("LEFT", Align::Right), ("ASKER", Align::Left), ("WHAT", Align::Left)]);
    if several {
        columns.insert(1, ("INSTANCE", Align::Left));
    }
    let mut table = Table::new(&columns);
    for (instance, info) in rows {
        let paint = match info.state {
            ApprovalState::Pending => Paint::Warn,
            ApprovalState::Applied | ApprovalState::Accepted => Paint::Good,
            ApprovalState::Failed | ApprovalState::Denied => Paint::Bad,
            _ => Paint::Dim,
        };
        let left = info.expires_in_ms.map(|left| show_duration(Duration::from_millis(left)));
        let session = info.asker.verified_session.as_deref().unwrap_or(&info.asker.claimed_session);
        let mut row = vec![
            (info.id.clone(), Paint::Head),
            (word(info.state).to_owned(), paint),
            (if info.privileged { "root" } else { "" }.to_owned(), Paint::Bad),
            (ago(info.asked), Paint::Dim),
            (left.unwrap_or_default(), Paint::Plain),
            (format!("uid {} {session}", info.asker.uid), Paint::Plain),
            (info.title.clone(), Paint::Plain),
        ];
        if several {
            row.insert(1, (instance.clone(), Paint::Plain));
        }
        table.row(row);
    }
    table
}

pub(in crate::verbs) fn with_instance(name: &str, value: &impl serde::Serialize) -> serde_json::Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("instance".into(), name.into());
    }
    value
}
