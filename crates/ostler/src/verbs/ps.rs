//! `ostler ps`: what is hosted, across all instances of the user.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{HostedListParams, ProcessInfo};

use super::Context;
use super::claim::claimed;
use super::listing::Listed;
use crate::config::show_size;
use crate::output::{Align, CommandError, Paint, Table, ago};

/// Ids are cut to what is needed to tell them apart, and never below this.
const SHORTEST_ID: usize = 6;
/// Characters of a command: enough to know it by where no terminal cuts it; `--json` has all of it.
const COMMAND_MAX: usize = 1000;
/// Lines of it on a terminal.
const COMMAND_LINES: usize = 2;

/// List processes
#[derive(Debug, Args)]
#[command(after_help = "ATTACHED: how many are attached, and the size they share.\n\n\
Examples:\n  ostler ps\n  ostler ps -a --json | jq '.[] | select(.exit.code != 0)'")]
pub(crate) struct Ps {
    /// Include finished ones
    #[arg(short, long)]
    all: bool,
}

impl Ps {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let params = HostedListParams { all: self.all, over_max: None, lines: 0, branches: false, id: None };
        let (listed, instances) = context.hosted(&params)?;
        let processes = listed.iter().filter_map(|one| Some((one, one.hosted.process.as_ref()?)));
        let rows: Vec<(&Listed, &ProcessInfo)> = processes.collect();
        if context.json() {
            let rows: Vec<serde_json::Value> =
                rows.iter().map(|(one, process)| with_instance(&one.instance, process)).collect();
            context.screen.value(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        if rows.is_empty() {
            let hint = if self.all {
                "ostler run -- COMMAND"
            } else {
                "run something: ostler run -- COMMAND; finished ones: ostler ps -a"
            };
            context.screen.note(&format!("nothing is running; {hint}"));
            return Ok(ExitCode::SUCCESS);
        }
        table(&rows, &listed, instances > 1).at_most(COMMAND_LINES).print(&context.screen)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn table(rows: &[(&Listed, &ProcessInfo)], all: &[Listed], several: bool) -> Table {
    let mut columns = vec![("ID", Align::Left), ("NAME", Align::Left), ("STATE", Align::Left), ("PID", Align::Right)];
    columns.extend([("STARTED", Align::Left), ("OUTPUT", Align::Right), ("ATTACHED", Align::Left)]);
    columns.push(("COMMAND", Align::Left));
    let mut table = Table::of_instances(&columns, several);
    let length = id_length(rows.iter().map(|(_, process)| process.id.as_str()));
    for (one, process) in rows {
        let (state, paint) = state(process);
        let id = process.id.get(..length).unwrap_or(&process.id).to_owned();
        let pid = if process.exit.is_some() { String::new() } else { process.pid.to_string() };
        let row = vec![
            (id, Paint::Head),
            (one.name(all).unwrap_or_default(), Paint::Plain),
            (state, paint),
            (pid, Paint::Plain),
            (ago(process.started), Paint::Dim),
            (show_size(process.stdout_bytes + process.stderr_bytes), Paint::Plain),
            (attached(process), Paint::Plain),
            (command(process), Paint::Plain),
        ];
        table.row_of(&one.instance, row);
    }
    table
}

/// How many are attached, and the size that they agree on.
fn attached(process: &ProcessInfo) -> String {
    let sizes = process.attached.iter().filter_map(|viewer| viewer.size.as_ref());
    let smallest = sizes.map(|size| (size.cols, size.rows)).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
    match (process.attached.len(), smallest) {
        (0, _) => String::new(),
        (count, None) => count.to_string(),
        (count, Some((cols, rows))) => format!("{count} ({cols}x{rows})"),
    }
}

/// The command as it would be typed: where the program lies is seldom news.
pub(super) fn command(process: &ProcessInfo) -> String {
    let mut whole = process.command();
    if let Some((end, _)) = whole.char_indices().nth(COMMAND_MAX) {
        whole.truncate(end);
        whole.push('…');
    }
    match process.program.rsplit_once('/') {
        // A helper of the daemon is the daemon's own file.
        Some((folder, "exe")) if folder.starts_with("/proc/") => whole.replacen(&process.program, "ostler", 1),
        Some((folder, _)) if process.program.starts_with('/') => {
            whole.get(folder.len() + 1..).unwrap_or(&whole).to_owned()
        }
        _ => whole,
    }
}

/// One word or two about how a process is.
pub(super) fn state(process: &ProcessInfo) -> (String, Paint) {
    match &process.exit {
        None if process.lost_after.is_some() => ("running, output lost".to_owned(), Paint::Warn),
        None if process.damaged_from.is_some() => ("running, damaged".to_owned(), Paint::Bad),
        None => match &process.held_back {
            Some(_) => ("paused: disk".to_owned(), Paint::Warn),
            None => process.claim.as_ref().map_or(("running".to_owned(), Paint::Good), claimed),
        },
        Some(exit) => match (exit.code, exit.signal) {
            (Some(0), _) => ("exited 0".to_owned(), Paint::Dim),
            (Some(code), _) => (format!("exited {code}"), Paint::Bad),
            (None, Some(signal)) => (super::kill::signal_name(signal), Paint::Bad),
            (None, None) if process.rebooted => ("ended by reboot".to_owned(), Paint::Warn),
            (None, None) => ("exit unknown".to_owned(), Paint::Warn),
        },
    }
}

pub(super) fn with_instance(name: &str, process: &ProcessInfo) -> serde_json::Value {
    let mut value = serde_json::to_value(process).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("instance".into(), name.into());
    }
    value
}

/// The shortest length at which all ids differ.
pub(super) fn id_length<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    let pairs = ids.iter().zip(ids.iter().skip(1));
    let shared = pairs.map(|(a, b)| a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count() + 1);
    shared.max().unwrap_or(0).max(SHORTEST_ID)
}

#[cfg(test)]
mod tests {
    use super::id_length;

    #[test]
    fn ids_are_cut_only_as_far_as_they_differ() {
        assert_eq!(id_length(["p0123456789ab"].into_iter()), 6);
        assert_eq!(id_length(["p01234567aaa", "p01234567abb", "q"].into_iter()), 11);
    }
}
