//! The pieces that the story of a session is told in.

use crate::{Asked, Block, By, Decision, Diff, EndReason, ErrorKind, Event, Exit, Fact, ToolCall, Usage};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The agent, to whoever prompted it.
    Answer,
    /// The agent, to itself.
    Thought,
}

/// Somebody's words for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its number in the session, from 1.
    pub number: u64,
    /// What it says.
    pub blocks: Vec<Block>,
    /// The door it came through.
    pub door: String,
}

/// One step of the story.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A prompt was accepted: its turn is still to come.
    Accepted(Prompt),
    /// A prompt will never be answered.
    Dropped {
        /// Which.
        number: u64,
        /// Why.
        why: String,
        /// What it said, if it was accepted within the story.
        prompt: Option<Prompt>,
    },
    /// A prompt's turn begins.
    Begun {
        /// The prompt.
        number: u64,
        /// What it says, if it was accepted within the story.
        prompt: Option<Prompt>,
    },
    /// More words of a block that is being spoken.
    Words {
        /// Whose.
        voice: Voice,
        /// The words.
        text: String,
    },
    /// A whole block.
    Whole {
        /// Whose.
        voice: Voice,
        /// All of it.
        text: String,
        /// What of it came as [`Words`](Piece::Words) before.
        heard: Heard,
    },
    /// Words of an answer whose whole will never come.
    CutOff(String),
    /// A tool is to be used.
    Tool(Box<ToolCall>),
    /// A tool has ended, or was refused.
    ToolEnded {
        /// The call.
        id: String,
        /// The tool, if its call is in the story.
        name: Option<String>,
        /// Its output as text.
        output: String,
        /// Whether it failed or was refused.
        is_error: bool,
        /// What it has changed, where the call did not tell.
        diffs: Vec<Diff>,
    },
    /// The agent asks.
    Asked {
        /// What, and what may be answered.
        asked: Box<Asked>,
        /// The call that it asks for is in the story; else the request is the first word about it.
        announced: bool,
    },
    /// The inbox has a request.
    Waits {
        /// The inbox's id.
        approval: String,
        /// The request, if it is in the story.
        asked: Option<Box<Asked>>,
    },
    /// A request was answered.
    Answered {
        /// The inbox's id.
        approval: String,
        /// How.
        decision: Decision,
        /// By whom.
        by: By,
    },
    /// A request was taken back: by the agent, or because its turn is over.
    TakenBack {
        /// The agent's id of it.
        request: String,
        /// The inbox's id, if it got there.
        approval: Option<String>,
        /// Its turn is over; the agent itself took nothing back.
        over: bool,
    },
    /// Something went wrong.
    Trouble {
        /// What, for people.
        message: String,
        /// What sort of thing.
        kind: ErrorKind,
        /// The turn will end of it, unless another process takes it up.
        ends: bool,
    },
    /// A process of the agent is started: the first, or another that takes the turn up.
    Process {
        /// Its number in the session.
        source: u32,
        /// What was wrong with the one before.
        after: Option<String>,
    },
    /// The turn is over.
    Ended(Box<Ended>),
    /// Anything else that an agent said.
    Said(Event),
    /// Anything else that the engine noted.
    Noted(Fact),
}

/// How much of a block came in pieces before it came whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// So many bytes from its beginning.
    First(usize),
    /// Its end: whoever listens came in the middle of it.
    Last,
    /// The pieces were other words; none of it was heard.
    Otherwise,
}

impl Heard {
    /// What is still to be told of a block.
    pub fn rest(self, text: &str) -> &str {
        match self {
            Self::First(length) => text.get(length..).unwrap_or_default(),
            Self::Last => "",
            Self::Otherwise => text,
        }
    }
}

/// Who wanted a turn to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody interrupted it.
    Interrupted,
    /// Somebody closed its session.
    Closed,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The prompt that it answered, if its beginning is in the story.
    pub number: Option<u64>,
    /// The outcome.
    pub reason: EndReason,
    /// Who wanted it to stop, if anybody did: what ends unhappily then was stopped.
    pub stopped: Option<Stop>,
    /// What it ended of, where that is known.
    pub why: Option<Why>,
    /// What went wrong last in this turn, whether it ended of it or not.
    pub trouble: Option<String>,
    /// What the turn has used, as far as the agent said.
    pub usage: Usage,
}

/// What a turn ended of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// In words of the agent or the engine.
    Told(String),
    /// Its process ended before the turn did.
    Exited {
        /// How.
        exit: Exit,
        /// The end of what it wrote to stderr.
        stderr: String,
        /// All of that in words.
        told: Option<String>,
    },
}

impl Ended {
    /// Whether the answer is not whole.
    pub fn is_unhappy(&self) -> bool {
        matches!(self.reason, EndReason::Failed | EndReason::Interrupted)
    }
}
