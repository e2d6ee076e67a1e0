//! One prompt's turn, told to the client that sent it, or to one that comes while it runs: the session's story, from the record
//! at which the prompt was accepted, or its turn began, to the one that ends its turn.

use ostler_door_rpc::{Head, RpcError};
use ostler_engine::session::{CLOSED, EventHead};
use ostler_story::{
    Ask, Asked, By, Decision, EndReason, Ended, Event, Exit, Piece, Stop, Story, Usage, Voice, Why, said,
};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::error;
use crate::frame::reply;
use crate::update::{Outcome, Updates, cut};

/// Why a prompt that waited too long was taken back.
pub(crate) const WAITED: &str = "the turn before it did not end in time";
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
    /// By which the connection knows that it still tells.
    watch: u64,
    story: Story,
    begun: bool,
    over: bool,
    /// A block ended here: what follows is another paragraph.
    ended: bool,
    /// What the agent has said since it last used a tool.
    answer: String,
    missing: bool,
    /// Up to this record the client has read what was said: it is told nothing of that but what still waits for it.
    read: u64,
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
    /// The turn of this prompt, told by this watch. Whoever comes while it runs is told what it missed, up to this record.
    pub(crate) fn new(
        updates: Updates,
        request: Option<Request>,
        (session, number, watch): (String, u64, u64),
        missed: u64,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            updates,
            request,
            session,
            number,
            watch,
            missing: missed > 0,
            read: 0,
            missed,
            held: None,
            usage: None,
            end: Vec::new(),
            story: Story::default(),
            begun: false,
            over: false,
            ended: false,
            answer: String::new(),
            _place: place,
        }
    }

    /// For a client that has read what was said up to this record.
    pub(crate) fn after(self, read: u64) -> Self {
        Self { read, ..self }
    }

    pub(crate) fn updates(&self) -> &Updates {
        &self.updates
    }

    /// The watch that tells it.
    pub(crate) fn watch(&self) -> u64 {
        self.watch
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
        if head.record <= self.read {
            return self.pass_over(head, payload);
        }
        let mut wants = Vec::new();
        if head.record > self.missed {
            self.catch_up(out);
        }
        let at_end = head.src_end == u64::MAX;
        for one in said(head.source, payload) {
            for piece in self.story.take(one, at_end) {
                if !self.over {
                    self.piece(piece, &mut wants, out);
                }
            }
        }
        if head.record >= self.missed {
            self.catch_up(out);
        }
        self.missing = head.record < self.missed;
        wants
    }

    /// Takes note of a record that the client has read, and says nothing.
    fn pass_over(&mut self, head: &EventHead, payload: &[u8]) -> Vec<Want> {
        let (mut wants, mut unsaid) = (Vec::new(), Vec::new());
        self.missing = false;
        for one in said(head.source, payload) {
            for piece in self.story.take(one, head.src_end == u64::MAX) {
                self.piece(piece, &mut wants, &mut unsaid);
            }
        }
        self.end.clear();
        self.answer.clear();
        self.missing = head.record < self.missed;
        wants.retain(|want| matches!(want, Want::Show { .. }));
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

    fn piece(&mut self, piece: Piece, wants: &mut Vec<Want>, out: &mut Vec<u8>) {
        match piece {
            Piece::Begun { number, .. } => self.begun |= number == self.number,
            Piece::Dropped { number, why, .. } if number == self.number => match why.as_str() {
                WAITED => self.busy(&why, out),
                CLOSED => self.stopped(Stop::Closed, out),
                _ => self.stopped(Stop::Interrupted, out),
            },
            _ if !self.begun => {}
            Piece::Words { voice, text } => self.tell(voice, &text, out),
            Piece::Whole { voice, text, heard } => {
                self.tell(voice, heard.rest(&text), out);
                self.ended |= voice == Voice::Answer;
            }
            Piece::Tool(call) => {
                self.flush(out);
                self.answer.clear();
                self.updates.tool_call(&call.id, &call.name, &call.input, out);
            }
            Piece::ToolEnded { id, name, output, .. } => {
                self.flush(out);
                self.updates.tool_result(&id, name.as_deref().unwrap_or("tool"), &output, out);
            }
            // A request for a tool that was not announced is announced by the request.
            Piece::Asked { asked, announced: false } if asked.ask == Ask::Permission => {
                let call = asked.tool_call.as_ref().unwrap_or(&asked.request);
                self.flush(out);
                self.updates.tool_call(call, &asked.tool, &asked.input, out);
            }
            Piece::Waits { approval, asked: Some(asked) } => {
                self.flush(out);
                wants.push(Want::Show { approval, asked });
            }
            Piece::Answered { approval, decision, by } => {
                wants.push(Want::Forget { approval, how: answered(&decision, &by) });
            }
            Piece::TakenBack { approval: Some(approval), .. } => {
                wants.push(Want::Forget { approval, how: TAKEN_BACK.to_owned() });
            }
            Piece::Ended(ended) => self.ended(*ended, out),
            Piece::Said(event) => self.event(event, out),
            _ => {}
        }
    }

    fn event(&mut self, event: Event, out: &mut Vec<u8>) {
        match event {
            Event::Plan { entries } => self.updates.plan(&entries, out),
            Event::Usage(usage) if self.missing => self.usage = Some(usage),
            Event::Usage(usage) => self.updates.usage(&usage, out),
            _ => {}
        }
    }

    fn tell(&mut self, voice: Voice, text: &str, out: &mut Vec<u8>) {
        match voice {
            _ if text.is_empty() => {}
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

    fn ended(&mut self, ended: Ended, out: &mut Vec<u8>) {
        let why = match (ended.why, ended.trouble) {
            (Some(Why::Told(why)), _) | (_, Some(why)) => Some(why),
            (Some(Why::Exited { exit, stderr, .. }), None) => Some(exited(exit, &stderr)),
            (None, None) => None,
        };
        match (ended.reason, ended.stopped) {
            (EndReason::Completed, _) => self.completed("end_turn", out),
            (EndReason::Refused, _) => self.completed("refusal", out),
            (EndReason::MaxTokens, _) => self.completed("max_tokens", out),
            (EndReason::MaxSteps, _) => self.completed("max_turn_requests", out),
            // What fails because somebody stopped it was stopped.
            (EndReason::Interrupted | EndReason::Failed, Some(stop)) => self.stopped(stop, out),
            (EndReason::Interrupted, None) => self.failed(why.unwrap_or_else(|| INTERRUPTED.to_owned()), out),
            (EndReason::Failed, None) => self.failed(why.unwrap_or_else(|| "the turn failed".to_owned()), out),
        }
    }

    fn completed(&mut self, stop_reason: &str, out: &mut Vec<u8>) {
        let answer = std::mem::take(&mut self.answer);
        if self.read > 0 && answer.is_empty() {
            // It has read the answer, and would take the end of a turn without words for one that said nothing.
            self.over = true;
            return self.catch_up(out);
        }
        self.over(Outcome::Completed, &answer, Ok((stop_reason, &answer)), out);
    }

    fn stopped(&mut self, stop: Stop, out: &mut Vec<u8>) {
        let cause = match stop {
            Stop::Interrupted => "client_rpc",
            Stop::Closed => "session_removed",
        };
        let note = format!("turn cancelled via {cause} in RPC_SESSION {}", self.updates.session());
        let answer = std::mem::take(&mut self.answer);
        self.over(Outcome::Cancelled, &note, Ok(("cancelled", &answer)), out);
    }

    fn failed(&mut self, why: String, out: &mut Vec<u8>) {
        let error = RpcError::internal(why.clone());
        self.over(Outcome::Failed, &why, Err(error), out);
    }

    fn busy(&mut self, why: &str, out: &mut Vec<u8>) {
        self.over(Outcome::Failed, why, Err(error::busy(why)), out);
    }

    fn over(&mut self, outcome: Outcome, note: &str, result: Result<(&str, &str), RpcError>, out: &mut Vec<u8>) {
        self.over = true;
        self.catch_up(out);
        let generation = self.request.as_ref().and_then(|request| request.generation);
        self.updates.turn_complete(outcome, note, generation, &mut self.end);
        let session = self.updates.session();
        if let Some(Request { head, .. }) = &self.request {
            self.end.extend(reply(head, result.map(
                |(stop_reason, content)| json!({"session_id": session, "stop_reason": stop_reason, "content": cut(content, ANSWER_MAX)}),
            )));
        }
    }
}

/// Why a request that waits no longer does, where nobody has answered it.
const TAKEN_BACK: &str = "the agent asks no more";

/// Who answered a request, and how.
fn answered(decision: &Decision, by: &By) -> String {
    let how = if matches!(decision, Decision::Deny { .. }) { "denied" } else { "answered" };
    format!("{how} by {by}")
}

const INTERRUPTED: &str = "the agent was stopped before the turn was over";

fn exited(exit: Exit, stderr: &str) -> String {
    let how = match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "nobody saw how".to_owned(),
    };
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map_or(String::new(), |line| format!(": {}", line.chars().take(300).collect::<String>()));
    format!("the agent's process ended before the turn was over ({how}){last}")
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
