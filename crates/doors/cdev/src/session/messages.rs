//! `session/messages`: what was said, message by message, in the words that clients of claude know.

use std::time::Instant;

use ostler_engine::MayWait;
use ostler_engine::history::{Begin, History, Meant, Placed};
use ostler_story::{Element, Message, Speaker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{find, time, unread};
use crate::error::Error;
use crate::method::Call;

const USUALLY: u32 = 50;
const MOST: u32 = 500;
/// Bytes of the messages of one answer, roughly.
const BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    #[default]
    Asc,
    Desc,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct MessagesParams {
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<u32>,
    #[serde(default)]
    pub(crate) offset: u64,
    #[serde(default)]
    pub(crate) order: Order,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Messages {
    pub(crate) session_id: String,
    pub(crate) messages: Vec<SessionMessage>,
    pub(crate) total: u64,
    pub(crate) limit: u32,
    pub(crate) offset: u64,
    pub(crate) has_more: bool,
    pub(crate) query_time_ms: f64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionMessage {
    pub(crate) id: String,
    pub(crate) session_id: String,
    /// `user`, `assistant` or `system`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    /// `role` and `content`.
    pub(crate) message: Value,
    pub(crate) is_context_compaction: bool,
    /// Something in it was too long and is cut.
    pub(crate) is_truncated: bool,
}

/// As many messages from this number on as fit.
pub(super) fn read(
    history: &History<'_>,
    meant: &Meant,
    from: u64,
    count: usize,
    id: &str,
) -> Result<Vec<Placed>, Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut begin = Begin::Number(from);
    while found.len() < count && bytes < BYTES_MAX {
        let page = history.page(meant, begin, count - found.len()).map_err(|error| unread(id, &error))?;
        bytes += page.messages.iter().map(|placed| placed.message.weight()).sum::<usize>();
        let (none, newer, next) = (page.messages.is_empty(), page.newer, page.next);
        found.extend(page.messages);
        if none || !newer {
            break;
        }
        begin = Begin::From(next);
    }
    found.truncate(count);
    Ok(found)
}

/// How many messages a conversation has.
pub(super) fn count(history: &History<'_>, meant: &Meant, id: &str) -> Result<u64, Error> {
    let entry = history.describe(meant).map_err(|error| unread(id, &error))?;
    if let Some(counted) = entry.conversation.and_then(|found| found.summary.messages) {
        return Ok(counted);
    }
    let mut total = 0;
    let mut begin = Begin::First;
    loop {
        let page = history.page(meant, begin, usize::MAX).map_err(|error| unread(id, &error))?;
        total += page.messages.len() as u64;
        if page.messages.is_empty() || !page.newer {
            return Ok(total);
        }
        begin = Begin::From(page.next);
    }
}

pub(crate) fn messages(wait: &MayWait, call: &Call, params: MessagesParams) -> Result<Messages, Error> {
    let began = Instant::now();
    let folder = call.within(params.workspace_id.as_deref())?;
    let history = call.state.engine.history(wait);
    let meant = find(&history, folder.as_deref(), params.agent_type.as_deref(), &params.session_id)?;
    let limit = super::most(params.limit, USUALLY, MOST);
    let total = count(&history, &meant, &params.session_id)?;
    let left = total.saturating_sub(params.offset);
    let wanted = left.min(u64::from(limit));
    let from = match params.order {
        Order::Asc => params.offset,
        Order::Desc => left - wanted,
    };
    let mut found = match wanted {
        0 => Vec::new(),
        wanted => read(&history, &meant, from, wanted as usize, &params.session_id)?,
    };
    let has_more = params.offset + (found.len() as u64) < total && !found.is_empty();
    if params.order == Order::Desc {
        found.reverse();
    }
    let messages = found.into_iter().map(|placed| said(placed, &params.session_id)).collect();
    let query_time_ms = began.elapsed().as_secs_f64() * 1000.0;
    Ok(Messages {
        session_id: params.session_id,
        messages,
        total,
        limit,
        offset: params.offset,
        has_more,
        query_time_ms,
    })
}

fn said(placed: Placed, session: &str) -> SessionMessage {
    let Placed { position, message, cut } = placed;
    let uuid = message.id.clone();
    SessionMessage {
        id: uuid.clone().unwrap_or_else(|| position.to_string()),
        session_id: session.to_owned(),
        kind: kind_of(&message).to_owned(),
        uuid,
        timestamp: message.time_ms.map(time),
        message: raw(&message),
        is_context_compaction: is_compaction(&message),
        is_truncated: cut,
    }
}

pub(crate) fn is_compaction(message: &Message) -> bool {
    message.elements.iter().any(|element| matches!(element, Element::Compaction(_)))
}

/// Who speaks, in the words of claude's own lines: results of tools come from the user.
pub(crate) fn kind_of(message: &Message) -> &'static str {
    let result = || message.elements.iter().any(|element| matches!(element, Element::Result { .. }));
    match message.speaker {
        Speaker::Person => "user",
        Speaker::Agent => "assistant",
        Speaker::Program if result() => "user",
        Speaker::Program => "system",
    }
}

/// A message as a model would be given it.
fn raw(message: &Message) -> Value {
    let role = kind_of(message);
    match message.elements.as_slice() {
        [Element::Text(text)] if message.speaker == Speaker::Person => json!({ "role": role, "content": text }),
        elements => json!({ "role": role, "content": elements.iter().map(block).collect::<Vec<_>>() }),
    }
}

fn block(element: &Element) -> Value {
    match element {
        Element::Text(text) | Element::Compaction(text) | Element::Notice(text) => {
            json!({"type": "text", "text": text})
        }
        Element::Thought(text) => json!({"type": "thinking", "thinking": text}),
        Element::Image { mime, bytes } => json!({"type": "image", "media_type": mime, "size": bytes}),
        Element::Tool(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}),
        Element::Result { id, output, is_error, .. } => {
            json!({"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error})
        }
    }
}
