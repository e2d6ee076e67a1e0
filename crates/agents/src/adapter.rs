//! The contract between a session and its agent.
//!
//! What a method returns as bytes is accounted for at once, as if it had been sent; the caller writes it, whole, in the
//! order in which it got it. `sent` is only for rebuilding, and comes before every `line`.

use std::fmt::Debug;

use ostler_story::{Agent, Block, Decision, Drive, ErrorKind, Event};

use crate::lines::MAX_LINE;
use crate::setup::{Launch, Setup, Unsupported};
use crate::{acp, claude, codex, echo, oneshot};

/// What came of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lined {
    /// What it said.
    pub events: Vec<Event>,
    /// What must be written to the agent's stdin now: protocol manners, next steps, answers by policy.
    pub reply: Vec<u8>,
}

/// Why a prompt was not turned into bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// Not open yet, or a turn is running: wait for [`Adapter::can_prompt`].
    #[error("the agent does not take a prompt now")]
    NotNow,
    /// There is nothing in it.
    #[error("the prompt is empty")]
    Empty,
    /// It does not fit on a line that agents are known to read.
    #[error("the prompt has {0} bytes; {MAX_LINE} is the limit")]
    TooLong(usize),
    /// It holds what this agent does not take.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// Why an answer was not turned into bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nobody waits for it: answered, withdrawn, or never asked.
    #[error("request {0} is not waiting for an answer")]
    NoSuchRequest(String),
    /// This agent has no words for it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// An agent's side of a session, as a pure fold.
pub trait Adapter: Send + Debug {
    /// How to start the program.
    fn launch(&self) -> Launch;

    /// What to write first. Empty when the ledger shows that it was written.
    fn opening(&mut self) -> Vec<u8>;

    /// Whether a prompt would be taken now: open, and no turn is running.
    fn can_prompt(&self) -> bool;

    /// Begins a turn.
    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError>;

    /// Adds words to the running turn, where the agent can.
    fn steer(&mut self, _blocks: &[Block]) -> Option<Vec<u8>> {
        None
    }

    /// Answers a request.
    fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<u8>, AnswerError>;

    /// Asks the agent to stop its turn. `None`: it can not be asked (now), use signals.
    fn interrupt(&mut self) -> Option<Vec<u8>>;

    /// Whether tools of a turn that it was asked to stop run on: then they are ended for it.
    fn leaves_tools(&self) -> bool {
        false
    }

    /// A line that already went to the agent's stdin: rebuilding only.
    fn sent(&mut self, line: &[u8]);

    /// A line of the agent's stdout, without its end.
    fn line(&mut self, line: &[u8]) -> Lined;

    /// A line of the agent's stdout that was too long to keep.
    fn long_line(&mut self, bytes: u64) -> Lined {
        let message = format!("a line of {bytes} bytes was left out; {MAX_LINE} is the limit");
        Lined { events: vec![Event::Error { message, fatal: false, kind: ErrorKind::Line }], reply: Vec::new() }
    }

    /// The agent's stdout has ended: what is open is closed as interrupted.
    fn ended(&mut self) -> Vec<Event>;
}

/// The adapter for a session, or why there is none.
pub fn open(setup: &Setup, drive: Drive) -> Result<Box<dyn Adapter>, Unsupported> {
    setup.check()?;
    Ok(match (drive, &setup.agent) {
        (Drive::Stream, Agent::Claude) => Box::new(claude::Claude::new(setup)?),
        (Drive::AppServer, Agent::Codex) => Box::new(codex::Codex::new(setup)?),
        (Drive::Acp, Agent::Gemini | Agent::Opencode | Agent::Acp { .. }) => Box::new(acp::Acp::new(setup)?),
        (Drive::Echo, Agent::Echo) => Box::new(echo::Echo::new(setup)?),
        (Drive::Oneshot, Agent::Claude | Agent::Codex | Agent::Gemini | Agent::Opencode) => {
            Box::new(oneshot::Oneshot::new(setup)?)
        }
        (drive, _) => return Err(setup.cannot(format!("be driven by {drive:?}"))),
    })
}
