//! `ostler status`: how each instance is doing.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{Empty, methods};

use super::Context;
use crate::config::show_size;
use crate::output::{Align, CommandError, Paint, Table, ago};

/// Show how the daemon is doing and which doors are open
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ostler status\n  ostler status --json | jq -r '.[].doors[].address'")]
pub(crate) struct Status {}

impl Status {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut all = Vec::new();
        for mut reached in context.reach_all()? {
            all.push(reached.client.call::<methods::InstanceStatus>(&Empty {})?);
        }
        if context.json() {
            context.screen.value(&all)?;
            return Ok(ExitCode::SUCCESS);
        }
        for (index, status) in all.iter().enumerate() {
            if index > 0 {
                context.screen.line("")?;
            }
            print(context, status)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(context: &Context, status: &ostler_api::Status) -> Result<(), CommandError> {
    let screen = &context.screen;
    let keeper = status.keeper_pid.map_or(String::new(), |pid| format!(", keeper {pid}"));
    screen.line(&format!(
        "{} {} (pid {}{keeper}, ostler {}, started {})",
        screen.paint(Paint::Head, &status.instance),
        screen.paint(Paint::Good, status.state.as_str()),
        status.pid,
        status.program,
        ago(status.started),
    ))?;
    screen.line(&format!("  processes  {} running, {} exited and kept", status.running, status.exited))?;
    screen.line(&format!(
        "  journals   {} in {}; a power loss would take the last {} ms, a killed daemon nothing",
        show_size(status.journal_bytes),
        status.state_dir,
        status.oldest_unsynced_ms,
    ))?;
    if status.held_back > 0 {
        let text = format!(
            "  {} processes are held back: the disk is full or failing; nothing is lost, they wait",
            status.held_back
        );
        screen.line(&screen.paint(Paint::Warn, &text))?;
    }
    if status.damaged > 0 {
        let text = format!("  {} journals may be incomplete: the disk failed; see `ostler ps`", status.damaged);
        screen.line(&screen.paint(Paint::Bad, &text))?;
    }
    doors(context, status.doors.iter().map(|door| (door.name.as_str(), door.address.as_str(), door.connect.as_str())))
}

/// One line per door: its name, where it is, how to connect.
pub(super) fn doors<'a>(
    context: &Context,
    doors: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> Result<(), CommandError> {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left), ("", Align::Left)]);
    for (name, address, connect) in doors {
        table.row(vec![
            (format!("  {name}"), Paint::Head),
            (address.to_owned(), Paint::Plain),
            (connect.to_owned(), Paint::Dim),
        ]);
    }
    Ok(table.print(&context.screen)?)
}
