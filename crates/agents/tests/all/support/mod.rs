//! A session with an agent that is played by hand, and the check that it can be rebuilt at every point.
#![allow(dead_code, reason = "each test program uses a part of it")]

use ostler_agents::{Adapter, AnswerError, PromptError, Setup, open};
use ostler_story::{Agent, Autonomy, Block, Decision, Drive, Event, Json};

pub(crate) const NEW_ID: &str = "0f0e0d0c-0b0a-4900-8800-070605040302";

pub(crate) fn setup(agent: Agent, autonomy: Autonomy) -> Setup {
    Setup {
        agent,
        program: None,
        cwd: "/work/space".into(),
        model: None,
        autonomy,
        resume: None,
        new_session_id: NEW_ID.into(),
        raw_mode: None,
    }
}

pub(crate) fn text(text: &str) -> Vec<Block> {
    vec![Block::Text { text: text.into() }]
}

/// What happened, in its order.
enum Step {
    Sent(Vec<u8>),
    Line { line: Vec<u8>, events: Vec<Event>, reply: Vec<u8> },
}

/// A session in progress.
pub(crate) struct Live {
    setup: Setup,
    drive: Drive,
    pub(crate) adapter: Box<dyn Adapter>,
    steps: Vec<(Step, String)>,
}

impl Live {
    pub(crate) fn new(setup: Setup, drive: Drive) -> Self {
        let adapter = open(&setup, drive).unwrap();
        Live { setup, drive, adapter, steps: Vec::new() }
    }

    fn note(&mut self, step: Step) {
        let state = format!("{:?}", self.adapter);
        self.steps.push((step, state));
    }

    fn sent(&mut self, bytes: Vec<u8>) -> Vec<Json> {
        let lines = json_lines(&bytes);
        self.note(Step::Sent(bytes));
        lines
    }

    pub(crate) fn opening(&mut self) -> Vec<Json> {
        let bytes = self.adapter.opening();
        self.sent(bytes)
    }

    pub(crate) fn prompt(&mut self, words: &str) -> Result<Vec<Json>, PromptError> {
        let bytes = self.adapter.prompt(&text(words))?;
        Ok(self.sent(bytes))
    }

    pub(crate) fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<Json>, AnswerError> {
        let bytes = self.adapter.answer(request, answer)?;
        Ok(self.sent(bytes))
    }

    pub(crate) fn interrupt(&mut self) -> Option<Vec<Json>> {
        let bytes = self.adapter.interrupt()?;
        Some(self.sent(bytes))
    }

    pub(crate) fn steer(&mut self, words: &str) -> Option<Vec<Json>> {
        let bytes = self.adapter.steer(&text(words))?;
        Some(self.sent(bytes))
    }

    /// The agent says a line; what came of it, and what was replied.
    pub(crate) fn says(&mut self, line: impl AsRef<[u8]>) -> (Vec<Event>, Vec<Json>) {
        let line = line.as_ref().to_vec();
        let lined = self.adapter.line(&line);
        let (events, reply) = (lined.events, lined.reply);
        self.note(Step::Line { line, events: events.clone(), reply: reply.clone() });
        let replied = if reply.is_empty() { Vec::new() } else { self.sent(reply) };
        (events, replied)
    }

    /// The agent says a line that needs no reply.
    pub(crate) fn tells(&mut self, line: Json) -> Vec<Event> {
        let (events, reply) = self.says(line.to_string());
        assert!(reply.is_empty(), "nothing to reply to {line}, but {reply:?}");
        events
    }

    /// The agent says a line that says nothing to people; what was replied.
    pub(crate) fn wants(&mut self, line: Json) -> Vec<Json> {
        let (events, reply) = self.says(line.to_string());
        assert!(events.is_empty(), "{events:?}");
        reply
    }

    /// At every point: rebuilt from the ledger and the output, the state and the events are the same, nothing is said
    /// twice, and a reply that never reached the ledger is given again.
    pub(crate) fn rebuild_everywhere(&self) {
        for end in 0..=self.steps.len() {
            let steps = &self.steps[..end];
            let mut again = open(&self.setup, self.drive).unwrap();
            for (step, _) in steps {
                if let Step::Sent(bytes) = step {
                    ledger_lines(bytes).for_each(|line| again.sent(line));
                }
            }
            let lost = match steps.last() {
                Some((Step::Line { reply, .. }, _)) => reply.as_slice(),
                _ => &[],
            };
            let mut owed = Vec::new();
            for (step, _) in steps {
                if let Step::Line { line, events, .. } = step {
                    let lined = again.line(line);
                    assert_eq!(&lined.events, events, "at {end}: {}", String::from_utf8_lossy(line));
                    owed.extend(lined.reply);
                }
            }
            assert_eq!(String::from_utf8_lossy(&owed), String::from_utf8_lossy(lost), "what is owed at {end}");
            if let Some((_, state)) = steps.last() {
                assert_eq!(&format!("{again:?}"), state, "at {end}");
            }
        }
    }
}

fn ledger_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

fn json_lines(bytes: &[u8]) -> Vec<Json> {
    ledger_lines(bytes).map(|line| serde_json::from_slice(line).unwrap_or(Json::Null)).collect()
}
