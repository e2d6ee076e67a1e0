//! What stands in a session's journal, read leniently: a daemon newer than this program says things that it has no word for,
//! and those are passed over.

use ostler_story::{Block, Event};
use serde::Deserialize;
use serde_json::Value;

/// One thing in a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// The agent said it, or the daemon in its place.
    Event(Event),
    /// The daemon did it, or was asked to.
    Fact(Fact),
}

/// What a daemon notes about a session.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Fact {
    /// Somebody's words for the agent.
    Prompt {
        number: u64,
        #[serde(default)]
        blocks: Vec<Block>,
        #[serde(default)]
        door: String,
    },
    /// A prompt that will not be answered.
    Dropped {
        number: u64,
        #[serde(default)]
        why: Value,
    },
    /// A process was started for the agent.
    Process {
        source: u32,
    },
    /// A prompt goes to the agent.
    Turn {
        number: u64,
    },
    /// A request of the agent is in the inbox.
    Approval {
        request: String,
        approval: String,
    },
    /// It was answered.
    Answered {
        request: String,
        #[serde(default)]
        approval: String,
        /// What was decided; its `answer` is the word for it.
        #[serde(default, alias = "answer")]
        decision: Value,
        #[serde(default)]
        by: Value,
    },
    /// The agent's own screen has the conversation.
    Screen {
        number: u32,
    },
    /// It has ended.
    ScreenEnded {
        number: u32,
    },
    /// Somebody wants the turn to stop.
    Interrupt {
        #[serde(default)]
        end_process: bool,
    },
    /// A process has ended.
    Exited {
        source: u32,
        #[serde(default)]
        code: Option<i32>,
        #[serde(default)]
        signal: Option<i32>,
        #[serde(default)]
        stderr: String,
    },
    /// The machine was restarted, and something waits.
    Held {},
    Closed {},
}

impl Said {
    /// `None` for what this version has no word for.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value.get("type")?.as_str()? {
            "said" => serde_json::from_value(value.get("event")?.clone()).ok().map(Self::Event),
            "prompt" | "dropped" | "process" | "turn" | "approval" | "answered" | "interrupt" | "exited" | "held"
            | "closed" => serde_json::from_value(value.clone()).ok().map(Self::Fact),
            _ => serde_json::from_value(value.clone()).ok().map(Self::Event),
        }
    }
}

/// A value that may be a plain word or an object that names itself, in one word or two.
pub(crate) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let named =
                ["answer", "decision", "name", "who", "place", "door"].iter().find_map(|name| members.get(*name));
            named.map_or_else(|| value.to_string(), word)
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_and_facts_are_told_apart_by_their_type() {
        assert!(matches!(Said::read(&json!({"type": "text", "text": "a"})), Some(Said::Event(Event::Text { .. }))));
        assert!(matches!(
            Said::read(&json!({"type": "turn", "number": 2, "new": 1})),
            Some(Said::Fact(Fact::Turn { number: 2 }))
        ));
        let said = json!({"type": "said", "event": {"type": "notice", "text": "n"}});
        assert!(matches!(Said::read(&said), Some(Said::Event(Event::Notice { .. }))));
    }

    #[test]
    fn words_of_a_newer_daemon_are_passed_over() {
        for value in [json!({"type": "sings"}), json!({}), json!(3), json!({"type": "prompt"})] {
            assert_eq!(Said::read(&value), None, "{value}");
        }
    }
}
