//! One prompt's turn, told to the client that sent it, or to one that comes while it runs: a fold over the session's records,
//! from the one at which the prompt was accepted, or its turn began, to the one that ends its turn.

use std::collections::HashMap;

use ostler_engine::session::{Answer, Ask, Asked, CLOSED, EndReason, Event, EventHead, Fact, Said, Usage, said};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::frame::{Head, RpcError};
use crate::pieces::{Pieces, Voice};
use crate::update::{Outcome, Updates, cut};

/// Why a prompt that waited too long was taken back.
pub(crate) const WAITED: &str = "the turn before it did not end in time";
/// Tools and requests that are remembered within a turn: more than a client could make sense of.
const KNOWN_MAX: usize = 1024;
/// What is held back of what was missed: fewer lines than a client that just came could be behind with.
const HELD_MAX: usize = 64 * 1024;
/// Of the answer so much comes with the result; all of it was told before.
const ANSWER_MAX: usize = 2 * 1024 * 1024;

/// What a turn wants beside the lines that it wrote.
#[derive(Debug)]
pub(crate) enum Want {
    /// The agent asks, and the inbox has it under this id.
    Show { approval: String, asked: Box<Asked> },
    /// The agent no longer waits for this one: it was answered, or taken back.
    Forget { approval: String, how: String },
}

/// The request that is answered with a turn's end, and the client's own number of that turn.
pub(crate) struct Request {
    pub(crate) head: Head,
    pub(crate) generation: Option<u64>,
}

/// A prompt that was accepted, until its turn is over.
pub(crate) struct Turn {
    updates: Updates,
    /// Nothing, for a client that came while the turn ran.
    request: Option<Request>,
    /// The session's own id, and the prompt's number in it.
    session: String,
    number: u64,
    begun: bool,
    /// The agent has the prompt: what becomes of its process matters from here on.
    sent: bool,
    over: bool,
    pieces: Pieces,
    /// A block ended here: what follows is another paragraph.
    ended: bool,
    /// What the agent has said since it last used a tool.
    answer: String,
    tools: HashMap<String, String>,
    /// What the agent waits for, and what the inbox calls it.
    asks: HashMap<String, (Asked, Option<String>)>,
    /// Who stopped it.
    cause: Option<&'static str>,
    failure: Option<String>,
    missing: bool,
    /// Up to this record it is told what had been said before it came: in as few words as that takes.
    missed: u64,
    /// What was said up to here, and is not told yet.
    held: Option<(Voice, String)>,
    usage: Option<Usage>,
    /// The turn's last words, once it is over: nothing is told after them.
    end: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl Turn {
    /// The turn of this prompt. Whoever comes while it runs is told what it missed, up to this record.
    pub(crate) fn new(
        updates: Updates,
        request: Option<Request>,
        (session, number): (String, u64),
        missed: u64,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            updates,
            request,
            session,
            number,
            missing: missed > 0,
            missed,
            held: None,
            usage: None,
            end: Vec::new(),
            begun: false,
            sent: false,
            over: false,
            pieces: Pieces::default(),
            ended: false,
            answer: String::new(),
            tools: HashMap::new(),
            asks: HashMap::new(),
            cause: None,
            failure: None,
            _place: place,
        }
    }

    pub(crate) fn updates(&self) -> &Updates {
        &self.updates
    }

    /// The session's own id, and the prompt's number in it.
    pub(crate) fn of(&self) -> (&str, u64) {
        (&self.session, self.number)
    }

    /// Tells how it ended, if it has; whatever it wanted beside its lines comes before that.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.end);
    }

    /// The turn's last words were written.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Tells what a record says.
    pub(crate) fn record(&mut self, head: &EventHead, payload: &[u8], out: &mut Vec<u8>) -> Vec<Want> {
        let mut wants = Vec::new();
        if head.record > self.missed {
            self.catch_up(out);
        }
        for one in said(head.source, payload) {
            if self.over {
                break;
            }
            match one {
                Said::Fact(fact) => self.fact(fact, &mut wants, out),
                // What an adapter says at the end of the output is explained by the end of the process, which follows.
                Said::Event(Event::TurnEnded { .. }) if head.src_end == u64::MAX => {}
                Said::Event(event) if self.begun => self.event(event, &mut wants, out),
                Said::Event(_) => {}
            }
        }
        if self.over {
            let left = self.asks.drain().filter_map(|(_, (_, approval))| approval);
            wants.extend(left.map(|approval| Want::Forget { approval, how: TAKEN_BACK.to_owned() }));
        }
        if head.record >= self.missed {
            self.catch_up(out);
        }
        self.missing = head.record < self.missed;
        wants
    }

    /// What was held back is told.
    fn catch_up(&mut self, out: &mut Vec<u8>) {
        self.missing = false;
        self.flush(out);
        if let Some(usage) = self.usage.take() {
            self.updates.usage(&usage, out);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        match self.held.take() {
            Some((Voice::Answer, text)) => self.updates.message(&text, out),
            Some((Voice::Thought, text)) => self.updates.thought(&text, out),
            None => {}
        }
    }

    /// The journal can not be read any further.
    pub(crate) fn lost(&mut self, why: &str, out: &mut Vec<u8>) {
        self.failed(format!("the session's journal can not be read: {why}"), out);
        self.finish(out);
    }

    fn fact(&mut self, fact: Fact, wants: &mut Vec<Want>, out: &mut Vec<u8>) {
        match fact {
            Fact::Turn { number } => self.begun |= number == self.number,
            Fact::Dropped { number, why } if number == self.number => match why.as_str() {
                WAITED => self.busy(&why, out),
                CLOSED => self.stopped("session_removed", out),
                _ => self.stopped("client_rpc", out),
            },
            Fact::Interrupt { number, .. } if number == self.number => self.cause = self.cause.or(Some("client_rpc")),
            Fact::Closed {} => self.cause = Some("session_removed"),
            _ if !self.begun => {}
            Fact::Approval { request, approval, .. } => {
                self.flush(out);
                if let Some((asked, known)) = self.asks.get_mut(&request) {
                    *known = Some(approval.clone());
                    wants.push(Want::Show { approval, asked: Box::new(asked.clone()) });
                }
            }
            Fact::Answered { request, approval, by, decision, .. } => {
                self.asks.remove(&request);
                wants.push(Want::Forget { approval, how: answered(&decision, &by) });
            }
            Fact::Sent { number, .. } => self.sent |= number == self.number,
            Fact::Exited { code, signal, stderr, .. } if self.sent => {
                let why = self.failure.take().unwrap_or_else(|| exited(code, signal, &stderr));
                self.stopped_or_failed(why, out);
            }
            Fact::Said { event } => self.event(event, wants, out),
            _ => {}
        }
    }

    fn event(&mut self, event: Event, wants: &mut Vec<Want>, out: &mut Vec<u8>) {
        match event {
            Event::TextDelta { text } => self.piece(Voice::Answer, &text, out),
            Event::ThoughtDelta { text } => self.piece(Voice::Thought, &text, out),
            Event::Text { text } => self.whole(Voice::Answer, &text, out),
            Event::Thought { text } => self.whole(Voice::Thought, &text, out),
            Event::ToolCall { id, name, input, .. } => {
                self.flush(out);
                self.pieces.cut();
                self.answer.clear();
                self.updates.tool_call(&id, &name, &input, out);
                remember(&mut self.tools, id, name);
            }
            Event::ToolResult { id, output, .. } => {
                self.flush(out);
                let name = self.tools.remove(&id).unwrap_or_else(|| "tool".to_owned());
                self.updates.tool_result(&id, &name, &output, out);
            }
            Event::Plan { entries } => self.updates.plan(&entries, out),
            Event::Usage(usage) if self.missing => self.usage = Some(usage),
            Event::Usage(usage) => self.updates.usage(&usage, out),
            Event::Asked(asked) => {
                // A request for a tool that was not announced is announced by the request.
                let call = asked.tool_call.clone().unwrap_or_else(|| asked.request.clone());
                if asked.ask == Ask::Permission && !self.tools.contains_key(&call) {
                    self.flush(out);
                    self.updates.tool_call(&call, &asked.tool, &asked.input, out);
                    remember(&mut self.tools, call, asked.tool.clone());
                }
                remember(&mut self.asks, asked.request.clone(), (asked, None));
            }
            Event::Unasked { request } => {
                let approval = self.asks.remove(&request).and_then(|(_, approval)| approval);
                wants.extend(approval.map(|approval| Want::Forget { approval, how: TAKEN_BACK.to_owned() }));
            }
            Event::Error { message, .. } => self.failure = Some(message),
            Event::TurnEnded { reason, message } => self.ended(reason, message, out),
            _ => {}
        }
    }

    fn piece(&mut self, voice: Voice, text: &str, out: &mut Vec<u8>) {
        self.pieces.piece(voice, text);
        self.tell(voice, text, out);
    }

    fn whole(&mut self, voice: Voice, text: &str, out: &mut Vec<u8>) {
        let rest = self.pieces.whole(voice, text);
        if !rest.is_empty() {
            self.tell(voice, rest, out);
        }
        self.ended |= voice == Voice::Answer;
    }

    fn tell(&mut self, voice: Voice, text: &str, out: &mut Vec<u8>) {
        match voice {
            Voice::Thought => self.speak(voice, text, out),
            Voice::Answer => {
                let apart = std::mem::take(&mut self.ended) && !self.answer.is_empty();
                let text = if apart { &format!("\n\n{text}") } else { text };
                if self.answer.len() <= ANSWER_MAX {
                    self.answer.push_str(text);
                }
                self.speak(voice, text, out);
            }
        }
    }

    /// At once; what was missed with what follows it.
    fn speak(&mut self, voice: Voice, text: &str, out: &mut Vec<u8>) {
        if self.held.as_ref().is_some_and(|(held, told)| *held != voice || told.len() > HELD_MAX) {
            self.flush(out);
        }
        match (&mut self.held, voice) {
            (Some((_, told)), _) => told.push_str(text),
            (held, _) if self.missing => *held = Some((voice, text.to_owned())),
            (_, Voice::Answer) => self.updates.message(text, out),
            (_, Voice::Thought) => self.updates.thought(text, out),
        }
    }

    fn ended(&mut self, reason: EndReason, message: Option<String>, out: &mut Vec<u8>) {
        let why = message.or(self.failure.take());
        match reason {
            EndReason::Completed => self.completed("end_turn", out),
            EndReason::Refused => self.completed("refusal", out),
            EndReason::MaxTokens => self.completed("max_tokens", out),
            EndReason::MaxSteps => self.completed("max_turn_requests", out),
            EndReason::Interrupted => self.stopped_or_failed(why.unwrap_or_else(|| INTERRUPTED.to_owned()), out),
            EndReason::Failed => self.stopped_or_failed(why.unwrap_or_else(|| "the turn failed".to_owned()), out),
        }
    }

    /// What fails because somebody stopped it was stopped.
    fn stopped_or_failed(&mut self, why: String, out: &mut Vec<u8>) {
        match self.cause {
            Some(cause) => self.stopped(cause, out),
            None => self.failed(why, out),
        }
    }

    fn completed(&mut self, stop_reason: &str, out: &mut Vec<u8>) {
        let answer = std::mem::take(&mut self.answer);
        self.over(Outcome::Completed, &answer, Ok((stop_reason, &answer)), out);
    }

    fn stopped(&mut self, cause: &str, out: &mut Vec<u8>) {
        let note = format!("turn cancelled via {cause} in RPC_SESSION {}", self.updates.session());
        let answer = std::mem::take(&mut self.answer);
        self.over(Outcome::Cancelled, &note, Ok(("cancelled", &answer)), out);
    }

    fn failed(&mut self, why: String, out: &mut Vec<u8>) {
        let error = RpcError::internal(why.clone());
        self.over(Outcome::Failed, &why, Err(error), out);
    }

    fn busy(&mut self, why: &str, out: &mut Vec<u8>) {
        self.over(Outcome::Failed, why, Err(RpcError::busy(why)), out);
    }

    fn over(&mut self, outcome: Outcome, note: &str, result: Result<(&str, &str), RpcError>, out: &mut Vec<u8>) {
        self.over = true;
        self.catch_up(out);
        let generation = self.request.as_ref().and_then(|request| request.generation);
        self.updates.turn_complete(outcome, note, generation, &mut self.end);
        let session = self.updates.session();
        if let Some(Request { head, .. }) = &self.request {
            self.end.extend(head.answer(result.map(
                |(stop_reason, content)| json!({"session_id": session, "stop_reason": stop_reason, "content": cut(content, ANSWER_MAX)}),
            )));
        }
    }
}

/// Why a request that waits no longer does, where nobody has answered it.
const TAKEN_BACK: &str = "the agent asks no more";

/// Who answered a request, and how.
fn answered(decision: &Answer, by: &str) -> String {
    let how = if matches!(decision, Answer::Deny { .. }) { "denied" } else { "answered" };
    format!("{how} by {by}")
}

const INTERRUPTED: &str = "the agent was stopped before the turn was over";

fn exited(code: Option<i32>, signal: Option<i32>, stderr: &str) -> String {
    let how = match (code, signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "nobody saw how".to_owned(),
    };
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map_or(String::new(), |line| format!(": {}", line.chars().take(300).collect::<String>()));
    format!("the agent's process ended before the turn was over ({how}){last}")
}

fn remember<T>(known: &mut HashMap<String, T>, key: String, value: T) {
    if known.len() < KNOWN_MAX {
        known.insert(key, value);
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
