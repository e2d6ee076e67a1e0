//! `ostler history`: every conversation that was had here, and words in them.

mod read;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler_api::client::{ANSWER_TIMEOUT, ClientError};
use ostler_api::{
    ErrorKind, HistoryEntry, HistoryFound, HistoryFoundIn, HistoryIdParams, HistoryList, HistoryListParams,
    HistorySearchParams, Method, methods,
};

use super::Context;
use super::connect::Reached;
use super::ps::id_length;
use crate::output::{Align, CommandError, Paint, Table, ago, counted, visible};
use crate::transcript::dollars;

/// Rows when nobody says how many: a screen.
const ROWS: u32 = 20;
/// Characters of what a conversation is about: a column beside others.
const ABOUT_MAX: usize = 48;
/// How long a search may take, and the answer after it.
const WITHIN: Duration = Duration::from_secs(30);
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

const HELP: &str = "\
Lists sessions of ostler and what claude, codex, gemini and opencode recorded in any terminal, newest first. Their files are only \
read. A query without capital letters is found in either case; each hit begins with the place for --from.

Examples:
  ostler history
  ostler history --in . --agent claude
  ostler history 'connection refused'
  ostler history --read 72a0dd           the end of a conversation
  ostler history --read 72a0dd -f        and what is added to it
  ostler resume 72a0dd                   continue it here";

/// List and search conversations with agents, also from terminals
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct History {
    /// Words to look for
    query: Option<String>,

    /// Only in this folder and below
    #[arg(long = "in", value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Only with this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// At most so many conversations, hits or messages; 0 with -f: only what is added
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<u32>,

    /// Print the messages of a conversation; with a query, look only there
    #[arg(long, value_name = "ID")]
    read: Option<String>,

    /// With --read: begin at this place, or `0` for the beginning
    #[arg(long, value_name = "PLACE", requires = "read")]
    from: Option<String>,

    /// With --read: go on with what is added
    #[arg(short, long, requires = "read")]
    follow: bool,
}

/// An older daemon does not know these methods.
pub(super) fn call<M: Method>(reached: &mut Reached, params: &M::Params) -> Result<M::Result, CommandError> {
    reached.client.answer_within(Some(ANSWERED_WITHIN))?;
    let answer = reached.client.call::<M>(params);
    reached.client.answer_within(Some(ANSWER_TIMEOUT))?;
    answer.map_err(|error| match error {
        ClientError::Rpc(refused) if refused.kind() == ErrorKind::UnknownMethod => {
            CommandError::failed("the running ostler is an older version").hint("ostler restart")
        }
        error => error.into(),
    })
}

impl History {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut reached = context.reach_one()?;
        match (&self.query, &self.read) {
            (Some(_), _) => self.search(context, &mut reached),
            (None, Some(id)) => {
                let view = read::View { id, from: self.from.as_deref(), limit: self.limit, follow: self.follow };
                read::run(context, &mut reached, &view)
            }
            (None, None) => self.list(context, &mut reached),
        }
    }

    /// `-n 0`, which is no limit to the daemon.
    fn wants_none(&self) -> bool {
        self.limit == Some(0)
    }

    fn workspace(&self) -> Result<Option<String>, CommandError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        // A folder that is gone may still have its conversations.
        let path = folder.canonicalize().or_else(|_| std::path::absolute(folder))?;
        Ok(Some(path.to_string_lossy().into_owned()))
    }

    fn list(&self, context: &Context, reached: &mut Reached) -> Result<ExitCode, CommandError> {
        let limit = self.limit.unwrap_or(if context.json() { 0 } else { ROWS });
        let params = HistoryListParams { workspace: self.workspace()?, agent: self.agent.clone(), limit, skip: 0 };
        let mut list = call::<methods::HistoryList>(reached, &params)?;
        if self.wants_none() {
            list.conversations.clear();
        }
        if context.json() {
            context.screen.value(&list)?;
        } else if list.total == 0 {
            context.screen.note(&self.none());
        } else if !self.wants_none() {
            table(&list.conversations).print(&context.screen)?;
        }
        more(context, &list);
        Ok(ExitCode::SUCCESS)
    }

    /// Why there is nothing to list.
    fn none(&self) -> String {
        let gone = |folder: &&PathBuf| !folder.exists();
        match (&self.folder, &self.agent) {
            (None, None) => "no conversations; start one: ostler new echo -m hello".to_owned(),
            (Some(folder), None) if gone(&folder) => {
                format!("there is no folder {}, and no conversation from there", visible(&folder.to_string_lossy()))
            }
            (Some(folder), None) => {
                format!("no conversations in {}; see all: ostler history", visible(&folder.to_string_lossy()))
            }
            (None, Some(agent)) => format!("no conversations with {}; see all: ostler history", visible(agent)),
            (Some(folder), Some(agent)) => format!(
                "no conversations with {} in {}; see all: ostler history",
                visible(agent),
                visible(&folder.to_string_lossy())
            ),
        }
    }

    fn search(&self, context: &Context, reached: &mut Reached) -> Result<ExitCode, CommandError> {
        let query = self.query.clone().unwrap_or_default();
        if query.trim().is_empty() {
            return Err(CommandError::usage("there is nothing to look for").hint("ostler history 'some words'"));
        }
        let params = HistorySearchParams {
            query,
            id: self.read.clone(),
            workspace: self.workspace()?,
            agent: self.agent.clone(),
            limit: self.limit.unwrap_or(0),
            each: 0,
            within_ms: u64::try_from(WITHIN.as_millis()).unwrap_or(0),
        };
        let mut found = call::<methods::HistorySearch>(reached, &params)?;
        let nothing = found.conversations.is_empty();
        if self.wants_none() {
            found.conversations.clear();
        }
        if context.json() {
            context.screen.value(&found)?;
        } else {
            hits(context, &found)?;
        }
        if nothing && !context.json() {
            let searched = found.searched;
            context.screen.note(&format!("nothing found in {searched} {}", conversations(searched)));
            // Whoever has an id from the list tries it here first.
            if call::<methods::HistoryGet>(reached, &HistoryIdParams { id: params.query.clone() }).is_ok() {
                context.screen.note(&format!("to read it: ostler history --read {}", visible(&params.query)));
            }
        }
        Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn conversations(count: u64) -> &'static str {
    if count == 1 { "conversation" } else { "conversations" }
}

/// What a list leaves out is said beside it.
fn more(context: &Context, list: &HistoryList) {
    let shown = list.conversations.len() as u64;
    if list.total > shown && !context.json() {
        context.screen.note(&format!("{shown} of {}; more: ostler history -n {}", list.total, list.total));
    }
    behind(context, list.behind, &list.unreadable);
}

fn behind(context: &Context, behind: u64, unreadable: &[String]) {
    if behind > 0 {
        context.screen.note(&format!("ostler: {behind} more not read yet; ask again"));
    }
    for one in unreadable {
        context.screen.note(&format!("ostler: cannot read {}", visible(one)));
    }
}

/// What a conversation is about, in a column.
fn about(entry: &HistoryEntry) -> String {
    let text = entry.title.as_deref().or(entry.first_prompt.as_deref()).unwrap_or_default();
    match text.char_indices().nth(ABOUT_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn table(entries: &[HistoryEntry]) -> Table {
    let told = |figure: fn(&HistoryEntry) -> bool| entries.iter().any(figure);
    let tokens = told(|entry| tokens_of(entry).is_some());
    let cost = told(|entry| entry.usage.as_ref().is_some_and(|usage| usage.cost_usd.is_some()));
    let mut columns =
        vec![("ID", Align::Left), ("AGENT", Align::Left), ("ACTIVE", Align::Left), ("MESSAGES", Align::Right)];
    columns.extend(tokens.then_some(("TOKENS", Align::Right)));
    columns.extend(cost.then_some(("COST", Align::Right)));
    columns.extend([("ABOUT", Align::Left), ("WORKSPACE", Align::Left)]);
    let mut table = Table::new(&columns);
    let length = id_length(entries.iter().map(|entry| entry.id.as_str()));
    for entry in entries {
        let paint = if entry.session.is_some() { Paint::Head } else { Paint::Plain };
        let mut row = vec![
            (entry.id.get(..length).unwrap_or(&entry.id).to_owned(), paint),
            (entry.agent.rsplit('/').next().unwrap_or_default().to_owned(), Paint::Plain),
            (ago(entry.active), Paint::Dim),
            (entry.messages.map(|count| count.to_string()).unwrap_or_default(), Paint::Plain),
        ];
        row.extend(tokens.then(|| (tokens_of(entry).map(|count| count.to_string()).unwrap_or_default(), Paint::Plain)));
        let dear = entry.usage.as_ref().and_then(|usage| usage.cost_usd);
        row.extend(cost.then(|| (dear.map(dollars).unwrap_or_default(), Paint::Plain)));
        row.push((about(entry), Paint::Plain));
        row.push((entry.workspace.clone().unwrap_or_default(), Paint::Plain));
        table.row(row);
    }
    table
}

fn tokens_of(entry: &HistoryEntry) -> Option<u64> {
    let usage = entry.usage.as_ref()?;
    Some(usage.input_tokens?.saturating_add(usage.output_tokens.unwrap_or(0)))
}

fn hits(context: &Context, found: &HistoryFound) -> Result<(), CommandError> {
    let screen = &context.screen;
    let length = id_length(found.conversations.iter().map(|one| one.conversation.id.as_str()));
    for HistoryFoundIn { conversation, hits } in &found.conversations {
        let id = conversation.id.get(..length).unwrap_or(&conversation.id);
        let place = conversation.workspace.as_deref().unwrap_or_default();
        let head = format!("{id}  {}  {}  {}", conversation.agent, ago(conversation.active), place);
        screen.line(&screen.paint(Paint::Head, &visible(&head)))?;
        for hit in hits {
            let place = screen.paint(Paint::Dim, &hit.position);
            screen.line(&format!("  {place}  {} {}: {}", hit.speaker.as_str(), hit.kind, visible(&hit.around)))?;
        }
    }
    if found.unsearched > 0 {
        screen.note(&format!(
            "ostler: {} {} not searched to the end; narrow it with --in, --agent or --read",
            found.unsearched,
            conversations(found.unsearched)
        ));
    }
    if found.unread > 0 {
        screen.note(&format!("ostler: {} could not be read", counted(found.unread, "line", "lines")));
    }
    behind(context, found.behind, &found.unreadable);
    Ok(())
}
