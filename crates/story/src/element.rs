//! What was said in a conversation, message by message, whoever recorded it: our own journal or another program's transcript.
//!
//! A message is what one line or record holds. Elements are bounded before they leave: a transcript is another program's file.

use serde::{Deserialize, Serialize};

use crate::{Block, Diff, Event, Fact, Json, Said, ToolCall};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person, or who speaks for one.
    Person,
    /// The agent.
    Agent,
    /// The program around both: results of tools, notices, compaction.
    Program,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The recorder's own id. One that comes again replaces the message that had it.
    pub id: Option<String>,
    /// When, in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// Who.
    pub speaker: Speaker,
    /// What, in its order; never empty.
    pub elements: Vec<Element>,
}

/// A piece of a message, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// Words.
    Text(String),
    /// A thought.
    Thought(String),
    /// A picture.
    Image {
        /// Its media type.
        mime: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A tool is used.
    Tool(ToolCall),
    /// What came of it.
    Result {
        /// The call.
        id: String,
        /// Its output as text.
        output: String,
        /// Whether it failed or was refused.
        is_error: bool,
        /// What it has changed, where the call did not tell.
        diffs: Vec<Diff>,
    },
    /// What was said before was summed up.
    Compaction(String),
    /// Something worth knowing, or an error.
    Notice(String),
}

/// 64 KiB: as much of one text as anybody reads on a page.
const TEXT_MAX: usize = 64 << 10;
/// 16 KiB of each text in a tool's input.
const INPUT_TEXT_MAX: usize = 16 << 10;
/// 1,024 values of a tool's input, at most 16 deep.
const INPUT_VALUES_MAX: usize = 1024;
const INPUT_DEPTH_MAX: usize = 16;
/// 256 KiB of changes.
const DIFFS_MAX: usize = 256 << 10;

impl Message {
    /// What a record of a session's journal says, if it says anything whole.
    pub fn of_record(record: u64, time_ms: u64, said: &[Said]) -> Option<Self> {
        let (mut speaker, mut elements) = (Speaker::Agent, Vec::new());
        for said in said {
            match said {
                Said::Fact(Fact::Prompt { blocks, .. }) => {
                    speaker = Speaker::Person;
                    elements.extend(blocks.iter().map(Element::of_block));
                }
                Said::Fact(Fact::Reworded { text, .. }) => {
                    speaker = Speaker::Person;
                    elements.push(Element::Text(text.clone()));
                }
                Said::Event(event) | Said::Fact(Fact::Said { event }) => elements.extend(Element::of_event(event)),
                Said::Fact(_) => {}
            }
        }
        let by_program =
            |element: &Element| !matches!(element, Element::Text(_) | Element::Thought(_) | Element::Tool(_));
        if speaker == Speaker::Agent && elements.iter().all(by_program) {
            speaker = Speaker::Program;
        }
        let id = Some(record.to_string());
        (!elements.is_empty()).then_some(Self { id, time_ms: Some(time_ms), speaker, elements })
    }

    /// Cuts what is too long to be shown; whether anything was.
    pub fn bound(&mut self) -> bool {
        let mut cut = false;
        for element in &mut self.elements {
            cut |= element.bound();
        }
        cut
    }

    /// Roughly what it takes on a page.
    pub fn weight(&self) -> usize {
        self.elements.iter().map(Element::weight).sum::<usize>() + 128
    }
}

impl Element {
    fn of_block(block: &Block) -> Self {
        match block {
            Block::Text { text } => Element::Text(text.clone()),
            Block::Image { mime, data } => Element::Image { mime: mime.clone(), bytes: decoded(data.len()) },
            Block::File { path } => Element::Text(path.clone()),
        }
    }

    /// What an event tells by itself: pieces of a block are not told, the whole is.
    pub fn of_event(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Text { text } => Element::Text(text.clone()),
            Event::Thought { text } => Element::Thought(text.clone()),
            Event::ToolCall(call) => Element::Tool(call.clone()),
            Event::ToolResult { id, output, is_error, diffs } => {
                Element::Result { id: id.clone(), output: output.clone(), is_error: *is_error, diffs: diffs.clone() }
            }
            Event::Notice { text } => Element::Notice(text.clone()),
            Event::Error { message, .. } => Element::Notice(message.clone()),
            _ => return None,
        })
    }

    /// Every text in it: what a search looks through.
    pub fn each_text(&self, look: &mut impl FnMut(&str)) {
        match self {
            Element::Text(text) | Element::Thought(text) | Element::Compaction(text) | Element::Notice(text) => {
                look(text)
            }
            Element::Image { mime, .. } => look(mime),
            Element::Tool(call) => {
                look(&call.name);
                each_string(&call.input, 0, look);
            }
            Element::Result { output, diffs, .. } => {
                look(output);
                diffs.iter().for_each(|diff| look(&diff.path));
            }
        }
    }

    fn bound(&mut self) -> bool {
        match self {
            Element::Text(text) | Element::Thought(text) | Element::Compaction(text) | Element::Notice(text) => {
                shorten(text, TEXT_MAX)
            }
            Element::Image { mime, .. } => shorten(mime, 256),
            Element::Tool(call) => {
                let mut left = INPUT_VALUES_MAX;
                let names = shorten(&mut call.name, 256) | shorten(&mut call.title, 1024) | shorten(&mut call.id, 256);
                names | bound_input(&mut call.input, 0, &mut left) | bound_diffs(&mut call.diffs)
            }
            Element::Result { id, output, diffs, .. } => {
                shorten(id, 256) | shorten(output, TEXT_MAX) | bound_diffs(diffs)
            }
        }
    }

    fn weight(&self) -> usize {
        let diffs = |diffs: &[Diff]| diffs.iter().map(weight_of).sum::<usize>();
        let mut sum = 64;
        self.each_text(&mut |text| sum += text.len());
        sum + match self {
            Element::Tool(call) => diffs(&call.diffs),
            Element::Result { diffs: changed, .. } => diffs(changed),
            _ => 0,
        }
    }
}

/// How many bytes so much base64 stands for.
pub(crate) fn decoded(base64: usize) -> u64 {
    (base64 as u64 / 4).saturating_mul(3)
}

fn weight_of(diff: &Diff) -> usize {
    diff.path.len() + [&diff.old, &diff.new].into_iter().flatten().map(String::len).sum::<usize>()
}

fn bound_diffs(diffs: &mut Vec<Diff>) -> bool {
    let over = diffs.iter().map(weight_of).sum::<usize>() > DIFFS_MAX;
    if over {
        diffs.clear();
    }
    over
}

fn each_string(value: &Json, depth: usize, look: &mut impl FnMut(&str)) {
    match value {
        Json::String(text) => look(text),
        Json::Array(list) if depth < INPUT_DEPTH_MAX => {
            list.iter().for_each(|value| each_string(value, depth + 1, look))
        }
        Json::Object(members) if depth < INPUT_DEPTH_MAX => {
            members.values().for_each(|value| each_string(value, depth + 1, look));
        }
        _ => {}
    }
}

fn bound_input(value: &mut Json, depth: usize, left: &mut usize) -> bool {
    if depth > INPUT_DEPTH_MAX || *left == 0 {
        *value = Json::Null;
        return true;
    }
    *left -= 1;
    match value {
        Json::String(text) => shorten(text, INPUT_TEXT_MAX),
        Json::Array(list) => {
            let over = list.len() > INPUT_VALUES_MAX;
            list.truncate(INPUT_VALUES_MAX);
            list.iter_mut().fold(over, |cut, value| bound_input(value, depth + 1, left) | cut)
        }
        Json::Object(members) => {
            members.values_mut().fold(false, |cut, value| bound_input(value, depth + 1, left) | cut)
        }
        _ => false,
    }
}

fn shorten(text: &mut String, max: usize) -> bool {
    if text.len() <= max {
        return false;
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    text.shrink_to_fit();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolKind;
    use serde_json::json;

    fn message(element: Element) -> Message {
        Message { id: None, time_ms: None, speaker: Speaker::Agent, elements: vec![element] }
    }

    #[test]
    fn what_is_too_long_is_cut_and_said_to_be() {
        let mut long = message(Element::Text("é".repeat(TEXT_MAX)));
        assert!(long.bound() && !long.bound(), "once");
        assert!(matches!(&long.elements[0], Element::Text(text) if text.len() <= TEXT_MAX));
        let input = json!({"content": "x".repeat(1 << 20), "file_path": "/a", "list": vec![1; 5000]});
        let mut call = message(Element::Tool(ToolCall::new("1", "Write", ToolKind::Edit, input)));
        assert!(call.bound());
        assert!(call.weight() < 64 << 10, "{}", call.weight());
        assert!(!message(Element::Text("short".into())).bound());
    }

    #[test]
    fn a_deep_input_is_cut_without_a_deep_stack() {
        let mut deep = json!("needle");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let mut found = 0;
        let mut message = message(Element::Tool(ToolCall::new("1", "x", ToolKind::Other, deep)));
        message.elements[0].each_text(&mut |text| found += usize::from(text == "needle"));
        assert_eq!(found, 0);
        assert!(message.bound());
    }

    #[test]
    fn a_record_tells_what_is_whole_and_who_said_it() {
        let told = |said: &[Said]| Message::of_record(7, 9, said);
        assert_eq!(told(&[Said::Event(Event::TextDelta { text: "a".into() })]), None);
        let text = told(&[Said::Event(Event::Text { text: "a".into() })]).unwrap();
        assert_eq!((text.speaker, text.id.as_deref(), text.time_ms), (Speaker::Agent, Some("7"), Some(9)));
        let result = told(&[Said::Event(Event::tool_result("1", "out", true))]).unwrap();
        assert_eq!(result.speaker, Speaker::Program);
    }
}
