//! Transcripts that the real programs wrote in front of the scripted model, without what they tell the model of themselves.

use super::*;
use ostler_story::Speaker;

const CLAUDE: &str = include_str!("recorded/claude.jsonl");
const CODEX: &str = include_str!("recorded/codex.jsonl");
const GEMINI: &str = include_str!("recorded/gemini.jsonl");

fn all(recorder: Recorder, text: &str) -> Vec<Told> {
    text.lines().map(|text| line(recorder, text.as_bytes()).expect(text)).collect()
}

fn messages(recorder: Recorder, text: &str) -> Vec<Message> {
    all(recorder, text).into_iter().filter_map(|told| told.message).collect()
}

/// One line for each element.
fn words(messages: &[Message]) -> Vec<String> {
    let mut words = Vec::new();
    for message in messages {
        let who = match message.speaker {
            Speaker::Person => "person",
            Speaker::Agent => "agent",
            Speaker::Program => "program",
        };
        for element in &message.elements {
            let what = match element {
                Element::Text(text) => text.clone(),
                Element::Thought(text) => format!("thinks {text}"),
                Element::Image { mime, bytes } => format!("{mime} {bytes}"),
                Element::Tool(call) => format!("{:?} {}", call.kind, call.title),
                Element::Result { output, diffs, is_error: false, .. } => {
                    let paths: Vec<&str> = diffs.iter().map(|diff| diff.path.as_str()).collect();
                    format!("result {} {}", output.lines().last().unwrap_or_default(), paths.join(" "))
                }
                Element::Result { output, .. } => format!("failed {output}"),
                Element::Compaction(text) => format!("compacted {text}"),
                Element::Notice(text) => format!("notice {text}"),
            };
            words.push(format!("{who}: {}", what.trim_end()));
        }
    }
    words
}

fn last<T>(told: &[Told], get: impl Fn(&About) -> Option<T>) -> Option<T> {
    told.iter().rev().find_map(|told| get(&told.about))
}

#[test]
fn a_transcript_of_claude_tells_its_messages_and_nothing_of_the_programs_own() {
    let said = words(&messages(Recorder::Claude, CLAUDE));
    assert_eq!(
        said,
        [
            "person: RUN:echo needle-1",
            "agent: I will run it.",
            "agent: Execute Bash: echo needle-1",
            "program: result needle-1",
            "agent: Done. The tool said: needle-1",
            "person: WRITE:/home/me/work.x/a.txt",
            "agent: I will write it.",
            "agent: Edit Write: /home/me/work.x/a.txt",
            "program: result File created successfully at: /home/me/work.x/a.txt (file state is current in your context — no need to Read it back)",
            "agent: Done. The tool said: File created successfully at: /home/me/work.x/a.txt (file state is current in your context — no need to Read it back)",
            "person: THINK hello again",
            "agent: thinks Let me think about it.",
            "agent: I have thought about it.",
        ]
    );
    let told = all(Recorder::Claude, CLAUDE);
    assert_eq!(last(&told, |about| about.workspace.clone()).as_deref(), Some("/home/me/work.x"));
    assert_eq!(last(&told, |about| about.branch.clone()).as_deref(), Some("feat/x"));
    assert_eq!(last(&told, |about| about.model.clone()).as_deref(), Some("claude-opus-5-5"));
    let total = last(&told, |about| about.total.clone()).unwrap();
    assert_eq!((total.input_tokens, total.output_tokens, total.cost_usd), (Some(50), Some(100), Some(0.0022)));
}

#[test]
fn a_transcript_of_codex_tells_what_was_typed_and_not_what_was_put_around_it() {
    let messages = messages(Recorder::Codex, CODEX);
    let said = words(&messages);
    assert_eq!(said.first().map(String::as_str), Some("person: RUN:echo needle-2"));
    assert_eq!(said.iter().filter(|said| said.starts_with("person")).count(), 3);
    assert!(said.contains(&"agent: Execute echo needle-2".to_owned()), "{said:#?}");
    assert!(said.contains(&"agent: thinks Let me think about it.".to_owned()));
    assert!(said.contains(&"program: result A /home/me/work.x/b.txt /home/me/work.x/b.txt".to_owned()), "{said:#?}");
    assert_eq!(
        said.iter().filter(|said| said.contains("I have thought about it.")).count(),
        1,
        "told twice, shown once"
    );
    let told = all(Recorder::Codex, CODEX);
    assert_eq!(last(&told, |about| about.id.clone()).as_deref(), Some("01a1e78e-00ed-7c50-a34c-7cd3a33a97a2"));
    assert_eq!(last(&told, |about| about.model.clone()).as_deref(), Some("fake-model"));
    assert_eq!(last(&told, |about| about.total.clone()).and_then(|total| total.output_tokens), Some(100));
}

#[test]
fn a_transcript_of_gemini_tells_a_message_again_under_the_same_id() {
    let messages = messages(Recorder::Gemini, GEMINI);
    let said = words(&messages);
    assert_eq!(said.first().map(String::as_str), Some("person: RUN:echo needle-3"));
    assert!(said.contains(&"agent: Execute echo needle-3".to_owned()), "{said:#?}");
    assert!(
        said.contains(&"program: result needle-3".to_owned()) || said.contains(&"agent: result needle-3".to_owned())
    );
    assert!(said.contains(&"agent: thinks Thinking: Let me think about it.".to_owned()));
    let ids: Vec<_> = messages.iter().filter_map(|message| message.id.as_deref()).collect();
    let once: std::collections::BTreeSet<_> = ids.iter().collect();
    assert!(once.len() < ids.len(), "the scripted tools make two messages that are written twice");
}

#[test]
fn a_row_of_opencode_and_its_parts_are_a_message() {
    let data = r#"{"role":"assistant","modelID":"m","error":{"name":"MessageAbortedError"}}"#;
    let parts = [
        r#"{"type":"step-start"}"#,
        r#"{"type":"reasoning","text":"hm"}"#,
        r#"{"type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"},"output":"a","title":"ls"}}"#,
        r#"{"type":"file","mime":"image/png","url":"data:image/png;base64,AAAA"}"#,
        "not JSON",
    ]
    .map(str::to_owned);
    let message = opencode_message("msg_1", 5, data, &parts).unwrap();
    let said = words(&[message]);
    assert_eq!(
        said,
        [
            "agent: thinks hm",
            "agent: Execute ls",
            "agent: result a",
            "agent: image/png 3",
            "agent: notice MessageAbortedError"
        ]
    );
    assert_eq!(opencode_model(data).as_deref(), Some("m"));
    assert_eq!(opencode_message("msg_1", 5, "[]", &parts), None);
}

#[test]
fn pictures_summaries_and_errors_of_claude_have_elements_of_their_own() {
    let lines = [
        r#"{"type":"user","uuid":"1","message":{"content":[{"type":"text","text":"look"},{"type":"image","source":{"media_type":"image/png","data":"AAAAAAAA"}}]}}"#,
        r#"{"type":"user","isCompactSummary":true,"message":{"content":"all of it"}}"#,
        r#"{"type":"system","subtype":"compact_boundary","content":"Conversation compacted"}"#,
        r#"{"type":"assistant","isApiErrorMessage":true,"message":{"content":[{"type":"text","text":"overloaded"}]}}"#,
        r#"{"type":"user","isMeta":true,"message":{"content":"not typed"}}"#,
        r#"{"type":"assistant","isSidechain":true,"message":{"content":[{"type":"text","text":"of a sub-agent"}]}}"#,
        r#"{"type":"ai-title","aiTitle":"A title"}"#,
    ];
    let said = words(&messages(Recorder::Claude, &lines.join("\n")));
    assert_eq!(
        said,
        [
            "person: look",
            "person: image/png 6",
            "program: compacted all of it",
            "program: compacted Conversation compacted",
            "program: notice overloaded"
        ]
    );
    assert_eq!(
        last(&all(Recorder::Claude, &lines.join("\n")), |about| about.title.clone()).as_deref(),
        Some("A title")
    );
}

#[test]
fn whatever_a_line_is_nothing_breaks() {
    let deep = format!(r#"{{"type":"user","message":{{"content":{}{}}}}}"#, "[".repeat(5000), "]".repeat(5000));
    for recorder in Recorder::ALL {
        assert_eq!(line(recorder, deep.as_bytes()).and_then(|told| told.message), None);
        for odd in [
            "",
            "null",
            "[]",
            "{",
            "\u{1b}[2J",
            r#"{"type":7}"#,
            r#"{"type":"user","message":7}"#,
            r#"{"type":"event_msg","payload":[]}"#,
        ] {
            let told = line(recorder, odd.as_bytes());
            assert!(told.is_none_or(|told| told.message.is_none()), "{recorder:?} {odd}");
        }
        assert!(!may_be_message(recorder, b"{\"type\":\"attachment\"}"));
    }
}

proptest::proptest! {
    #[test]
    fn any_change_of_a_recorded_line_is_read_without_a_panic(at in 0usize..4000, byte: u8, which in 0usize..60) {
        for (recorder, text) in [(Recorder::Claude, CLAUDE), (Recorder::Codex, CODEX), (Recorder::Gemini, GEMINI)] {
            if let Some(text) = text.lines().nth(which) {
                let mut bytes = text.as_bytes().to_vec();
                let at = at % bytes.len();
                bytes[at] = byte;
                let _ = line(recorder, &bytes);
            }
        }
    }
}
