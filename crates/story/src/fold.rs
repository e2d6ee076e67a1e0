//! The fold: records of a session in, its story out.
//!
//! A prompt may be accepted while another is being answered; it stands where its own turn begins. Pieces of an answer belong
//! to the block that follows them, whatever stands in between, until the turn goes on without it: then they are all that there
//! will ever be of it. A turn's end is told once, with its reason: what an adapter says when the output breaks off is told by the
//! end of the process, which follows and knows more.

use std::collections::{BTreeMap, HashMap};

use crate::piece::{Ended, Heard, Piece, Prompt, Stop, Voice, Why};
use crate::{Ask, Asked, Block, EndReason, ErrorKind, Event, Fact, Said, Usage};

/// Tools and requests that are remembered within a turn: more than anybody could make sense of.
const KNOWN_MAX: usize = 1024;

/// The story of a session, from the record at which somebody begins to listen.
#[derive(Debug, Default)]
pub struct Story {
    waiting: BTreeMap<u64, Prompt>,
    turn: Turn,
    /// Words whose whole has not come: of the answer, and of a thought.
    answer: String,
    thought: String,
    /// A block or a turn has begun within the story: no pieces are the end of one that began before.
    settled: bool,
    tools: HashMap<String, String>,
    /// In an order of its own, so that the same records always give the same story.
    asks: BTreeMap<String, (Asked, Option<String>)>,
}

/// The turn that runs, or the last one.
#[derive(Debug, Default)]
struct Turn {
    number: Option<u64>,
    /// The agent has the prompt: what becomes of its process matters from here on.
    sent: bool,
    /// The output of its process broke off in the middle of it; what is said of that.
    broken_off: Option<(EndReason, Option<String>)>,
    over: bool,
    stopped: Option<Stop>,
    /// What it will end of.
    ends_of: Option<String>,
    trouble: Option<String>,
    usage: Usage,
}

impl Story {
    /// What one object of a record says. `at_end`: an adapter said it when the output of its process broke off.
    pub fn take(&mut self, said: Said, at_end: bool) -> Vec<Piece> {
        let mut out = Vec::new();
        match said {
            // The end of the process follows, and says how.
            Said::Event(Event::TurnEnded { reason, message }) if at_end => {
                self.turn.broken_off = Some((reason, message))
            }
            Said::Event(event) => self.event(event, false, &mut out),
            Said::Fact(Fact::Said { event }) => self.event(event, true, &mut out),
            Said::Fact(fact) => self.fact(fact, &mut out),
        }
        out
    }

    /// Nothing follows: words of an answer that never became whole.
    pub fn cut_off(&mut self) -> Option<String> {
        self.thought.clear();
        let cut_off = self.is_cut_off();
        let words = std::mem::take(&mut self.answer);
        cut_off.then_some(words)
    }

    /// Whether [`cut_off`](Self::cut_off) would give any words.
    pub fn is_cut_off(&self) -> bool {
        !self.answer.trim().is_empty()
    }

    /// The prompts whose turn has not come, oldest first.
    pub fn waiting(&mut self) -> impl Iterator<Item = Prompt> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }

    fn fact(&mut self, fact: Fact, out: &mut Vec<Piece>) {
        match fact {
            Fact::Prompt { number, blocks, door, .. } => {
                let prompt = Prompt { number, blocks, door };
                self.waiting.insert(number, prompt.clone());
                out.push(Piece::Accepted(prompt));
            }
            Fact::Reworded { number, text } => {
                // Of one that was accepted before anybody listened only the words are known.
                let unknown = || Prompt { number, blocks: Vec::new(), door: String::new() };
                let prompt = self.waiting.entry(number).or_insert_with(unknown);
                prompt.blocks = Block::reworded(std::mem::take(&mut prompt.blocks), text);
                out.push(Piece::Accepted(prompt.clone()));
            }
            Fact::Dropped { number, why } => {
                out.push(Piece::Dropped { number, why, prompt: self.waiting.remove(&number) });
            }
            Fact::Turn { number } => {
                out.extend(self.cut_off().map(Piece::CutOff));
                self.turn = Turn { number: Some(number), ..Turn::default() };
                self.settled = true;
                self.tools.clear();
                self.asks.clear();
                out.push(Piece::Begun { number, prompt: self.waiting.remove(&number) });
            }
            Fact::Process { source, .. } => {
                let after = self.turn.ends_of.take();
                out.push(Piece::Process { source, after });
            }
            Fact::Sent { .. } => self.turn.sent = true,
            Fact::Approval { request, approval, .. } => {
                let known = self.asks.get_mut(&request);
                let asked = known.map(|(asked, known)| {
                    *known = Some(approval.clone());
                    Box::new(asked.clone())
                });
                out.push(Piece::Waits { approval, asked });
            }
            Fact::Answered { request, approval, decision, by, .. } => {
                self.asks.remove(&request);
                out.push(Piece::Answered { approval, decision, by });
            }
            Fact::Interrupt { number, .. } => {
                if self.turn.number.is_none_or(|running| running == number) {
                    self.turn.stopped = self.turn.stopped.or(Some(Stop::Interrupted));
                }
                out.push(Piece::Noted(fact));
            }
            Fact::Closed {} => {
                self.turn.stopped = Some(Stop::Closed);
                out.push(Piece::Noted(fact));
            }
            Fact::Exited { exit, ref stderr, .. } => {
                out.extend(self.cut_off().map(Piece::CutOff));
                let broken_off = self.turn.broken_off.take();
                if self.turn.sent || broken_off.is_some() {
                    let (reason, told) = broken_off.unwrap_or((EndReason::Interrupted, None));
                    let why = self.turn.ends_of.take().map(Why::Told);
                    let why = why.unwrap_or_else(|| Why::Exited { exit, stderr: stderr.clone(), told });
                    self.end(reason, Some(why), out);
                }
                out.push(Piece::Noted(fact));
            }
            fact => out.push(Piece::Noted(fact)),
        }
    }

    fn event(&mut self, event: Event, by_engine: bool, out: &mut Vec<Piece>) {
        match event {
            Event::TextDelta { text } => self.words(Voice::Answer, text, out),
            Event::ThoughtDelta { text } => self.words(Voice::Thought, text, out),
            Event::Text { text } => self.whole(Voice::Answer, text, out),
            Event::Thought { text } => self.whole(Voice::Thought, text, out),
            Event::ToolCall(call) => {
                if call.parent.is_none() {
                    out.extend(self.cut_off().map(Piece::CutOff));
                }
                remember(&mut self.tools, call.id.clone(), call.name.clone());
                out.push(Piece::Tool(Box::new(call.completed())));
            }
            Event::ToolResult { id, output, is_error, diffs } => {
                let name = self.tools.get(&id).cloned();
                out.push(Piece::ToolEnded { id, name, output, is_error, diffs });
            }
            Event::Usage(ref usage) => {
                self.turn.usage.update(usage);
                out.push(Piece::Said(event));
            }
            Event::Asked(asked) => self.asked(asked, out),
            Event::Unasked { request } => {
                let approval = self.asks.remove(&request).and_then(|(_, approval)| approval);
                out.push(Piece::TakenBack { request, approval, over: false });
            }
            Event::Error { message, fatal, kind } => {
                let livable = matches!(kind, ErrorKind::Agent | ErrorKind::Line) && !fatal;
                let ends = by_engine || !livable;
                self.turn.trouble = Some(message.clone());
                if ends {
                    self.turn.ends_of = Some(message.clone());
                }
                out.push(Piece::Trouble { message, kind, ends });
            }
            Event::TurnEnded { reason, message } => {
                out.extend(self.cut_off().map(Piece::CutOff));
                let why = message.or_else(|| self.turn.ends_of.take()).map(Why::Told);
                self.end(reason, why, out);
            }
            event => out.push(Piece::Said(event)),
        }
    }

    fn asked(&mut self, asked: Asked, out: &mut Vec<Piece>) {
        let call = asked.tool_call.as_ref().unwrap_or(&asked.request);
        let announced = self.tools.contains_key(call);
        if asked.ask == Ask::Permission {
            remember(&mut self.tools, call.clone(), asked.tool.clone());
        }
        if self.asks.len() < KNOWN_MAX {
            self.asks.insert(asked.request.clone(), (asked.clone(), None));
        }
        out.push(Piece::Asked { asked: Box::new(asked), announced });
    }

    fn words(&mut self, voice: Voice, text: String, out: &mut Vec<Piece>) {
        match voice {
            Voice::Answer => self.answer.push_str(&text),
            Voice::Thought => self.thought.push_str(&text),
        }
        out.push(Piece::Words { voice, text });
    }

    fn whole(&mut self, voice: Voice, text: String, out: &mut Vec<Piece>) {
        let before = std::mem::take(match voice {
            Voice::Answer => &mut self.answer,
            Voice::Thought => &mut self.thought,
        });
        let settled = std::mem::replace(&mut self.settled, true);
        let heard = match () {
            () if text.starts_with(&before) => Heard::First(before.len()),
            () if !settled && text.ends_with(&before) => Heard::Last,
            () => Heard::Otherwise,
        };
        out.push(Piece::Whole { voice, text, heard });
    }

    fn end(&mut self, reason: EndReason, why: Option<Why>, out: &mut Vec<Piece>) {
        if std::mem::replace(&mut self.turn.over, true) {
            return;
        }
        self.settled = true;
        let left = std::mem::take(&mut self.asks).into_iter();
        out.extend(left.map(|(request, (_, approval))| Piece::TakenBack { request, approval, over: true }));
        let Turn { number, stopped, trouble, usage, .. } = &mut self.turn;
        let (trouble, usage) = (trouble.take(), std::mem::take(usage));
        out.push(Piece::Ended(Box::new(Ended { number: *number, reason, stopped: *stopped, why, trouble, usage })));
    }
}

fn remember(known: &mut HashMap<String, String>, key: String, value: String) {
    if known.len() < KNOWN_MAX {
        known.insert(key, value);
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
