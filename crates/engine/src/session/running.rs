//! An agent's process as its session's thread sees it: its output line by line, its stdin, and how far it is ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ostler_agents::{Adapter, Lined, Piece, Splitter};
use ostler_journal::{Cursor, Kind, Missing, Step, Subscription};
use ostler_story::Exit;

use super::Session;
use super::bell::Bell;
use crate::{MayWait, Process};

/// The end of stderr, for the one who asks why an agent is gone: more is in its journal.
const STDERR_MAX: usize = 2048;

/// How far it is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It works.
    Live,
    /// It was asked to stop its turn; signals follow then.
    Asked(Instant),
    /// Its stdin was closed; signals follow then.
    Closing(Instant),
    /// Its group got TERM; KILL follows then.
    Termed(Instant),
    /// Its tree got KILL, and gets it again then.
    Killed(Instant),
}

impl Stage {
    /// When the next step is due.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Live => None,
            Self::Asked(at) | Self::Closing(at) | Self::Termed(at) | Self::Killed(at) => Some(at),
        }
    }
}

/// What was heard, until it is in the journal.
pub(super) enum Heard {
    /// A line that was understood.
    Line {
        /// The raw offset after it.
        end: u64,
        lined: Lined,
    },
    /// Lines on stderr, up to this offset.
    Stderr(u64),
}

pub(super) struct Running {
    pub(super) source: u32,
    pub(super) process: Process,
    pub(super) adapter: Box<dyn Adapter>,
    pub(super) started: Instant,
    pub(super) stage: Stage,
    /// Its stdin ends after the prompt.
    pub(super) closes: bool,
    /// What was handed over for its stdin, ever.
    pub(super) ledger: u64,
    /// It has said something, whatever it was.
    pub(super) spoke: bool,
    /// Lines that came out of the same frame, the oldest first.
    pub(super) heard: std::collections::VecDeque<Heard>,
    /// Replies that wait until everything it had said is known; only while it is being taken up.
    pub(super) held: Option<Vec<Vec<u8>>>,
    cursor: Cursor,
    splitter: Splitter,
    stderr: Vec<u8>,
    /// Where its stderr ends, as far as it was read.
    stderr_end: u64,
    exit: Option<Exit>,
    refused: Arc<AtomicBool>,
    subscription: Subscription,
}

/// What there was to hear.
pub(super) enum News {
    /// Lines, in `heard`.
    Lines,
    /// It is over, and everything it said was heard.
    Over(Exit),
    /// Nothing more for now.
    Nothing,
}

impl Running {
    pub(super) fn new(session: &Session, source: u32, process: Process, adapter: Box<dyn Adapter>) -> Self {
        let inner = Arc::clone(&session.inner);
        let subscription = process.subscribe(Arc::new(move || inner.bell.ring()));
        Self {
            source,
            closes: adapter.launch().close_stdin_after_prompt,
            adapter,
            started: Instant::now(),
            stage: Stage::Live,
            ledger: process.bounds().applied,
            spoke: false,
            heard: std::collections::VecDeque::new(),
            held: None,
            cursor: process.cursor(0),
            splitter: Splitter::default(),
            stderr: Vec::new(),
            stderr_end: 0,
            exit: None,
            refused: Arc::default(),
            subscription,
            process,
        }
    }

    /// Reads on. Waits for the disk, not for the agent.
    pub(super) fn listen(&mut self, wait: &MayWait) -> io::Result<News> {
        if let Some(exit) = self.exit {
            return Ok(News::Over(exit));
        }
        // Before the look: what comes after it rings.
        self.subscription.arm();
        let mut frame = Vec::new();
        loop {
            frame.clear();
            match self.cursor.next_blocking(&mut frame)? {
                Step::Frame(head) if head.kind == Kind::Stdout => {
                    self.spoke = true;
                    // What a damaged record of the index says is missing is in the file all the same.
                    let missed = self.process.stdout_between(wait, self.splitter.offset().min(head.from), head.from)?;
                    self.split(&missed);
                    self.split(&frame);
                    if !self.heard.is_empty() {
                        return Ok(News::Lines);
                    }
                }
                Step::Frame(head) if head.kind == Kind::Stderr => {
                    self.stderr.extend_from_slice(&frame);
                    self.stderr.drain(..self.stderr.len().saturating_sub(STDERR_MAX));
                    self.stderr_end = head.from + head.len as u64;
                    // A line that is not whole yet waits for its end, or for the program's.
                    if let Some(end) = frame.iter().rposition(|byte| *byte == b'\n') {
                        self.heard.push_back(Heard::Stderr(head.from + end as u64 + 1));
                        return Ok(News::Lines);
                    }
                }
                Step::Frame(_) => {
                    let exit = self.process.exit().unwrap_or(Exit::Unknown);
                    self.exit = Some(exit);
                    self.finish();
                    self.heard.push_back(Heard::Stderr(self.stderr_end));
                    return Ok(if self.heard.is_empty() { News::Over(exit) } else { News::Lines });
                }
                // Cut away by a daemon that did so: what it was is not known, but where the rest stands is.
                Step::Gap { missing: Missing::LetGo, .. } => {
                    self.spoke = true;
                    self.splitter = Splitter::at(self.process.stdout_start());
                }
                Step::Gap { .. } => {}
                Step::UpToDate | Step::WouldBlock => return Ok(News::Nothing),
            }
        }
    }

    fn split(&mut self, bytes: &[u8]) {
        let Self { splitter, adapter, heard, .. } = self;
        splitter.push(bytes, |end, piece| heard.push_back(understand(adapter.as_mut(), end, piece)));
    }

    fn finish(&mut self) {
        let Self { splitter, adapter, heard, .. } = self;
        splitter.finish(|end, piece| heard.push_back(understand(adapter.as_mut(), end, piece)));
    }

    /// Hands bytes over for its stdin, in order. Nothing is waited for; what it does not take any more is for its end to
    /// tell.
    pub(super) fn write(&mut self, session: &Session, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if let Some(held) = &mut self.held {
            held.push(bytes);
            return;
        }
        let at = i64::try_from(self.ledger).ok();
        self.ledger += bytes.len() as u64;
        let (refused, inner) = (Arc::clone(&self.refused), Arc::clone(&session.inner));
        self.process.feed_then(at, bytes, move |result| {
            if let Err(error) = result {
                tracing::debug!("{}: stdin: {error}", inner.id);
                refused.store(true, Ordering::Release);
                let bell: &Bell = &inner.bell;
                bell.ring();
            }
        });
    }

    /// Whether something that was handed over did not get into the ledger.
    pub(super) fn is_deaf(&self) -> bool {
        self.refused.load(Ordering::Acquire) && self.process.is_running()
    }

    /// The end of what it wrote to stderr.
    pub(super) fn last_words(&self) -> String {
        plain(&String::from_utf8_lossy(&self.stderr)).trim().to_owned()
    }
}

/// Without the colours that some agents give to errors although nobody looks at a screen.
fn plain(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some((before, coloured)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = coloured.find(|c: char| ('@'..='~').contains(&c)).map_or(coloured.len(), |end| end + 1);
        rest = coloured.get(end..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

fn understand(adapter: &mut dyn Adapter, end: u64, piece: Piece<'_>) -> Heard {
    let lined = match piece {
        Piece::Line(line) => adapter.line(line),
        Piece::TooLong(bytes) => adapter.long_line(bytes),
    };
    Heard::Line { end, lined }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn last_words_have_no_colours() {
        assert_eq!(plain("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno key\nat 1"), "Error: no key\nat 1");
        assert_eq!(plain("a\u{1b}["), "a");
        assert_eq!(plain("plain"), "plain");
    }
}
