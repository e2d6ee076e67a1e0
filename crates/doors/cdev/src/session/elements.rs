//! `session/elements`: a conversation as pieces that are drawn one below the other. An element is named after its message and its
//! place in it, so a name means the same for as long as the conversation is there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_engine::MayWait;
use ostler_engine::history::{Begin, History, Meant, Placed};
use ostler_engine::session::View;
use ostler_story::{Diff, Element, Json, Message, Speaker, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{find, messages, time, unread};
use crate::error::Error;
use crate::method::Call;

const USUALLY: u32 = 50;
const MOST: u32 = 100;
/// Lines of an output that are shown before anybody asks for more.
const SUMMARY_LINES: usize = 3;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct ElementsParams {
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<u32>,
    /// Those before this one.
    #[serde(default)]
    pub(crate) before: Option<String>,
    /// Those after this one.
    #[serde(default)]
    pub(crate) after: Option<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Elements {
    pub(crate) session_id: String,
    pub(crate) elements: Vec<UiElement>,
    pub(crate) pagination: Pagination,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Pagination {
    /// Elements of the whole conversation.
    pub(crate) total: u64,
    pub(crate) returned: usize,
    pub(crate) has_more_before: bool,
    pub(crate) has_more_after: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct UiElement {
    pub(crate) id: String,
    /// `user_input`, `assistant_text`, `thinking`, `tool_call`, `tool_result`, `diff`, `context_compaction` or `notice`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    pub(crate) content: Value,
}

/// How many elements conversations have, and how many messages those of ours that no agent recorded. They only grow: what was
/// counted once is not read again.
#[derive(Default)]
pub(crate) struct Counted {
    all: Mutex<HashMap<String, Count>>,
    /// By the session's own id: its last record, and how many messages there are up to it.
    ours: Mutex<HashMap<String, (u64, u64)>>,
}

/// So many messages have so many elements.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    messages: u64,
    elements: u64,
}

/// Conversations whose count is remembered: more than a client has open.
const COUNTED_MAX: usize = 256;
/// The newest messages may still become more: they are counted each time.
const STILL_GROW: u64 = 16;

impl Counted {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages a session of ours has.
    pub(super) fn messages(&self, history: &History<'_>, view: &View) -> u64 {
        let ours = || self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = ours().get(&view.id).filter(|(last, _)| *last == view.last) {
            return *count;
        }
        let found = history.find_exactly(&view.uuid).ok();
        let counted = found.and_then(|meant| messages::count(history, &meant, &view.uuid).ok());
        let Some(count) = counted else { return view.prompts };
        let mut ours = ours();
        if ours.len() >= COUNTED_MAX {
            ours.clear();
        }
        ours.insert(view.id.clone(), (view.last, count));
        count
    }

    fn elements(&self, history: &History<'_>, meant: &Meant, messages: u64, id: &str) -> Result<u64, Error> {
        let known = self.all().get(id).copied();
        // One that became shorter is another one.
        let mut settled = known.filter(|known| known.messages <= messages).unwrap_or_default();
        let mut count = settled;
        let mut begin = Begin::Number(count.messages);
        while count.messages < messages {
            let left = usize::try_from(messages - count.messages).unwrap_or(usize::MAX);
            let page = history.page(meant, begin, left).map_err(|error| unread(id, &error))?;
            if page.messages.is_empty() {
                break;
            }
            for placed in &page.messages {
                count.messages += 1;
                count.elements += drawn_of(&placed.message);
                if count.messages + STILL_GROW <= messages {
                    settled = count;
                }
            }
            begin = Begin::From(page.next);
        }
        let mut all = self.all();
        if all.len() >= COUNTED_MAX {
            all.clear();
        }
        all.insert(id.to_owned(), settled);
        Ok(count.elements)
    }
}

/// How many elements a message is drawn as.
fn drawn_of(message: &Message) -> u64 {
    let of = |element: &Element| match element {
        Element::Tool(call) => 1 + call.diffs.len() as u64,
        Element::Result { diffs, .. } => 1 + diffs.len() as u64,
        _ => 1,
    };
    message.elements.iter().map(of).sum()
}

/// A place among the elements: the message, and which of its elements.
fn place(id: &str) -> Result<(u64, usize), Error> {
    let odd = || Error::params("session/elements: `before` and `after` are ids of elements");
    let (message, index) = id.strip_prefix("elem_").and_then(|rest| rest.split_once('_')).ok_or_else(odd)?;
    Ok((message.parse().map_err(|_| odd())?, index.parse().map_err(|_| odd())?))
}

pub(crate) fn elements(wait: &MayWait, call: &Call, params: ElementsParams) -> Result<Elements, Error> {
    let folder = call.within(params.workspace_id.as_deref())?;
    let history = call.state.engine.history(wait);
    let meant = find(&history, folder.as_deref(), params.agent_type.as_deref(), &params.session_id)?;
    let limit = super::most(params.limit, USUALLY, MOST) as usize;
    let messages = messages::count(&history, &meant, &params.session_id)?;
    let total = call.state.counted.elements(&history, &meant, messages, &params.session_id)?;
    let before = params.before.as_deref().filter(|id| !id.is_empty()).map(place).transpose()?;
    let after = params.after.as_deref().filter(|id| !id.is_empty()).map(place).transpose()?;
    // Every message has an element at least: so many messages are enough on either side.
    let reach = limit as u64 + 1;
    let from = match (after, before) {
        (Some((message, _)), _) => message,
        (None, Some((message, _))) => message.saturating_sub(reach),
        (None, None) => messages.saturating_sub(reach),
    };
    let to = match (after, before) {
        (Some((message, _)), _) => message.saturating_add(reach + 1).min(messages),
        (None, Some((message, _))) => message.saturating_add(1).min(messages),
        (None, None) => messages,
    };
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    let found =
        if count == 0 { Vec::new() } else { messages::read(&history, &meant, from, count, &params.session_id)? };
    let ended = from + (found.len() as u64);
    let mut drawn = drawn(&found, from);
    drawn.retain(|(at, _)| after.is_none_or(|after| *at > after) && before.is_none_or(|before| *at < before));
    let more_before = from > 0 || after.is_some();
    let (mut has_more_before, mut has_more_after) = (more_before, ended < messages || before.is_some());
    if drawn.len() > limit {
        match after {
            Some(_) => {
                drawn.truncate(limit);
                has_more_after = true;
            }
            None => {
                drawn.drain(..drawn.len() - limit);
                has_more_before = true;
            }
        }
    }
    let elements: Vec<UiElement> = drawn.into_iter().map(|(_, element)| element).collect();
    let pagination = Pagination {
        total,
        returned: elements.len(),
        has_more_before,
        has_more_after,
        oldest_id: elements.first().map(|element| element.id.clone()),
        newest_id: elements.last().map(|element| element.id.clone()),
    };
    Ok(Elements { session_id: params.session_id, elements, pagination })
}

/// Every element of these messages, the first of which has this number.
fn drawn(found: &[Placed], from: u64) -> Vec<((u64, usize), UiElement)> {
    let mut outcomes: HashMap<&str, bool> = HashMap::new();
    let mut names: HashMap<&str, &str> = HashMap::new();
    for element in found.iter().flat_map(|placed| &placed.message.elements) {
        match element {
            Element::Result { id, is_error, .. } => drop(outcomes.insert(id, *is_error)),
            Element::Tool(call) => drop(names.insert(&call.id, &call.name)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for (number, placed) in (from..).zip(found) {
        let mut index = 0;
        let timestamp = placed.message.time_ms.map(time);
        for element in &placed.message.elements {
            for (kind, content) in pieces(&placed.message, element, &outcomes, &names) {
                let id = format!("elem_{number}_{index}");
                let kind = kind.to_owned();
                all.push(((number, index), UiElement { id, kind, timestamp: timestamp.clone(), content }));
                index += 1;
            }
        }
    }
    all
}

fn pieces(
    message: &Message,
    element: &Element,
    outcomes: &HashMap<&str, bool>,
    names: &HashMap<&str, &str>,
) -> Vec<(&'static str, Value)> {
    let one = |kind, content| vec![(kind, content)];
    match element {
        Element::Text(text) if message.speaker == Speaker::Person => one("user_input", json!({"text": text})),
        Element::Text(text) => one("assistant_text", json!({"text": text})),
        Element::Thought(text) => one("thinking", json!({"text": text, "collapsed": true})),
        Element::Image { mime, bytes } => one("user_input", json!({"text": format!("[{mime}, {bytes} bytes]")})),
        Element::Compaction(text) => one("context_compaction", json!({"summary": text})),
        Element::Notice(text) => one("notice", json!({"text": text})),
        Element::Tool(call) => {
            let mut pieces = one("tool_call", tool_call(call, outcomes.get(call.id.as_str()).copied()));
            pieces.extend(call.diffs.iter().map(|diff| ("diff", drawn_diff(&call.id, diff))));
            pieces
        }
        Element::Result { id, output, is_error, diffs } => {
            let mut pieces = one("tool_result", tool_result(id, names.get(id.as_str()).copied(), output, *is_error));
            pieces.extend(diffs.iter().map(|diff| ("diff", drawn_diff(id, diff))));
            pieces
        }
    }
}

fn tool_call(call: &ToolCall, outcome: Option<bool>) -> Value {
    let status = match outcome {
        Some(false) => "completed",
        Some(true) => "error",
        None => "running",
    };
    json!({"tool": call.name, "tool_id": call.id, "display": call.title, "params": call.input, "status": status})
}

fn tool_result(id: &str, name: Option<&str>, output: &str, is_error: bool) -> Value {
    let count = output.lines().count();
    let summary: Vec<&str> = output.lines().take(SUMMARY_LINES).collect();
    json!({
        "tool_call_id": id,
        "tool_name": name.unwrap_or_default(),
        "is_error": is_error,
        "summary": summary.join("\n"),
        "full_content": output,
        "line_count": count,
        "expandable": count > SUMMARY_LINES,
    })
}

/// A change as one hunk: what both sides begin and end with is left out.
fn drawn_diff(call: &str, diff: &Diff) -> Value {
    let lines = |text: &Option<String>| -> Vec<String> {
        text.as_deref().unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let (old, new) = (lines(&diff.old), lines(&diff.new));
    let same = old.iter().zip(&new).take_while(|(one, two)| one == two).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, two)| one == two).count();
    let gone = old.get(same..old.len() - tail).unwrap_or_default();
    let come = new.get(same..new.len() - tail).unwrap_or_default();
    let start = usize::try_from(diff.line.unwrap_or(1)).unwrap_or(1) + same;
    let drawn = |kind: &str, key: &str, part: &[String]| -> Vec<Json> {
        let line = |(index, content): (usize, &String)| json!({"type": kind, key: start + index, "content": content});
        part.iter().enumerate().map(line).collect()
    };
    let all = [drawn("removed", "old_line", gone), drawn("added", "new_line", come)].concat();
    let hunk = json!({
        "header": format!("@@ -{start},{} +{start},{} @@", gone.len(), come.len()),
        "old_start": start, "old_count": gone.len(), "new_start": start, "new_count": come.len(), "lines": all,
    });
    let (added, removed) = (come.len(), gone.len());
    json!({
        "tool_call_id": call,
        "file_path": diff.path,
        "summary": {"added": added, "removed": removed, "display": format!("+{added} -{removed}")},
        "hunks": [hunk],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_named_after_its_place_and_found_again() {
        assert_eq!(place("elem_12_3").unwrap(), (12, 3));
        for odd in ["", "elem_1", "12_3", "elem_x_1", "elem_-1_0"] {
            assert!(place(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn as_many_elements_are_counted_as_are_drawn() {
        let diff = Diff { path: "a".into(), old: None, new: Some("x".into()), line: None };
        let diffs = vec![diff.clone(), diff];
        let result = Element::Result { id: "t".into(), output: String::new(), is_error: false, diffs };
        let elements = vec![Element::Text("a".into()), Element::Thought("b".into()), result];
        let message = Message { id: None, time_ms: None, speaker: Speaker::Program, elements };
        let drawn = |element| pieces(&message, element, &HashMap::new(), &HashMap::new()).len();
        assert_eq!((drawn_of(&message), message.elements.iter().map(drawn).sum::<usize>()), (5, 5));
    }

    #[test]
    fn a_diff_shows_what_changed_and_nothing_that_did_not() {
        let diff =
            Diff { path: "a".into(), old: Some("1\n2\n3".into()), new: Some("1\nx\ny\n3".into()), line: Some(10) };
        let drawn = drawn_diff("t", &diff);
        assert_eq!(drawn["summary"], json!({"added": 2, "removed": 1, "display": "+2 -1"}));
        assert_eq!(drawn["hunks"][0]["header"], "@@ -11,1 +11,2 @@");
        assert_eq!(drawn["hunks"][0]["lines"][0], json!({"type": "removed", "old_line": 11, "content": "2"}));
        let same = Diff { path: "a".into(), old: Some("1\n1".into()), new: Some("1".into()), line: None };
        assert_eq!(drawn_diff("t", &same)["summary"]["display"], "+0 -1");
    }
}
