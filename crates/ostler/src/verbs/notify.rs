//! `ostler notify`: how you are told when you are needed, what was sent lately, and whether it arrives.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ostler_api::{Empty, NoticeInfo, NoticeListParams, NoticeWay, methods};

use super::Context;
use super::bells;
use super::connect::Reached;
use crate::config::{Config, show_duration};
use crate::output::{Align, CommandError, Paint, Table, ago, visible};

const HELP: &str = "\
Examples:
  ostler notify                     how you are told, and what was sent lately
  ostler notify test                send a test by every way

To be told on a phone: install the ntfy app, subscribe to a topic that nobody can guess, and write
into the settings (`ostler config path`)
  [notify]
  webhook = \"https://ntfy.sh/TOPIC\"
then: ostler restart; ostler config confirm notify.webhook; ostler restart
Nothing leaves this machine until you name a destination.";

/// What the daemon says of a push that went to nobody.
const NO_DEVICE: &str = "no device has subscribed";

const BELL: &str = "in terminals with an open ostler screen";

/// How many of the last notices are shown.
const LAST: usize = 10;

/// Show how you are told when you are needed
#[derive(Debug, Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Notify {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the ways and the last notices
    Show,
    /// Send a test by every way and print what happened
    #[command(after_help = "Exit code 1 if one of them failed.\n\nExample:\n  ostler notify test")]
    Test,
}

impl Notify {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let reached = context.reach_one()?;
        match self.action.unwrap_or(Action::Show) {
            Action::Show => show(context, reached),
            Action::Test => test(context, reached),
        }
    }
}

fn show(context: &Context, mut reached: Reached) -> Result<ExitCode, CommandError> {
    let ways = reached.client.call::<methods::NoticeWays>(&Empty {})?.ways;
    let told = reached.client.call::<methods::NoticeList>(&NoticeListParams { after: 0 })?;
    if context.json() {
        let bell = told.bell;
        context.screen.value(&serde_json::json!({"ways": ways, "bell": bell, "notices": told.notices}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for way in &ways {
        let to = visible(way.to.as_deref().unwrap_or_default());
        let trouble =
            way.trouble.as_deref().map(|why| format!("  {}", context.screen.paint(Paint::Bad, &visible(why))));
        context.screen.line(&format!("{:10}{to}{}", way.way, trouble.unwrap_or_default()))?;
    }
    let bell = if told.bell { BELL } else { "off" };
    context.screen.line(&format!("{:10}{bell}", "bell"))?;
    let waiting = super::status::unconfirmed_of(&mut reached, |setting| setting.starts_with("notify."));
    waiting.iter().for_each(|line| context.screen.note(line));
    if waiting.is_empty() && !ways.iter().any(reaches_out) {
        context.screen.note("nothing leaves this machine: no destination is named; see: ostler help notify");
    }
    let Config { notify, .. } = context.settings();
    context.screen.note(&format!(
        "told after {} with nobody looking, at most {} times an hour for one session",
        show_duration(notify.rules.after),
        notify.rules.per_hour
    ));
    match told.notices.is_empty() {
        true => context.screen.note("no notices yet"),
        false => {
            context.screen.line("")?;
            table(&told.notices).print(&context.screen)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a way leads out of this machine.
fn reaches_out(way: &NoticeWay) -> bool {
    match way.way.as_str() {
        "webhook" | "command" => true,
        "push" => way.to.as_deref() != Some(NO_DEVICE),
        _ => false,
    }
}

fn table(notices: &[NoticeInfo]) -> Table {
    let mut table = Table::new(&[("WHEN", Align::Left), ("NOTICE", Align::Left), ("BY", Align::Left)]);
    for notice in notices.iter().rev().take(LAST) {
        let failed = notice.ways.iter().any(|way| way.trouble.is_some());
        let by: Vec<String> = notice.ways.iter().map(outcome).collect();
        // None was heard of: nobody knows what came of it.
        let by = if by.is_empty() { "unknown".to_owned() } else { by.join(", ") };
        table.row(vec![
            (ago(notice.time), Paint::Dim),
            (visible(&notice.text), Paint::Head),
            (by, if failed { Paint::Bad } else { Paint::Plain }),
        ]);
    }
    table
}

fn outcome(way: &NoticeWay) -> String {
    match (&way.trouble, way.done.as_deref()) {
        (Some(why), _) => visible(&format!("{} failed ({why})", way.way)),
        (None, Some(NO_DEVICE)) => format!("{} (no device)", way.way),
        (None, _) => way.way.clone(),
    }
}

fn went_nowhere(way: &NoticeWay) -> bool {
    way.trouble.is_none() && way.done.as_deref() == Some(NO_DEVICE)
}

/// The bell is rung by whoever has a screen of ours open, so here by us.
fn ring(context: &Context, reached: &mut Reached) -> Result<(), CommandError> {
    let bell = reached.client.call::<methods::NoticeList>(&NoticeListParams { after: 0 })?.bell;
    let mut terminal = io::stderr();
    let words = match (bell, terminal.is_terminal()) {
        (false, _) => "off",
        (true, false) => BELL,
        (true, true) => {
            terminal.write_all(&bells::ring("a test"))?;
            "rang here; else in terminals with an open ostler screen"
        }
    };
    let mark =
        if bell && terminal.is_terminal() { context.screen.paint(Paint::Good, "ok  ") } else { "-   ".to_owned() };
    context.screen.line(&format!("{mark} {:10}{words}", "bell"))?;
    Ok(())
}

fn test(context: &Context, mut reached: Reached) -> Result<ExitCode, CommandError> {
    // Each way has its own limit, and they are tried beside each other.
    reached.client.answer_within(None)?;
    let tried = reached.client.call::<methods::NoticeTest>(&Empty {})?.ways;
    let failed = tried.iter().any(|way| way.trouble.is_some());
    if context.json() {
        context.screen.value(&tried)?;
    } else {
        for way in &tried {
            let (mark, words) = match &way.trouble {
                Some(why) => (context.screen.paint(Paint::Bad, "FAIL"), why),
                None if went_nowhere(way) => {
                    (context.screen.paint(Paint::Dim, "-   "), way.done.as_ref().unwrap_or(&way.way))
                }
                None => (context.screen.paint(Paint::Good, "ok  "), way.done.as_ref().unwrap_or(&way.way)),
            };
            // A push to nobody has the same words for where it leads and for what came of it.
            let to = way.to.as_deref().filter(|to| *to != words).map(|to| format!("{to}: ")).unwrap_or_default();
            context.screen.line(&format!("{mark} {:10}{}", way.way, visible(&format!("{to}{words}"))))?;
        }
        ring(context, &mut reached)?;
        if tried.iter().all(went_nowhere) {
            context.screen.note("nothing was sent: no destination is named; see: ostler help notify");
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
