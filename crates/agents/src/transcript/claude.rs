//! `~/.claude/projects/FOLDER/ID.jsonl`: the messages of the conversation among much that the program notes for itself.

use ostler_story::{Element, Json, Message, Speaker, Usage};

use super::{About, Told, time};
use crate::claude::lines;
use crate::json;

/// What is read; everything else is the program's own.
pub(super) const KINDS: &[&str] = &["user", "assistant", "system", "summary", "ai-title", "custom-title", "cost-state"];

pub(super) fn told(kind: &str, line: &Json) -> Told {
    let text = |name: &str| json::text(line, &[name]).map(str::to_owned);
    let titled = |title: Option<String>| Told { about: About { title, ..About::default() }, message: None };
    match kind {
        "summary" => titled(text("summary")),
        "ai-title" => titled(text("aiTitle")),
        "custom-title" => titled(text("customTitle")),
        "cost-state" => Told { about: About { total: Some(total(line)), ..About::default() }, message: None },
        _ => Told { message: message(kind, line), about: about(line) },
    }
}

fn about(line: &Json) -> About {
    let text = |path: &[&str]| json::text(line, path).filter(|text| !text.is_empty()).map(str::to_owned);
    let usage = json::at(line, &["message", "usage"]).map(|usage| Usage {
        input_tokens: json::number(usage, &["input_tokens"]),
        output_tokens: json::number(usage, &["output_tokens"]),
        cached_tokens: json::number(usage, &["cache_read_input_tokens"]),
        ..Usage::default()
    });
    About {
        id: text(&["sessionId"]),
        workspace: text(&["cwd"]),
        branch: text(&["gitBranch"]),
        model: text(&["message", "model"]).filter(|model| !model.starts_with('<')),
        time_ms: time::of(line),
        step: text(&["message", "id"]).zip(usage),
        ..About::default()
    }
}

/// The count of the whole conversation, which goes on from process to process.
fn total(line: &Json) -> Usage {
    let models = json::at(line, &["modelUsage"]).and_then(Json::as_object);
    let sum = |name: &str| {
        let counts = models?.values().filter_map(|model| json::number(model, &[name]));
        Some(counts.fold(0_u64, u64::saturating_add))
    };
    Usage {
        input_tokens: sum("inputTokens"),
        output_tokens: sum("outputTokens"),
        cached_tokens: sum("cacheReadInputTokens"),
        cost_usd: line.get("totalCostUSD").and_then(Json::as_f64),
        ..Usage::default()
    }
}

fn message(kind: &str, line: &Json) -> Option<Message> {
    if json::yes(line, &["isMeta"]) || json::yes(line, &["isSidechain"]) {
        return None;
    }
    let (speaker, elements) = match kind {
        "user" => user(line),
        "assistant" if json::yes(line, &["isApiErrorMessage"]) => {
            let content = json::at(line, &["message", "content"]).map(lines::output).unwrap_or_default();
            (Speaker::Program, vec![Element::Notice(content)])
        }
        "assistant" => (Speaker::Agent, lines::assistant(line).iter().filter_map(Element::of_event).collect()),
        _ if json::text(line, &["subtype"]) == Some("compact_boundary") => {
            (Speaker::Program, vec![Element::Compaction(json::text_or_empty(line, &["content"]))])
        }
        _ => return None,
    };
    let id = json::text(line, &["uuid"]).map(str::to_owned);
    Some(Message { id, time_ms: time::of(line), speaker, elements })
}

fn user(line: &Json) -> (Speaker, Vec<Element>) {
    let content = json::at(line, &["message", "content"]).unwrap_or(&Json::Null);
    if json::yes(line, &["isCompactSummary"]) {
        return (Speaker::Program, vec![Element::Compaction(lines::output(content))]);
    }
    if let Json::String(text) = content {
        return (Speaker::Person, vec![Element::Text(text.clone())]);
    }
    let mut elements: Vec<Element> = lines::results(line).iter().filter_map(Element::of_event).collect();
    let speaker = if elements.is_empty() { Speaker::Person } else { Speaker::Program };
    for block in json::list(line, &["message", "content"]) {
        match json::text(block, &["type"]) {
            Some("text") => elements.push(Element::Text(json::text_or_empty(block, &["text"]))),
            Some("image") => elements.push(image(block)),
            // A tool may show a picture.
            Some("tool_result") => {
                let inner = json::list(block, &["content"]).iter();
                elements.extend(inner.filter(|part| json::text(part, &["type"]) == Some("image")).map(image));
            }
            _ => {}
        }
    }
    (speaker, elements)
}

fn image(block: &Json) -> Element {
    let mime = json::text(block, &["source", "media_type"]).unwrap_or("image").to_owned();
    super::picture(mime, json::text(block, &["source", "data"]))
}
