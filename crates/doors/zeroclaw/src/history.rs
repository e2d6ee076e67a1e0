//! What was said in a session, as messages. Everything here may wait for the disk.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_door_rpc::escaped;
use ostler_engine::MayWait;
use ostler_engine::session::{Session, Sessions};
use ostler_story::{Block, Piece, Said, Story, Voice, said};
use serde::Serialize;
use serde_json::Value;

use crate::update::{cut, fits};

/// Of one message so much is told, as it stands in a line: a page has room for some.
const MESSAGE_MAX: usize = 1024 * 1024;
/// What is around a message.
const FRAME: usize = 256;

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    role: &'static str,
    kind: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_input: Option<Value>,
}

impl Message {
    pub(crate) fn said(role: &'static str, content: String) -> Self {
        Self { role, kind: "message", content, tool_call_id: None, tool_name: None, tool_input: None }
    }

    /// About how many bytes it has on a line.
    pub(crate) fn size(&self) -> usize {
        let content: usize = self.content.chars().map(escaped).sum();
        content + self.tool_input.as_ref().map_or(0, |input| input.to_string().len()) + FRAME
    }
}

/// All of them, oldest first: of a conversation and of those that went on under the same name. Of a session that `upto`
/// knows a record of, those up to that.
pub(crate) fn of(wait: &MayWait, sessions: &[Session], upto: impl Fn(&str) -> Option<u64>) -> io::Result<Vec<Message>> {
    let mut history = History { keeps: true, ..History::default() };
    for session in sessions {
        history.read(wait, session, 0, upto(session.id()))?;
        history.cut_off();
    }
    Ok(history.messages)
}

/// How many messages each session holds, so that looking again reads only what was said since. Never more than there are
/// sessions.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<String, Counted>>);

#[derive(Default)]
struct Counted {
    upto: u64,
    history: History,
}

impl Counts {
    /// How many messages [`of`] would give. May wait for the disk.
    pub(crate) fn of(&self, wait: &MayWait, sessions: &[Session]) -> io::Result<usize> {
        let mut count = 0;
        for session in sessions {
            let known = self.all().remove(session.id());
            let mut known = known.unwrap_or_default();
            known.upto = known.history.read(wait, session, known.upto, None)?;
            count += known.history.count + usize::from(known.history.story.is_cut_off());
            self.all().insert(session.id().to_owned(), known);
        }
        Ok(count)
    }

    /// Forgets those that are gone.
    pub(crate) fn keep(&self, sessions: &Sessions) {
        let mut all = self.all();
        if all.len() > sessions.list().len() {
            all.retain(|id, _| sessions.get(id).is_some());
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct History {
    /// Whether the messages are wanted, or only how many there are.
    keeps: bool,
    messages: Vec<Message>,
    count: usize,
    story: Story,
}

impl History {
    /// What a session says after a record, up to another or its last; the last one that was read.
    fn read(&mut self, wait: &MayWait, session: &Session, after: u64, upto: Option<u64>) -> io::Result<u64> {
        let mut cursor = session.events(wait, after)?;
        cursor.read_upto(upto.unwrap_or(u64::MAX), |head, payload| {
            said(head.source, payload).into_iter().for_each(|one| self.take(one));
        })?;
        Ok(cursor.position())
    }

    fn push(&mut self, message: Message) {
        self.count += 1;
        if self.keeps {
            self.messages.push(message);
        }
    }

    /// What was being said when somebody stopped it was said.
    fn cut_off(&mut self) {
        if let Some(words) = self.story.cut_off() {
            self.answered(&words);
        }
    }

    fn answered(&mut self, text: &str) {
        self.push(Message::said("assistant", cut(text, MESSAGE_MAX)));
    }

    fn take(&mut self, said: Said) {
        for piece in self.story.take(said, false) {
            self.piece(piece);
        }
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Begun { prompt: Some(prompt), .. } => {
                self.push(Message::said("user", cut(&words(&prompt.blocks), MESSAGE_MAX)));
            }
            Piece::Whole { voice: Voice::Answer, text, .. } | Piece::CutOff(text) => self.answered(&text),
            Piece::Tool(call) => self.push(Message {
                role: "assistant",
                kind: "tool_call",
                content: call.title,
                tool_call_id: Some(call.id),
                tool_name: Some(call.name),
                tool_input: Some(fits(&call.input)),
            }),
            Piece::ToolEnded { id, name, output, .. } => self.push(Message {
                role: "tool",
                kind: "tool_result",
                content: cut(&output, MESSAGE_MAX),
                tool_call_id: Some(id),
                tool_name: name,
                tool_input: None,
            }),
            _ => {}
        }
    }
}

/// A prompt in words.
fn words(blocks: &[Block]) -> String {
    let word = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        Block::Image { mime, .. } => format!("[a picture, {mime}]"),
        Block::File { path } => format!("[Document: {path}]"),
    };
    blocks.iter().map(word).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::{Event, Fact, ToolCall, ToolKind};
    use serde_json::json;

    #[test]
    fn a_prompt_is_said_when_its_turn_comes_and_one_that_was_dropped_never() {
        let prompt = |number, text: &str| {
            let blocks = vec![Block::Text { text: text.into() }];
            Said::Fact(Fact::Prompt { number, key: None, blocks, door: "x".into() })
        };
        let call = Event::ToolCall(ToolCall::new("t", "bash", ToolKind::Execute, json!({"a": 1})).titled("ls"));
        let mut history = History { keeps: true, ..History::default() };
        for one in [
            prompt(1, "one"),
            prompt(2, "two"),
            prompt(3, "three"),
            Said::Fact(Fact::Turn { number: 1 }),
            Said::Event(call),
            Said::Event(Event::tool_result("t", "out", false)),
            Said::Event(Event::Text { text: "done".into() }),
            Said::Fact(Fact::Dropped { number: 2, why: "x".into() }),
            Said::Fact(Fact::Turn { number: 3 }),
        ] {
            history.take(one);
        }
        let told: Vec<_> = history.messages.iter().map(|one| (one.role, one.kind, one.content.as_str())).collect();
        let expected = [
            ("user", "message", "one"),
            ("assistant", "tool_call", "ls"),
            ("tool", "tool_result", "out"),
            ("assistant", "message", "done"),
            ("user", "message", "three"),
        ];
        assert_eq!(told, expected);
        assert_eq!(history.messages[2].tool_name.as_deref(), Some("bash"));
    }

    #[test]
    fn what_was_being_said_when_it_was_stopped_is_kept_and_nothing_comes_twice() {
        let delta = |text: &str| Said::Event(Event::TextDelta { text: text.into() });
        let mut history = History { keeps: true, ..History::default() };
        let ended = ostler_story::EndReason::Interrupted;
        for one in [
            delta("a "),
            delta("b"),
            Said::Event(Event::Text { text: "a b".into() }),
            delta("half"),
            Said::Event(Event::TurnEnded { reason: ended, message: None }),
            Said::Fact(Fact::Exited { source: 1, exit: ostler_story::Exit::Code(0), stderr: String::new() }),
        ] {
            history.take(one);
        }
        let told: Vec<_> = history.messages.iter().map(|one| one.content.as_str()).collect();
        assert_eq!(told, ["a b", "half"]);
    }
}
