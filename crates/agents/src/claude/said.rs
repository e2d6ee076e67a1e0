//! What one line of claude's output says by itself, for who shows lines and not turns: no fold, nothing is remembered.

use ostler_story::{Json, Message};

use crate::json;
use crate::transcript::{self, Recorder};

/// A line, as far as it tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// What claude calls it.
    pub kind: String,
    /// The conversation.
    pub session: Option<String>,
    /// The model that speaks.
    pub model: Option<String>,
    /// The program's version, where it begins.
    pub version: Option<String>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Tokens that it has written so far.
    pub output_tokens: Option<u64>,
    /// What the turn cost, where it ends.
    pub cost_usd: Option<f64>,
    /// How long the turn took, where it ends.
    pub duration_ms: Option<u64>,
    /// It thinks.
    pub thinking: bool,
    /// What was said before was summed up.
    pub compaction: bool,
    /// The message, if it is one.
    pub message: Option<Message>,
}

/// Reads a line; nothing for one that is no JSON object.
pub fn line(text: &[u8]) -> Option<Line> {
    let value = json::object(text)?;
    let word = |path: &[&str]| json::text(&value, path).map(str::to_owned);
    let kind = match (json::text(&value, &["type"]), json::text(&value, &["subtype"])) {
        (Some("system"), Some("init")) => "init",
        (kind, _) => kind.unwrap_or_default(),
    };
    let blocks = json::list(&value, &["message", "content"]);
    let thinking = blocks.iter().any(|block| json::text(block, &["type"]) == Some("thinking"));
    let compaction =
        json::text(&value, &["subtype"]) == Some("compact_boundary") || json::yes(&value, &["isCompactSummary"]);
    Some(Line {
        kind: kind.to_owned(),
        session: word(&["session_id"]).or_else(|| word(&["sessionId"])),
        model: word(&["message", "model"]).or_else(|| word(&["model"])),
        version: word(&["claude_code_version"]).or_else(|| word(&["version"])),
        stop_reason: word(&["message", "stop_reason"]).or_else(|| word(&["stop_reason"])),
        output_tokens: json::number(&value, &["message", "usage", "output_tokens"])
            .or_else(|| json::number(&value, &["usage", "output_tokens"])),
        cost_usd: value.get("total_cost_usd").and_then(Json::as_f64),
        duration_ms: json::number(&value, &["duration_ms"]),
        thinking,
        compaction,
        message: transcript::line(Recorder::Claude, text).and_then(|told| told.message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::{Element, Speaker};

    #[test]
    fn a_line_tells_what_it_says_and_nothing_of_the_others() {
        let said = line(
            br#"{"type":"assistant","session_id":"c1","message":{"role":"assistant","model":"m","stop_reason":"tool_use","usage":{"output_tokens":150},"content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/a"}}]}}"#,
        )
        .unwrap();
        assert_eq!((said.kind.as_str(), said.session.as_deref()), ("assistant", Some("c1")));
        assert_eq!((said.stop_reason.as_deref(), said.output_tokens), (Some("tool_use"), Some(150)));
        assert!(!said.thinking && !said.compaction);
        let message = said.message.unwrap();
        assert_eq!(message.speaker, Speaker::Agent);
        assert!(matches!(&message.elements[..], [Element::Text(_), Element::Tool(_)]), "{message:?}");
    }

    #[test]
    fn the_beginning_is_told_by_its_own_word() {
        let said =
            line(br#"{"type":"system","subtype":"init","session_id":"c","model":"m","claude_code_version":"2"}"#);
        let said = said.unwrap();
        assert_eq!((said.kind.as_str(), said.version.as_deref(), said.message), ("init", Some("2"), None));
        assert!(line(br#"{"type":"system","subtype":"compact_boundary"}"#).unwrap().compaction);
    }

    #[test]
    fn what_is_no_object_says_nothing() {
        for text in [&b"this line is not JSON"[..], b"5", b"", b"{", b"null"] {
            assert_eq!(line(text), None);
        }
    }
}
