//! The program behind the echo agent: reads inputs, plays a turn, writes events.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ostler_story::{Block, EndReason, Event};

use super::Input;
use super::script;
use crate::lines::{Piece, Splitter};

/// 64 inputs ahead of the program: a client that types faster waits in the pipe.
const AHEAD: usize = 64;
/// 32 prompts wait behind a running turn; more are refused with an error.
const QUEUE: usize = 32;

/// Who the program says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The id of the conversation.
    pub session: String,
    /// The model it claims to be.
    pub model: String,
}

impl Program {
    /// From the arguments after the verb.
    pub fn from_args(args: &[String]) -> Result<Program, String> {
        let mut program = Program { session: String::new(), model: "echo".to_owned() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?.clone();
            match arg.as_str() {
                "--session" => program.session = value,
                "--model" => program.model = value,
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(program)
    }
}

/// Why a turn stopped early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Somebody asked for it, or stdin ended while an answer was due.
    Interrupted,
    /// The output is gone.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// Runs until stdin ends and the last turn is over.
pub fn run(program: &Program, stdin: impl Read + Send + 'static, stdout: impl Write) -> io::Result<()> {
    let (sender, inputs) = sync_channel(AHEAD);
    // Not joined: it ends with stdin, or with the process.
    thread::spawn(move || {
        read(stdin, |input| sender.send(input).is_ok());
    });
    let mut stage = Stage { stdout, inputs, waiting: Vec::new(), number: 0 };
    stage.say(&Event::Started { agent_session: Some(program.session.clone()), model: Some(program.model.clone()) })?;
    while let Some(blocks) = stage.next_prompt() {
        let end = match script::play(&mut stage, &blocks) {
            Ok(end) => end,
            Err(Stop::Interrupted) => Event::turn_ended(EndReason::Interrupted),
            Err(Stop::Io(error)) => return Err(error),
        };
        stage.say(&end)?;
    }
    Ok(())
}

fn read(mut stdin: impl Read, mut take: impl FnMut(Input) -> bool) {
    let (mut splitter, mut buffer, mut wanted) = (Splitter::default(), vec![0; 64 << 10], true);
    while wanted {
        let bytes = match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => buffer.get(..n).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        splitter.push(bytes, |_, piece| {
            if let Piece::Line(line) = piece
                && let Ok(input) = serde_json::from_slice(line)
            {
                wanted = wanted && take(input);
            }
        });
    }
}

/// Where a turn is played: events go out, inputs come in.
pub(super) struct Stage<W> {
    stdout: W,
    inputs: Receiver<Input>,
    waiting: Vec<Vec<Block>>,
    number: u64,
}

impl<W: Write> Stage<W> {
    /// Writes an event.
    pub(super) fn say(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.stdout.write_all(&line)?;
        self.stdout.flush()
    }

    /// A number for a new request or call.
    pub(super) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Lets time pass, at least a moment: an interrupt ends it.
    pub(super) fn pause(&mut self, time: Duration) -> Result<(), Stop> {
        let end = Instant::now() + time;
        loop {
            match self.inputs.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Input::Interrupt) => return Err(Stop::Interrupted),
                Ok(Input::Prompt { blocks }) => self.queue(blocks)?,
                Ok(Input::Answer { .. }) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(end.saturating_duration_since(Instant::now()));
                    return Ok(());
                }
            }
        }
    }

    /// Waits for the answer to a request.
    pub(super) fn answer(&mut self, request: &str) -> Result<ostler_story::Decision, Stop> {
        loop {
            match self.inputs.recv() {
                Ok(Input::Answer { request: answered, decision }) if answered == request => return Ok(decision),
                Ok(Input::Answer { .. }) => {}
                Ok(Input::Prompt { blocks }) => self.queue(blocks)?,
                Ok(Input::Interrupt) | Err(_) => {
                    self.say(&Event::Unasked { request: request.to_owned() })?;
                    return Err(Stop::Interrupted);
                }
            }
        }
    }

    fn queue(&mut self, blocks: Vec<Block>) -> io::Result<()> {
        if self.waiting.len() < QUEUE {
            self.waiting.push(blocks);
            return Ok(());
        }
        self.say(&Event::trouble("too many prompts are waiting"))
    }

    fn next_prompt(&mut self) -> Option<Vec<Block>> {
        if !self.waiting.is_empty() {
            return Some(self.waiting.remove(0));
        }
        loop {
            if let Input::Prompt { blocks } = self.inputs.recv().ok()? {
                return Some(blocks);
            }
        }
    }
}
