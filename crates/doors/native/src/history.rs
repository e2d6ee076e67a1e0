//! `history.*`: what the engine tells of conversations, in the protocol's words. A hosted caller sees those of its own sessions.

use std::path::PathBuf;
use std::time::Duration;

use ostler_api::{
    ErrorKind, HistoryElement, HistoryElementKind, HistoryEntry, HistoryFound, HistoryFoundIn, HistoryHit,
    HistoryIdParams, HistoryList, HistoryListParams, HistoryMessage, HistoryMessages, HistoryMessagesParams,
    HistoryRunning, HistorySearchParams, RpcError, SessionUsage, Timestamp,
};
use ostler_engine::history::{
    Begin, Entry, Filter, History, HistoryError, Hit, Meant, Needle, Page, Placed, Position, Running, Searched, Wanted,
};
use ostler_engine::session::View;
use ostler_engine::{MayWait, Target};
use ostler_story::{Element, ToolCall, Usage};

use crate::call::Call;
use crate::info::{disk, listed};
use crate::pieces::diffs;
use crate::session::usage_of;
use crate::words::Translate;

/// Conversations of one answer: some hundred bytes each.
const LIST_MAX: usize = 2000;
/// Messages when nobody says how many.
const MESSAGES: usize = 50;
/// The longest that a follower waits for one answer.
const WAIT_MAX: u64 = 30_000;
const HITS: usize = 100;
const HITS_MAX: usize = 1000;
const EACH: usize = 5;
const WITHIN: u64 = 10_000;
const WITHIN_MAX: u64 = 60_000;

/// `asked`, or what is usual, and not more than there may be.
fn most(asked: u32, usual: usize, max: usize) -> usize {
    if asked == 0 { usual } else { (asked as usize).min(max) }
}

/// Whether this client sees a conversation: everything, or what its own sessions are.
fn sees(call: &Call) -> impl Fn(Option<&View>) -> bool {
    let all = call.reaches(Target::Instance).is_ok();
    move |view| {
        let session = || call.engine().sessions().get(&view?.id);
        all || session().is_some_and(|session| call.reaches(Target::Session(&session)).is_ok())
    }
}

/// A conversation that this client may read.
fn find(call: &Call, history: &History<'_>, id: &str) -> Result<Meant, RpcError> {
    let found = history.find(id).map_err(|error| refusal(call, id, error));
    match found {
        Ok(Meant { session: Some(session), transcript }) => {
            call.reaches(Target::Session(&session))?;
            Ok(Meant { session: Some(session), transcript })
        }
        // Of what is not its own a client does not learn either that it is there.
        found => {
            call.reaches(Target::Instance)?;
            found
        }
    }
}

fn refusal(call: &Call, id: &str, error: HistoryError) -> RpcError {
    match error {
        HistoryError::NotFound(_) => {
            RpcError::new(ErrorKind::NotFound, format!("no conversation `{id}`")).hint("list them: ostler history")
        }
        HistoryError::Ambiguous { ids, .. } => {
            RpcError::new(ErrorKind::Ambiguous, format!("`{id}` matches several: {}", listed(&ids)))
                .hint("use more of the id")
        }
        HistoryError::Io(source) => disk(call.engine(), &format!("`{id}` cannot be read"), &source),
    }
}

fn filter(workspace: Option<String>, agent: Option<String>) -> Filter {
    Filter { workspace: workspace.map(PathBuf::from), agent }
}

pub(crate) fn list(wait: &MayWait, call: &Call, params: HistoryListParams) -> Result<HistoryList, RpcError> {
    let history = call.engine().history(wait);
    let found = history.list(&filter(params.workspace, params.agent), &sees(call));
    let all = call.reaches(Target::Instance).is_ok();
    let total = found.entries.len() as u64;
    let page = found.entries.into_iter().skip(params.skip as usize).take(most(params.limit, LIST_MAX, LIST_MAX));
    let conversations = page.map(|mut entry| {
        history.complete(&mut entry);
        describe(&history, entry)
    });
    Ok(HistoryList {
        conversations: conversations.collect(),
        total,
        behind: if all { found.behind } else { 0 },
        unreadable: if all { found.unreadable } else { Vec::new() },
    })
}

pub(crate) fn get(wait: &MayWait, call: &Call, params: HistoryIdParams) -> Result<HistoryEntry, RpcError> {
    let history = call.engine().history(wait);
    let meant = find(call, &history, &params.id)?;
    let entry = history.describe(&meant).map_err(|error| refusal(call, &params.id, error))?;
    let running = history.running(&entry).map(running);
    Ok(HistoryEntry { running, ..describe(&history, entry) })
}

fn running(running: Running) -> HistoryRunning {
    HistoryRunning { pid: running.pid, evidence: running.evidence.translated() }
}

fn describe(history: &History<'_>, entry: Entry) -> HistoryEntry {
    let agent = entry.agent().to_owned();
    let workspace = entry.workspace().map(|path| path.to_string_lossy().into_owned());
    let active = Timestamp::from_millis(entry.active_ms());
    let Entry { session, conversation, first_prompt } = entry;
    let recorded = conversation.as_ref().map(|found| found.transcript.id.clone());
    let id = session.as_ref().map(|view| view.id.clone()).or_else(|| recorded.clone()).unwrap_or_default();
    let spent = session.as_ref().map(|view| usage_of(view.spent.clone()));
    let (file, bytes) = (
        conversation.as_ref().map(|found| history.file(&found.transcript)),
        conversation.as_ref().and_then(|found| found.bytes),
    );
    let summary = conversation.map(|found| found.summary).unwrap_or_default();
    HistoryEntry {
        id,
        agent,
        conversation: recorded.or_else(|| session.as_ref()?.agent_session.clone()),
        status: session.as_ref().map(|view| view.status.translated()),
        title: session.as_ref().and_then(|view| view.name.clone().or_else(|| view.title.clone())).or(summary.title),
        model: summary.model.or_else(|| session.as_ref()?.reported_model.clone()),
        began: summary.began_ms.or(session.as_ref().map(|view| view.created_ms)).map(Timestamp::from_millis),
        session: session.map(|view| view.id),
        workspace,
        first_prompt: summary.first_prompt.or(first_prompt),
        messages: summary.messages,
        branch: summary.branch,
        usage: summary.usage.map(usage).or(spent),
        active,
        file: file.map(|file| file.to_string_lossy().into_owned()),
        bytes,
        running: None,
    }
}

fn usage(told: Usage) -> SessionUsage {
    let Usage { input_tokens, output_tokens, cached_tokens, cost_usd, context_used, context_size, .. } = told;
    SessionUsage { input_tokens, output_tokens, cached_tokens, cost_usd, context_used, context_size }
}

fn position(text: &str) -> Result<Position, RpcError> {
    let bad = |_| RpcError::new(ErrorKind::BadParams, format!("`{}` is not a position", text.escape_debug()));
    text.parse()
        .map_err(bad)
        .map_err(|error| error.hint("use a position of this conversation, unchanged, or leave it out"))
}

pub(crate) fn messages(
    wait: &MayWait,
    call: &Call,
    params: HistoryMessagesParams,
    gone: &dyn Fn() -> bool,
) -> Result<HistoryMessages, RpcError> {
    let begin = match (&params.from, &params.before, params.number) {
        (None, None, None) => Begin::Last,
        (Some(from), None, None) => Begin::From(position(from)?),
        (None, Some(before), None) => Begin::Before(position(before)?),
        (None, None, Some(number)) => Begin::Number(number),
        _ => {
            return Err(RpcError::new(
                ErrorKind::BadParams,
                "history.messages: use one of `from`, `before` and `number`",
            ));
        }
    };
    let history = call.engine().history(wait);
    let meant = find(call, &history, &params.id)?;
    let limit = most(params.limit, MESSAGES, usize::MAX);
    let wait = if matches!(begin, Begin::From(_)) { params.wait_ms.min(WAIT_MAX) } else { 0 };
    let page = history.follow(&meant, begin, limit, Duration::from_millis(wait), gone);
    let page = page.map_err(|error| refusal(call, &params.id, error))?;
    let Page { messages, before, older, next, newer, changed, unread } = page;
    Ok(HistoryMessages {
        messages: messages.into_iter().map(message).collect(),
        before: before.to_string(),
        older,
        next: next.to_string(),
        newer,
        changed: changed.map(Translate::translated),
        unread,
    })
}

fn message(placed: Placed) -> HistoryMessage {
    let Placed { position, message, cut } = placed;
    HistoryMessage {
        position: position.to_string(),
        id: message.id,
        time: message.time_ms.map(Timestamp::from_millis),
        speaker: message.speaker.translated(),
        elements: message.elements.into_iter().map(element).collect(),
        cut,
    }
}

fn bare(kind: HistoryElementKind) -> HistoryElement {
    HistoryElement {
        kind,
        text: None,
        id: None,
        name: None,
        title: None,
        input: None,
        is_error: false,
        diffs: Vec::new(),
        mime: None,
        bytes: None,
    }
}

fn element(element: Element) -> HistoryElement {
    let worded = |kind, text| HistoryElement { text: Some(text), ..bare(kind) };
    match element {
        Element::Text(text) => worded(HistoryElementKind::Text, text),
        Element::Thought(text) => worded(HistoryElementKind::Thought, text),
        Element::Compaction(text) => worded(HistoryElementKind::Compaction, text),
        Element::Notice(text) => worded(HistoryElementKind::Notice, text),
        Element::Image { mime, bytes } => {
            HistoryElement { mime: Some(mime), bytes: Some(bytes), ..bare(HistoryElementKind::Image) }
        }
        Element::Tool(ToolCall { id, name, title, input, diffs: changed, .. }) => HistoryElement {
            id: Some(id),
            name: Some(name),
            title: Some(title),
            input: Some(input),
            diffs: diffs(changed),
            ..bare(HistoryElementKind::Tool)
        },
        Element::Result { id, output, is_error, diffs: changed } => HistoryElement {
            id: Some(id),
            is_error,
            diffs: diffs(changed),
            ..worded(HistoryElementKind::Result, output)
        },
    }
}

pub(crate) fn search(
    wait: &MayWait,
    call: &Call,
    params: HistorySearchParams,
    gone: &dyn Fn() -> bool,
) -> Result<HistoryFound, RpcError> {
    let needle = Needle::new(&params.query).ok_or_else(|| {
        RpcError::new(ErrorKind::BadParams, "a query has 1 to 512 bytes").hint("write what to look for")
    })?;
    let history = call.engine().history(wait);
    let limit = most(params.limit, HITS, HITS_MAX);
    let within = Duration::from_millis(if params.within_ms == 0 { WITHIN } else { params.within_ms.min(WITHIN_MAX) });
    let mut wanted = Wanted { limit, each: most(params.each, EACH, HITS_MAX), within };
    let filter = filter(params.workspace, params.agent);
    let searched = match &params.id {
        None => history.search(&needle, &filter, &sees(call), wanted, gone),
        Some(id) => {
            let meant = find(call, &history, id)?;
            let entry = history.describe(&meant).map_err(|error| refusal(call, id, error))?;
            wanted.each = limit;
            history.search_in(&needle, vec![entry], wanted, gone)
        }
    };
    let all = call.reaches(Target::Instance).is_ok();
    let Searched { entries, hits, searched, unsearched, bytes, unread, behind, unreadable } = searched;
    let mut conversations: Vec<HistoryFoundIn> = entries
        .into_iter()
        .map(|entry| HistoryFoundIn { conversation: describe(&history, entry), hits: Vec::new() })
        .collect();
    for found in hits {
        if let Some(conversation) = conversations.get_mut(found.entry) {
            conversation.hits.push(hit(found.hit));
        }
    }
    let (behind, unreadable) = if all { (behind, unreadable) } else { (0, Vec::new()) };
    Ok(HistoryFound { conversations, searched, unsearched, behind, bytes, unread, unreadable })
}

fn hit(hit: Hit) -> HistoryHit {
    HistoryHit {
        position: hit.position.to_string(),
        time: hit.time_ms.map(Timestamp::from_millis),
        speaker: hit.speaker.translated(),
        kind: hit.what.to_owned(),
        around: hit.around,
    }
}
