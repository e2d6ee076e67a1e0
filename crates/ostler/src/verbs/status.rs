//! `ostler status`: how each instance is doing.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{Empty, SettingInfo, methods};

use super::Context;
use super::connect::Reached;
use crate::config::show_size;
use crate::output::{Align, CommandError, Paint, Screen, Table, ago, length, terminal_width, visible};

/// Show how ostler is doing and how to connect
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  ostler status
  ostler status --connect           every socket and port, and how to connect to it
  ostler status --json | jq '.[].running'")]
pub(crate) struct Status {
    /// Show all sockets and ports
    #[arg(long)]
    connect: bool,
}

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
            match self.connect {
                true => connect(context, status)?,
                false => print(context, status)?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Every socket and port.
fn connect(context: &Context, status: &ostler_api::Status) -> Result<(), CommandError> {
    let head = context.screen.paint(Paint::Head, &status.instance);
    context.screen.line(&format!("{head} (pid {})", status.pid))?;
    doors(context, status.doors.iter().map(|door| (door.name.as_str(), door.address.as_str(), door.connect.as_str())))
}

fn print(context: &Context, status: &ostler_api::Status) -> Result<(), CommandError> {
    let screen = &context.screen;
    screen.line(&format!(
        "{} {} (pid {}, ostler {}, started {})",
        screen.paint(Paint::Head, &status.instance),
        screen.paint(Paint::Good, status.state.as_str()),
        status.pid,
        status.program,
        ago(status.started),
    ))?;
    screen.line(&sessions(screen, status))?;
    screen.line(&format!("  processes  {} running, {} finished", status.running, status.exited))?;
    screen.line(&format!(
        "  output     {} in {}; a power loss would lose the last {} ms",
        show_size(status.journal_bytes),
        status.state_dir,
        status.oldest_unsynced_ms,
    ))?;
    if let Some(hint) = super::rules_affirm::hint(status.rules_suspended) {
        screen.line(&screen.paint(Paint::Warn, &format!("  rules      {hint}")))?;
    }
    if status.locked {
        screen.line(&screen.paint(Paint::Bad, &format!("  approvals  {}", super::approvals::LOCKED)))?;
    }
    for (line, is_good) in disk(status) {
        screen.line(&screen.paint(if is_good { Paint::Plain } else { Paint::Warn }, &line))?;
    }
    if status.damaged > 0 {
        let text =
            format!("  output of {} processes may be incomplete: the disk failed; see `ostler ps`", status.damaged);
        screen.line(&screen.paint(Paint::Bad, &text))?;
    }
    for waiting in &status.unconfirmed {
        let text = format!("  settings   {}", unconfirmed(&status.instance, waiting));
        screen.line(&screen.paint(Paint::Warn, &text))?;
    }
    let flag = crate::instances::flag(&status.instance);
    let names: Vec<&str> = status.doors.iter().map(|door| door.name.as_str()).collect();
    screen.line(&format!("  connect    {} (ostler status --connect{flag})", names.join(", ")))?;
    Ok(())
}

/// A setting that does not count, and what to do about it.
pub(super) fn unconfirmed(instance: &str, SettingInfo { setting, value }: &SettingInfo) -> String {
    let flag = crate::instances::flag(instance);
    visible(&format!("{setting} = {value} has no effect until you confirm it: ostler config confirm {setting}{flag}"))
}

/// The settings of these that do not count yet, each with what to do about it.
pub(super) fn unconfirmed_of(reached: &mut Reached, which: impl Fn(&str) -> bool) -> Vec<String> {
    let Ok(status) = reached.client.call::<methods::InstanceStatus>(&Empty {}) else { return Vec::new() };
    let waiting = status.unconfirmed.iter().filter(|one| which(&one.setting));
    waiting.map(|one| unconfirmed(&status.instance, one)).collect()
}

/// Below this a journal cannot even be begun: its files take a block each.
const FULL: u64 = 64 * 1024;

/// How the disk is doing, and whether that is good.
fn disk(status: &ostler_api::Status) -> Vec<(String, bool)> {
    let (free, size, keep) = (status.disk_free, status.disk_size, status.keep_free);
    let room = format!("{} of {} free", show_size(free), show_size(size));
    let mut lines = match (free, size) {
        (_, 0) => Vec::new(),
        (..FULL, _) => {
            vec![(format!("  disk       full ({room}): what writes waits for room, and little new can start"), false)]
        }
        _ if free < keep => {
            vec![(
                format!(
                    "  disk       {room}, less than {} (journal.keep_free): the process that writes most is paused",
                    show_size(keep)
                ),
                false,
            )]
        }
        _ => vec![(format!("  disk       {room}"), true)],
    };
    let floor = status.held_by_floor;
    let mut held = |count: u64, why: &str| match count {
        0 => {}
        1 => lines.push((format!("  1 process is paused: {why}; nothing is lost"), false)),
        many => lines.push((format!("  {many} processes are paused: {why}; nothing is lost"), false)),
    };
    held(floor, &format!("less than {} is free (journal.keep_free)", show_size(keep)));
    held(status.held_back.saturating_sub(floor), "the disk is full or failing");
    lines
}

/// What goes on, and what waits for the person.
fn sessions(screen: &Screen, status: &ostler_api::Status) -> String {
    let busy =
        if status.sessions_running > 0 { format!(", {} working", status.sessions_running) } else { String::new() };
    let waits = match status.approvals_pending {
        0 => return format!("  sessions   {} open{busy}", status.sessions),
        1 => "1 request is waiting for you: ostler approvals".to_owned(),
        many => format!("{many} requests are waiting for you: ostler approvals"),
    };
    format!("  sessions   {} open{busy}; {}", status.sessions, screen.paint(Paint::Warn, &waits))
}

/// Each door: its name, where it is, how to connect.
fn doors<'a>(context: &Context, doors: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Result<(), CommandError> {
    let doors: Vec<_> = doors.collect();
    for line in door_lines(&context.screen, &doors, terminal_width().unwrap_or(usize::MAX)) {
        context.screen.line(&line)?;
    }
    Ok(())
}

/// A line for each door, or two where one would not fit: how to connect is there to be copied, and never cut.
fn door_lines(screen: &Screen, doors: &[(&str, &str, &str)], width: usize) -> Vec<String> {
    let widest = |of: fn(&(&str, &str, &str)) -> usize| doors.iter().map(of).max().unwrap_or(0);
    let needed = widest(|door| length(door.0)) + widest(|door| length(door.1)) + widest(|door| length(door.2));
    // Before and between the three of them are two blanks each.
    let fits = needed + 6 <= width;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left), ("", Align::Left)]);
    for (name, address, connect) in doors {
        let mut row = vec![(format!("  {name}"), Paint::Head), ((*address).to_owned(), Paint::Plain)];
        row.extend(fits.then(|| ((*connect).to_owned(), Paint::Dim)));
        table.row(row);
    }
    let lines = table.lines(screen, usize::MAX).into_iter();
    match fits {
        true => lines.collect(),
        false => {
            let hints = doors.iter().map(|door| screen.paint(Paint::Dim, &format!("      {}", visible(door.2))));
            lines.zip(hints).flat_map(|(line, hint)| [line, hint]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_to_connect_is_never_cut() {
        let doors = [("native", "/run/main.sock", "ostler api"), ("x", "/run/x.sock", "x --socket /run/x.sock")];
        let lines = |width| door_lines(&Screen::plain(), &doors, width);
        let wide = ["  native  /run/main.sock  ostler api", "  x       /run/x.sock     x --socket /run/x.sock"];
        assert_eq!(lines(wide[1].len()), wide);
        assert_eq!(
            lines(wide[1].len() - 1),
            ["  native  /run/main.sock", "      ostler api", "  x       /run/x.sock", "      x --socket /run/x.sock"]
        );
    }
}
