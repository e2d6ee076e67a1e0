//! `$CODEX_HOME/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`: what the model was sent and sent back, and events about it. What a
//! person said is taken from the events, because what the model is sent holds much that nobody typed.

use ostler_story::{Diff, Element, Json, Message, Speaker, ToolCall, ToolKind, Usage};
use serde_json::json;

use super::{About, Told, time};
use crate::json;

/// What is read.
pub(super) const KINDS: &[&str] = &["session_meta", "turn_context", "response_item", "event_msg", "compacted"];

pub(super) fn told(kind: &str, line: &Json) -> Told {
    let payload = line.get("payload").unwrap_or(&Json::Null);
    let text = |path: &[&str]| json::text(payload, path).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut about = About { time_ms: time::of(line), ..About::default() };
    let said = match kind {
        "session_meta" => {
            about.id = text(&["id"]);
            about.workspace = text(&["cwd"]);
            about.branch = text(&["git", "branch"]);
            None
        }
        "turn_context" => {
            about.workspace = text(&["cwd"]);
            about.model = text(&["model"]);
            None
        }
        "compacted" => Some((Speaker::Program, vec![Element::Compaction(text(&["message"]).unwrap_or_default())])),
        "response_item" => item(payload),
        _ => event(payload, &mut about),
    };
    let id = text(&["id"]).or_else(|| text(&["item", "id"]));
    let message = said.map(|(speaker, elements)| Message { id, time_ms: about.time_ms, speaker, elements });
    Told { message, about }
}

type SaidBy = (Speaker, Vec<Element>);

fn event(payload: &Json, about: &mut About) -> Option<SaidBy> {
    let text = |name: &str| json::text_or_empty(payload, &[name]);
    match json::text(payload, &["type"])? {
        "user_message" => Some((Speaker::Person, vec![Element::Text(text("message"))])),
        "item_completed" => completed(payload.get("item")?),
        "patch_apply_end" => Some((Speaker::Program, vec![changed(payload, &text("call_id"))])),
        "token_count" => {
            let total = json::at(payload, &["info", "total_token_usage"])?;
            about.total = Some(Usage {
                input_tokens: json::number(total, &["input_tokens"]),
                output_tokens: json::number(total, &["output_tokens"]),
                cached_tokens: json::number(total, &["cached_input_tokens"]),
                ..Usage::default()
            });
            None
        }
        "thread_name_updated" => {
            about.title = json::text(payload, &["thread_name"]).map(str::to_owned);
            None
        }
        "error" => Some((Speaker::Program, vec![Element::Notice(text("message"))])),
        "turn_aborted" => Some((Speaker::Program, vec![Element::Notice("the turn was interrupted".to_owned())])),
        _ => None,
    }
}

/// Only what the model's own items do not tell.
fn completed(item: &Json) -> Option<SaidBy> {
    match json::text(item, &["type"])? {
        "UserMessage" => Some((Speaker::Person, parts(item))),
        "FileChange" => Some((Speaker::Program, vec![changed(item, &json::text_or_empty(item, &["id"]))])),
        _ => None,
    }
}

/// What was written to files, which the call tells only in the words of a patch.
fn changed(item: &Json, call: &str) -> Element {
    let change = |(path, change): (&String, &Json)| {
        let text = |name: &str| json::text(change, &[name]);
        let diff = text("unified_diff").or(text("content")).unwrap_or_default();
        json!({"path": path, "kind": text("type").unwrap_or("update"), "diff": diff})
    };
    let changes: Vec<Json> = item.get("changes").and_then(Json::as_object).into_iter().flatten().map(change).collect();
    let failed = json::text(item, &["status"]).is_some_and(|status| status != "completed")
        || item.get("success").and_then(Json::as_bool) == Some(false);
    Element::Result {
        id: call.to_owned(),
        output: json::text_or_empty(item, &["stdout"]),
        is_error: failed,
        diffs: Diff::all_in(&json!({ "changes": changes })),
    }
}

fn item(payload: &Json) -> Option<SaidBy> {
    let text = |name: &str| json::text_or_empty(payload, &[name]);
    let call = |name: String, input: Json| {
        let id = json::text(payload, &["call_id"]).or(json::text(payload, &["id"])).unwrap_or_default();
        Some((Speaker::Agent, vec![Element::Tool(tool(id, name, input))]))
    };
    match json::text(payload, &["type"])? {
        "message" if json::text(payload, &["role"]) == Some("assistant") => Some((Speaker::Agent, parts(payload))),
        "reasoning" => {
            let part = |name| json::list(payload, &[name]).iter().filter_map(|part| json::text(part, &["text"]));
            let thought = part("summary").chain(part("content")).collect::<Vec<_>>().join("\n");
            Some((Speaker::Agent, Vec::from_iter((!thought.is_empty()).then_some(Element::Thought(thought)))))
        }
        "function_call" => {
            let arguments = text("arguments");
            call(text("name"), serde_json::from_str(&arguments).unwrap_or(Json::String(arguments)))
        }
        "custom_tool_call" => call(text("name"), json!({ "input": text("input") })),
        "local_shell_call" => call("shell".to_owned(), payload.get("action").cloned().unwrap_or_default()),
        "web_search_call" => call("web_search".to_owned(), payload.get("action").cloned().unwrap_or_default()),
        "function_call_output" | "custom_tool_call_output" => {
            let output = payload.get("output").unwrap_or(&Json::Null);
            let is_error = output.get("success").and_then(Json::as_bool) == Some(false);
            let output = crate::claude::lines::output(output.get("content").unwrap_or(output));
            let (id, diffs) = (text("call_id"), Vec::new());
            Some((Speaker::Program, vec![Element::Result { id, output, is_error, diffs }]))
        }
        _ => None,
    }
}

fn tool(id: &str, name: String, input: Json) -> ToolCall {
    let kind = match name.as_str() {
        "exec_command" | "shell" | "local_shell" | "write_stdin" | "shell_command" => ToolKind::Execute,
        "apply_patch" => ToolKind::Edit,
        "web_search" => ToolKind::Fetch,
        "view_image" => ToolKind::Read,
        "update_plan" => ToolKind::Think,
        _ => ToolKind::Other,
    };
    let command = input.get("cmd").or_else(|| input.get("command")).or_else(|| input.get("query"));
    let title = match command {
        Some(Json::String(text)) => json::title(text),
        Some(Json::Array(words)) => json::title(&words.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(" ")),
        _ => name.clone(),
    };
    ToolCall::new(id, name, kind, input).titled(title)
}

fn parts(message: &Json) -> Vec<Element> {
    let part = |part: &Json| match json::text(part, &["type"])? {
        "text" | "Text" | "input_text" | "output_text" => Some(Element::Text(json::text_or_empty(part, &["text"]))),
        "image" | "Image" | "input_image" | "local_image" => {
            Some(super::picture("image".to_owned(), json::text(part, &["image_url"])))
        }
        _ => None,
    };
    json::list(message, &["content"]).iter().filter_map(part).collect()
}
