//! What was received, held against what an echo must have said.

use std::collections::HashMap;

use ostler_api::{AuditEntry, SessionEvent};
use serde_json::Value;

use super::client::Log;
use super::word;

pub(super) struct Verdict {
    pub(super) findings: Vec<String>,
    prompts: usize,
    records: usize,
    answers: usize,
    lost: usize,
    doubled: usize,
    untrue: usize,
}

impl Verdict {
    pub(super) fn line(&self, kills: u64) -> String {
        let Self { prompts, records, answers, lost, doubled, untrue, .. } = self;
        format!(
            "kills={kills} prompts={prompts} records={records} answers={answers} lost={lost} doubled={doubled} untrue={untrue}"
        )
    }

    fn lost(&mut self, what: String) {
        self.lost += 1;
        self.findings.push(format!("lost: {what}"));
    }

    fn doubled(&mut self, what: String) {
        self.doubled += 1;
        self.findings.push(format!("doubled: {what}"));
    }

    fn untrue(&mut self, what: String) {
        self.untrue += 1;
        self.findings.push(format!("untrue: {what}"));
    }
}

pub(super) fn judge(logs: &[Log], sessions: u64, audit: &[AuditEntry]) -> Verdict {
    let mut verdict =
        Verdict { findings: Vec::new(), prompts: 0, records: 0, answers: 0, lost: 0, doubled: 0, untrue: 0 };
    if logs.len() as u64 != sessions {
        verdict.untrue(format!("{} of {sessions} clients came to their end", logs.len()));
    }
    for log in logs {
        one(&mut verdict, log);
    }
    decisions(&mut verdict, audit);
    verdict
}

/// What was said about one prompt.
#[derive(Default)]
struct Turn {
    deltas: String,
    texts: Vec<String>,
    tool_results: usize,
    asked: usize,
    answered: usize,
    ends: Vec<String>,
}

fn one(verdict: &mut Verdict, log: &Log) {
    let name = format!("session {}", log.number);
    if let Some(trouble) = &log.trouble {
        verdict.lost(format!("{name}: {trouble}"));
    }
    verdict.prompts += log.prompts.len();
    verdict.records += log.records.len();
    for (expected, events) in (1..).zip(&log.records) {
        match events.record.cmp(&expected) {
            std::cmp::Ordering::Greater => return verdict.lost(format!("{name}: record {expected}")),
            std::cmp::Ordering::Less => return verdict.doubled(format!("{name}: record {}", events.record)),
            std::cmp::Ordering::Equal => {}
        }
    }
    let (mut turns, mut order) = (HashMap::<u64, Turn>::new(), Vec::new());
    let (mut accepted, mut current) = (Vec::new(), None);
    for event in log.records.iter().flat_map(|events| &events.events).map(SessionEvent::json) {
        let event = event.get("event").filter(|_| word(event, "/type") == "said").unwrap_or(event);
        let text = || word(event, "/text");
        match word(event, "/type") {
            "prompt" => accepted.push(word(event, "/blocks/0/text").to_owned()),
            "turn" => {
                current = event.get("number").and_then(Value::as_u64);
                order.extend(current);
            }
            kind => {
                let Some(turn) = current.map(|number| turns.entry(number).or_default()) else { continue };
                match kind {
                    "text_delta" => turn.deltas.push_str(text()),
                    "text" => turn.texts.push(text().to_owned()),
                    "tool_result" => turn.tool_results += 1,
                    "asked" => turn.asked += 1,
                    "answered" => turn.answered += 1,
                    "turn_ended" => turn.ends.push(word(event, "/reason").to_owned()),
                    _ => {}
                }
            }
        }
    }
    if accepted != log.prompts {
        let first = accepted.iter().zip(&log.prompts).position(|(a, b)| a != b);
        verdict.untrue(format!(
            "{name}: {} prompts taken of {}, first that differs {first:?}",
            accepted.len(),
            log.prompts.len()
        ));
    }
    if order != (1..=log.prompts.len() as u64).collect::<Vec<_>>() {
        verdict.untrue(format!("{name}: turns in the order {order:?}"));
    }
    for (number, prompt) in (1..).zip(&log.prompts) {
        let turn = turns.remove(&number).unwrap_or_default();
        verdict.answers += turn.answered;
        check(verdict, &format!("{name} prompt {number}"), prompt, &turn);
    }
}

/// The echo says the prompt back, whole and in pieces, after what the prompt's words made it do.
fn check(verdict: &mut Verdict, name: &str, prompt: &str, turn: &Turn) {
    let said = turn.texts.iter().filter(|text| *text == prompt).count();
    match said {
        0 => verdict.lost(format!("{name}: its answer")),
        1 => {}
        n => verdict.doubled(format!("{name}: its answer, {n} times")),
    }
    let counted = if prompt.contains("SLOW:2") { "1 2 " } else { "" };
    if turn.deltas != format!("{counted}{prompt}") {
        let what = format!("{name}: {} bytes in pieces instead of {}", turn.deltas.len(), prompt.len() + counted.len());
        if turn.deltas.len() > prompt.len() + counted.len() { verdict.doubled(what) } else { verdict.lost(what) }
    }
    if turn.ends != ["completed"] {
        verdict.untrue(format!("{name}: ended {:?}", turn.ends));
    }
    let word = |word: &str| prompt.split_whitespace().any(|found| found == word);
    let tools = usize::from(word("ASK")) + usize::from(word("TOOL"));
    if turn.tool_results != tools {
        verdict.untrue(format!("{name}: {} tool results instead of {tools}", turn.tool_results));
    }
    if turn.answered != turn.asked {
        verdict.untrue(format!("{name}: {} answers to {} questions", turn.answered, turn.asked));
    }
}

/// Each request was decided once, and its answer delivered once.
fn decisions(verdict: &mut Verdict, audit: &[AuditEntry]) {
    let mut seen: HashMap<&str, (u32, u32, u32)> = HashMap::new();
    for entry in audit {
        let Some(about) = entry.about.as_deref() else { continue };
        let record = &entry.record;
        let (asked, decided, finished) = seen.entry(about).or_default();
        match word(record, "/what") {
            "asked" => *asked += 1,
            "decided" => *decided += 1,
            "finished" => *finished += 1,
            _ => {}
        }
    }
    for (id, (asked, decided, finished)) in seen {
        if asked != 1 || decided != 1 || finished > 1 {
            verdict.untrue(format!("{id}: asked {asked} times, decided {decided}, finished {finished}"));
        }
    }
}
