//! The stdin of one process: accepted into the ledger `in`, delivered from there, closed when told to.
//!
//! The length of `in` is what was accepted; the position of the description that the keeper shares is what was
//! delivered. Nothing else is remembered, so a new daemon goes on exactly there. `in` is only ever appended to: its
//! pages are shared with the child's pipe.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ostler_hooks::hook;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::pipe::fcntl_getpipe_size;

use super::hosted::{Append, Request};
use super::ledger::Ledger;
use super::poller::{Poller, Token};
use super::{Appended, StdinError};
use crate::raw::{Fact, Files, Journal};
use crate::sys::{self, PAGE};

/// Bytes handed to the child before the other descriptors of the thread get their turn.
const TURN: usize = 256 * 1024;
/// End-of-file as a terminal's user types it.
const CTRL_D: u8 = 4;

enum Sink {
    Pipe {
        fd: OwnedFd,
        capacity: u64,
    },
    /// A duplicate of the master, so that it can be waited for apart from the output.
    Terminal(OwnedFd),
}

impl Sink {
    fn fd(&self) -> &OwnedFd {
        match self {
            Self::Pipe { fd, .. } | Self::Terminal(fd) => fd,
        }
    }
}

pub(crate) struct Spool {
    /// Gone once closed, or once the child closed its end.
    sink: Option<Sink>,
    ledger: Ledger,
    token: Token,
    /// Waiting for room in the pipe.
    blocked: bool,
    /// Has waited for it, and is in the set.
    armed: bool,
    accepted: u64,
    delivered: u64,
    /// Stdin ends here, once everything before was delivered.
    close_at: Option<u64>,
    on_close: Option<Box<dyn FnOnce() + Send>>,
    closed: bool,
    /// The ledger or its facts changed since somebody asked.
    touched: bool,
    cap: u64,
    waiting: VecDeque<Request>,
}

impl Spool {
    /// `sink`: the write end of the child's stdin, or else its terminal.
    pub(crate) fn new(
        sink: (Option<OwnedFd>, Option<OwnedFd>),
        ledger: Ledger,
        token: Token,
        cap: u64,
        journal: &Journal,
    ) -> Self {
        let (pipe, terminal) = sink;
        let pipe = pipe.map(|fd| Sink::Pipe { capacity: fcntl_getpipe_size(&fd).unwrap_or(1 << 20) as u64, fd });
        let sink = pipe.or(terminal.map(Sink::Terminal));
        let delivered = ledger.fd().map_or(0, position);
        Self {
            sink,
            ledger,
            token,
            blocked: false,
            armed: false,
            accepted: journal.bounds().applied,
            delivered,
            close_at: journal.stdin_closed_at(),
            on_close: None,
            closed: false,
            touched: false,
            cap,
            waiting: VecDeque::new(),
        }
    }

    /// Second descriptors of the pipe (a terminal's are the output's) and of the ledger.
    pub(crate) fn duplicate(&self) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
        let pipe = match &self.sink {
            Some(Sink::Pipe { fd, .. }) => Some(fd.try_clone()?),
            _ => None,
        };
        Ok((pipe, self.ledger.fd().map(OwnedFd::try_clone).transpose()?))
    }

    /// Bytes that nobody reads any more: delivered, and not in the pipe either.
    pub(crate) fn consumed(&self) -> u64 {
        match self.sink {
            Some(Sink::Pipe { capacity, .. }) => self.delivered.saturating_sub(capacity),
            _ => self.delivered,
        }
    }

    pub(crate) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// Serves the waiting requests in order, until one has to wait. `capped`: honour the cap (a child that has exited
    /// will not read any more, so nobody waits for it). An error is the disk's; the request stays.
    pub(crate) fn serve(&mut self, journal: &Journal, files: &Files, capped: bool) -> io::Result<()> {
        while let Some(request) = self.waiting.pop_front() {
            let refused = if journal.bounds().exit.is_some() {
                Some(StdinError::NotRunning)
            } else if !self.ledger.is_possible() || (self.close_at.is_some() && request.is_append()) {
                Some(StdinError::Closed)
            } else {
                None
            };
            if let Some(error) = refused {
                request.answer(Err(error));
                continue;
            }
            let full = capped && self.accepted.saturating_sub(self.delivered) >= self.cap;
            match request {
                Request::Append(append) if full && self.fresh(journal, &append) => {
                    self.waiting.push_front(Request::Append(append));
                    return Ok(());
                }
                Request::Append(append) => self.append(journal, files, append)?,
                Request::Close(done) => {
                    if self.close_at.is_none() {
                        if let Err(error) = journal.record(Fact::StdinClosed(self.accepted)) {
                            self.waiting.push_front(Request::Close(done));
                            return Err(error);
                        }
                        self.close_at = Some(self.accepted);
                        self.touched = true;
                        hook!("stdin.close_recorded");
                    }
                    Request::Close(done).answer(Ok(self.appended(journal, false)));
                }
            }
        }
        Ok(())
    }

    fn appended(&self, journal: &Journal, duplicate: bool) -> Appended {
        Appended { applied: self.accepted - journal.stdin_answered(self.accepted), duplicate }
    }

    /// Would add bytes.
    fn fresh(&self, journal: &Journal, append: &Append) -> bool {
        matches!(self.place(journal, append), Ok(Some(skip)) if skip < append.data.len())
    }

    /// How many leading bytes were accepted before; `None` = all of them.
    fn place(&self, journal: &Journal, append: &Append) -> Result<Option<usize>, StdinError> {
        let Some(offset) = append.offset else { return Ok(Some(0)) };
        let applied = match append.sender {
            Some(sender) => journal.stdin_accepted_of(sender, self.accepted),
            // What the terminal answered by itself is not in anybody's count.
            None => self.accepted - journal.stdin_answered(self.accepted),
        };
        let (accepted, offset) = (i128::from(applied), i128::from(offset));
        if offset > accepted {
            return Err(StdinError::Gap { applied });
        }
        if offset < accepted && offset + append.data.len() as i128 <= accepted {
            return Ok(None);
        }
        Ok(usize::try_from(accepted - offset).ok())
    }

    /// Appends the fresh part to the ledger and answers.
    fn append(&mut self, journal: &Journal, files: &Files, append: Append) -> io::Result<()> {
        let skip = match self.place(journal, &append) {
            Ok(Some(skip)) => skip,
            Ok(None) => {
                append.answer(Ok(self.appended(journal, true)));
                return Ok(());
            }
            Err(error) => {
                append.answer(Err(error));
                return Ok(());
            }
        };
        let fresh = append.data.get(skip..).unwrap_or_default();
        let before = self.accepted;
        let written = journal.stdin_turn(append.sender, before).and_then(|()| {
            hook!("stdin.turn_recorded");
            self.write(journal, files, fresh)
        });
        if self.accepted != before {
            let answered = journal.stdin_answered(self.accepted);
            journal.update(|bounds| (bounds.applied, bounds.answered) = (self.accepted, answered));
        }
        match written {
            Ok(()) => {
                hook!("stdin.appended");
                append.answer(Ok(self.appended(journal, false)));
                Ok(())
            }
            Err(error) => {
                // What was written counts; the rest waits for the disk, at the place it now has.
                let rest = append.rest(skip + usize::try_from(self.accepted - before).unwrap_or(0));
                self.waiting.push_front(Request::Append(rest));
                Err(error)
            }
        }
    }

    /// Page by page: the page cache then holds single pages, which can be punched out one by one while the pipe still
    /// holds their neighbours.
    fn write(&mut self, journal: &Journal, files: &Files, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = usize::try_from(PAGE - self.accepted % PAGE).unwrap_or(1);
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            if let Some(errno) = ostler_hooks::fault!("stdin.append") {
                return Err(io::Error::from_raw_os_error(errno));
            }
            sys::write_all_at(journal.input(files)?, now, self.accepted)?;
            self.accepted += now.len() as u64;
            self.touched = true;
            bytes = later;
        }
        Ok(())
    }

    /// Hands accepted bytes to the child, a turn's worth.
    pub(crate) fn deliver(&mut self, journal: &Journal, poller: &Poller) -> io::Result<()> {
        let mut turn = TURN;
        self.blocked = false;
        while self.delivered < self.accepted {
            let Some(ledger) = self.ledger.ready(journal)? else { break };
            let Some(sink) = &self.sink else {
                self.skip_to_end();
                break;
            };
            if turn == 0 {
                return Ok(());
            }
            let left = usize::try_from(self.accepted - self.delivered).unwrap_or(usize::MAX);
            let len = left.min(turn);
            let moved = match sink {
                Sink::Pipe { fd, .. } => sys::file_to_pipe(ledger.as_fd(), fd.as_fd(), len),
                Sink::Terminal(master) => sys::file_to_terminal(ledger.as_fd(), master.as_fd(), len),
            };
            match moved {
                Ok(0) => {
                    // The position is not where we thought: somebody else is the truth.
                    self.delivered = position(ledger).max(self.delivered + 1).min(self.accepted);
                }
                Ok(n) => {
                    self.delivered += n as u64;
                    turn -= n.min(turn);
                    hook!("stdin.delivered");
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    poller.arm_writable(sink.fd().as_fd(), self.token)?;
                    self.armed = true;
                    self.blocked = true;
                    return Ok(());
                }
                // The child closed its end (or the terminal has gone): nobody will ever read this.
                Err(Errno::PIPE) => self.drop_sink(poller),
                Err(Errno::IO) if matches!(sink, Sink::Terminal(_)) => self.drop_sink(poller),
                // The ledger can not be read: what was accepted waits for the disk.
                Err(errno) => return Err(errno.into()),
            }
        }
        self.close_if_due(poller);
        Ok(())
    }

    fn close_if_due(&mut self, poller: &Poller) {
        if self.closed || self.close_at.is_none_or(|at| self.delivered < at) {
            return;
        }
        if let Some(Sink::Terminal(master)) = &self.sink {
            let _ = rustix::io::write(master, &[CTRL_D]);
        }
        self.drop_sink(poller);
        self.closed = true;
        hook!("stdin.closed");
        if let Some(callback) = self.on_close.take() {
            callback();
        }
    }

    /// Sets what is called when stdin was closed; at once if it was.
    pub(crate) fn on_close(&mut self, callback: Box<dyn FnOnce() + Send>) {
        if self.closed {
            callback();
        } else {
            self.on_close = Some(callback);
        }
    }

    fn skip_to_end(&mut self) {
        if let Some(ledger) = self.ledger.fd() {
            let _ = seek(ledger, SeekFrom::Start(self.accepted));
        }
        self.delivered = self.accepted;
    }

    /// Takes the descriptor out of the set; `deliver` puts it back when needed.
    pub(crate) fn unpoll(&mut self, poller: &Poller) {
        if let Some(sink) = self.sink.as_ref().filter(|_| self.armed) {
            poller.remove(sink.fd().as_fd());
        }
        self.armed = false;
        self.blocked = false;
    }

    fn drop_sink(&mut self, poller: &Poller) {
        self.unpoll(poller);
        self.sink = None;
    }

    /// When something to deliver is to be looked at that nothing will say a word about.
    pub(crate) fn due(&self, at_once: Instant) -> Option<Instant> {
        let waits = !self.blocked && self.delivered < self.accepted;
        waits.then(|| self.ledger.due(at_once)).flatten()
    }

    /// The keeper was asked to share the ledger.
    pub(crate) fn held(&mut self, held: bool, now: Instant) {
        self.ledger.held(held, now);
    }

    /// The ledger changed since this was last asked.
    pub(crate) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers everybody who still waits.
    pub(crate) fn refuse_all(&mut self, error: &StdinError) {
        for request in self.waiting.drain(..) {
            request.answer(Err(error.clone()));
        }
    }
}

fn position(ledger: &OwnedFd) -> u64 {
    seek(ledger, SeekFrom::Current(0)).unwrap_or(0)
}
