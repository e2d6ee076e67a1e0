//! `ostler sessions`: conversations with agents, across all instances of the user.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{HostedListParams, LimitState, SessionInfo, SessionStatus, SessionUsage, Timestamp, UsageLimit};

use super::Context;
use super::ps::id_length;
use super::session::status_word;
use crate::output::{Align, Called, CommandError, Paint, Table, ago, visible};
use crate::transcript::{dollars, limit_words};

/// Characters of a title: a column beside others.
const TITLE_MAX: usize = 32;

/// List sessions with agents
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ostler sessions\n  ostler sessions --all\n  ostler sessions --json | jq '.[] | select(.status == \"waiting\") | .approvals'"
)]
pub(crate) struct SessionsVerb {
    /// Include closed ones
    #[arg(short, long)]
    all: bool,
}

impl SessionsVerb {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let params = HostedListParams { all: self.all, over_max: None, lines: 0, branches: false, id: None };
        let (listed, instances) = context.hosted(&params)?;
        let sessions = listed.into_iter().filter_map(|listed| Some((listed.instance, listed.hosted.session?)));
        let rows: Vec<(String, SessionInfo)> = sessions.collect();
        if context.json() {
            let rows: Vec<serde_json::Value> =
                rows.iter().map(|(name, info)| super::approvals::with_instance(name, info)).collect();
            context.screen.value(&rows)?;
        } else if rows.is_empty() {
            let hint = if self.all { "" } else { "; closed ones: ostler sessions --all" };
            context.screen.note(&format!("no sessions; start one: ostler new echo -m hello{hint}"));
        } else {
            table(&rows, instances > 1).print(&context.screen)?;
            for (_, info) in &rows {
                if let (SessionStatus::Failed, Some(why)) = (info.status, &info.why) {
                    let text = format!("{} failed: {}", info.called(), visible(why));
                    context.screen.line(&context.screen.paint(Paint::Bad, &text))?;
                }
                if let Some(process) = &info.failed_setup {
                    let text = format!("{}: its setup failed: ostler logs {}", info.called(), visible(process));
                    context.screen.line(&context.screen.paint(Paint::Bad, &text))?;
                }
                for limit in info.limits.iter().filter(|limit| holds(limit)) {
                    let reached = limit.state == LimitState::Reached;
                    let words = limit_words(&limit.name, limit.used_percent, limit.resets, reached);
                    let text = format!("{}: {words}", info.called());
                    context.screen.line(&context.screen.paint(Paint::Warn, &text))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(rows: &[(String, SessionInfo)], several: bool) -> Table {
    let mut columns = vec![("ID", Align::Left), ("NAME", Align::Left), ("AGENT", Align::Left), ("STATUS", Align::Left)];
    columns.extend([("ACTIVE", Align::Left), ("QUEUED", Align::Right), ("WAITING", Align::Left)]);
    let told = |figure: fn(&SessionUsage) -> bool| rows.iter().any(|(_, info)| info.usage.as_ref().is_some_and(figure));
    let (tokens, cost) = (told(|usage| usage.input_tokens.is_some()), told(|usage| usage.cost_usd.is_some()));
    columns.extend(tokens.then_some(("TOKENS", Align::Right)));
    columns.extend(cost.then_some(("COST", Align::Right)));
    columns.push(("WORKSPACE", Align::Left));
    let mut table = Table::of_instances(&columns, several);
    let length = id_length(rows.iter().map(|(_, info)| info.id.as_str()));
    for (instance, info) in rows {
        let (status, paint) = status_word(info);
        let queued = if info.queued == 0 { String::new() } else { info.queued.to_string() };
        let mut row = vec![
            (info.id.get(..length).unwrap_or(&info.id).to_owned(), Paint::Head),
            (info.name.clone().or_else(|| info.alias.clone()).unwrap_or_else(|| title_of(info)), Paint::Plain),
            (info.agent.rsplit('/').next().unwrap_or_default().to_owned(), Paint::Plain),
            (status.to_owned(), paint),
            (ago(info.activity), Paint::Dim),
            (queued, Paint::Plain),
            (waits_for(info), Paint::Warn),
        ];
        row.extend(tokens.then(|| (tokens_of(info), Paint::Plain)));
        row.extend(cost.then(|| (cost_of(info), Paint::Plain)));
        row.push((info.folder().to_owned(), Paint::Plain));
        table.row_of(instance, row);
    }
    table
}

/// A limit that is close or reached, and has not begun anew since the agent told of it.
fn holds(limit: &UsageLimit) -> bool {
    limit.state != LimitState::Far && limit.resets.is_none_or(|resets| resets > Timestamp::now())
}

/// What the agent calls it, as much as a column holds.
fn title_of(info: &SessionInfo) -> String {
    let title = info.title.as_deref().unwrap_or_default();
    match title.char_indices().nth(TITLE_MAX) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default()),
        None => title.to_owned(),
    }
}

/// Read and written together, of all turns.
fn tokens_of(info: &SessionInfo) -> String {
    let usage = info.usage.as_ref().filter(|usage| usage.input_tokens.is_some());
    let both = |usage: &SessionUsage| usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
    usage.map(|usage| both(usage).to_string()).unwrap_or_default()
}

fn cost_of(info: &SessionInfo) -> String {
    info.usage.as_ref().and_then(|usage| usage.cost_usd).map(dollars).unwrap_or_default()
}

fn waits_for(info: &SessionInfo) -> String {
    match info.approvals.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}
