//! What a client is told during a turn, one notification for each.

use ostler_door_rpc::{fitting, fitting_pieces, notify_of};
use ostler_story::{Asked, PlanEntry, PlanStatus, Usage};
use serde_json::{Value, json};

use crate::spelling;

/// As much of a text as a line holds twice with ease, however it is escaped: clients read no more than 8 MiB.
const TEXT_MAX: usize = 2 * 1024 * 1024;
/// A request is read by a person in a box of a few lines.
const SUMMARY_MAX: usize = 1000;
/// What clients show as the time that is left, where the request itself has no limit.
const TIMEOUT_SECS: u64 = 120;

/// Writes the updates of one session.
#[derive(Debug, Clone)]
pub(crate) struct Updates {
    session: String,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Cancelled,
    Failed,
}

impl Updates {
    /// For the session that the client calls this.
    pub(crate) fn of(session: &str) -> Self {
        Self { session: session.to_owned() }
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn message(&self, text: &str, out: &mut Vec<u8>) {
        self.text("agent_message_chunk", text, out);
    }

    pub(crate) fn thought(&self, text: &str, out: &mut Vec<u8>) {
        self.text("agent_thought_chunk", text, out);
    }

    /// The agent asks what can not be shown here.
    pub(crate) fn waits(&self, question: &str, out: &mut Vec<u8>) {
        self.thought(&format!("Waiting for an answer: {question}\nGive it with `ostler approvals`.\n"), out);
    }

    /// In as many lines as it takes.
    fn text(&self, kind: &str, text: &str, out: &mut Vec<u8>) {
        fitting_pieces(text, TEXT_MAX).for_each(|piece| self.push(kind, json!({"text": piece}), out));
    }

    pub(crate) fn tool_call(&self, id: &str, name: &str, input: &Value, out: &mut Vec<u8>) {
        self.push("tool_call", json!({"tool_call_id": id, "name": name, "raw_input": fits(input)}), out);
    }

    pub(crate) fn tool_result(&self, id: &str, name: &str, output: &str, out: &mut Vec<u8>) {
        let output = cut(output, TEXT_MAX);
        self.push("tool_result", json!({"tool_call_id": id, "name": name, "raw_output": output}), out);
    }

    pub(crate) fn plan(&self, entries: &[PlanEntry], out: &mut Vec<u8>) {
        let entry = |entry: &PlanEntry| {
            let status = match entry.status {
                PlanStatus::Pending => "pending",
                PlanStatus::Running => "in_progress",
                PlanStatus::Done => "completed",
            };
            json!({"content": entry.text, "status": status, "priority": "medium"})
        };
        self.push("plan", json!({"entries": entries.iter().map(entry).collect::<Vec<_>>()}), out);
    }

    /// Nothing, where the agent gave no figure that clients know.
    pub(crate) fn usage(&self, usage: &Usage, out: &mut Vec<u8>) {
        let Some(used) = usage.context_used.or(usage.input_tokens) else { return };
        let mut figures = json!({"input_tokens": used, "input_tokens_source": "provider"});
        if let (Some(members), Some(size)) = (figures.as_object_mut(), usage.context_size) {
            members.insert("max_context_tokens".to_owned(), size.into());
        }
        self.push("context_usage", figures, out);
    }

    /// A request of the agent that waits in the inbox; `left` is the time until it is denied, where it has any.
    pub(crate) fn approval(&self, id: &str, asked: &Asked, left: Option<u64>, out: &mut Vec<u8>) {
        let update = json!({
            "request_id": id,
            "tool_name": asked.tool,
            "arguments_summary": Summary::of(asked).text,
            "arguments": fits(&asked.input),
            "timeout_secs": left.map_or(TIMEOUT_SECS, |millis| millis.div_ceil(1000)),
        });
        self.push("approval_request", update, out);
    }

    /// A request that was shown waits no longer. There is no word for that but the request itself, which takes the place of
    /// the one that is on the screen: whatever is answered to it comes to nothing.
    pub(crate) fn settled(&self, id: &str, title: &str, how: &str, out: &mut Vec<u8>) {
        let summary = one_line(&format!("{title}: nothing is left to decide. Any of these keys closes this."));
        let update = json!({
            "request_id": id,
            "tool_name": how,
            "arguments_summary": cut(&summary, SUMMARY_MAX),
            "timeout_secs": 0,
            "resolved": true,
        });
        self.push("approval_request", update, out);
    }

    pub(crate) fn turn_complete(&self, outcome: Outcome, content: &str, generation: Option<u64>, out: &mut Vec<u8>) {
        let outcome = match outcome {
            Outcome::Completed => "completed",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed => "failed",
        };
        let mut update = json!({"outcome": outcome, "content": cut(content, TEXT_MAX)});
        if let (Some(members), Some(generation)) = (update.as_object_mut(), generation) {
            members.insert("client_turn_generation".to_owned(), generation.into());
        }
        self.push("turn_complete", update, out);
    }

    fn push(&self, kind: &str, mut update: Value, out: &mut Vec<u8>) {
        if let Some(members) = update.as_object_mut() {
            members.insert("session_id".to_owned(), self.session.as_str().into());
            members.insert("type".to_owned(), kind.into());
        }
        // A value always serialises.
        let _ = notify_of(out, "session/update", &spelling::both(update));
    }
}

/// Clients have five lines for a request, its name and their keys: what has more than one of its own pushes the keys out.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A request in a few words.
pub(crate) struct Summary {
    pub(crate) text: String,
    /// Nothing of it was left out.
    pub(crate) whole: bool,
}

impl Summary {
    pub(crate) fn of(asked: &Asked) -> Self {
        let text = match &asked.input {
            Value::Null => asked.title.clone(),
            input => format!("{} {input}", asked.title),
        };
        let text = one_line(&text);
        let shown = cut(&text, SUMMARY_MAX);
        Self { whole: shown == text, text: shown }
    }
}

/// A value as it is, or the beginning of its text where it is too large.
pub(crate) fn fits(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() > TEXT_MAX { Value::from(cut(&text, TEXT_MAX)) } else { value.clone() }
}

/// So much of a text that it has at most so many bytes in a line, and a word about the rest.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let end = fitting(text, max);
    match text.get(end..) {
        None | Some("") => text.to_owned(),
        Some(rest) => format!("{}… ({} bytes more)", text.get(..end).unwrap_or_default(), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(write: impl FnOnce(&Updates, &mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&Updates::of("s"), &mut out);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["method"], &line["params"]["session_id"]), (&json!("session/update"), &json!("s")));
        line["params"].clone()
    }

    #[test]
    fn members_come_in_both_spellings() {
        let call = sent(|updates, out| updates.tool_call("tc_1", "bash", &json!({"some_key": 1}), out));
        assert_eq!((&call["toolCallId"], &call["tool_call_id"]), (&json!("tc_1"), &json!("tc_1")));
        assert_eq!((&call["rawInput"], &call["sessionId"]), (&json!({"some_key": 1}), &json!("s")));
    }

    #[test]
    fn what_a_tool_said_is_cut_between_letters_and_says_so() {
        let long = "ü".repeat(TEXT_MAX);
        let result = sent(|updates, out| updates.tool_result("a", "b", &long, out));
        let shown = result["raw_output"].as_str().unwrap();
        assert!(
            shown.len() < TEXT_MAX + 40 && shown.ends_with(&format!("… ({TEXT_MAX} bytes more)")),
            "{}",
            shown.len()
        );
        let input = sent(|updates, out| updates.tool_call("a", "b", &json!({"text": long}), out));
        assert!(input["raw_input"].as_str().unwrap().starts_with("{\"text\":\"ü"));
    }

    #[test]
    fn no_line_is_longer_than_clients_read_whatever_has_to_be_escaped() {
        let worst = "\u{1}".repeat(3 * TEXT_MAX);
        let mut out = Vec::new();
        let updates = Updates::of("s");
        updates.message(&worst, &mut out);
        updates.tool_result("a", "b", &worst, &mut out);
        updates.tool_call("a", "b", &json!({"text": worst}), &mut out);
        updates.turn_complete(Outcome::Failed, &worst, None, &mut out);
        let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
        assert!(
            lines.iter().all(|line| line.len() < crate::FRAME_MAX),
            "{:?}",
            lines.iter().map(|line| line.len()).max()
        );
        let told: usize = lines
            .iter()
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter_map(|line| line["params"]["text"].as_str().map(str::len))
            .sum();
        assert_eq!(told, worst.len(), "words are told in pieces, never cut");
    }

    #[test]
    fn no_figure_is_made_up() {
        let mut out = Vec::new();
        Updates::of("s").usage(&Usage { output_tokens: Some(3), ..Usage::default() }, &mut out);
        assert!(out.is_empty());
        let usage = Usage { context_used: Some(5), context_size: Some(9), ..Usage::default() };
        let sent = sent(|updates, out| updates.usage(&usage, out));
        assert_eq!((&sent["input_tokens"], &sent["max_context_tokens"]), (&json!(5), &json!(9)));
    }
}
