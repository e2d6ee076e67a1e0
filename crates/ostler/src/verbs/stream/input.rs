//! Our stdin on its way to the child's: sent in pieces, a few at a time, each remembered until it is accepted. Every piece has
//! its place in all that we ever sent, so that one that is sent again after a crash is taken once.
//!
//! A terminal that goes away is somebody leaving. Only the end of something that is no terminal, or the key that says so,
//! ends the child's input.

use std::collections::VecDeque;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_api::client::{Client, ClientError};
use ostler_api::{ErrorKind, IdKeyParams, RpcError, Sender, StdinParams, methods};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::keys::find_key;
use super::terminal;
use crate::config::DetachKey;
use crate::output::CommandError;

/// One pipe's worth: larger pieces would only wait in the daemon.
const PIECE: usize = 64 * 1024;
/// Pieces on their way at once. Enough to keep the socket busy, few enough to send again after a crash.
const IN_FLIGHT: usize = 4;
/// What is typed ahead of a program that does not read: more than anybody types, or means to paste.
const TYPED_AHEAD: usize = 1024 * 1024;
/// End of input as the user of a terminal types it.
const CTRL_D: u8 = 4;
const CTRL_C: u8 = 3;

/// A piece that was sent and not yet answered.
struct Sent {
    request: u64,
    offset: i64,
    data: Vec<u8>,
}

/// What reading our stdin brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Taken,
    /// Bytes that go nowhere, for the first time: the process takes no input, or does not read what it has.
    Ignored,
    /// The key that leaves.
    Detach,
    /// Ctrl-C of somebody who only looks.
    Interrupt,
    /// The terminal is gone.
    HungUp,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Fine,
    /// Nobody knows whether these bytes were taken.
    Unsure(usize),
    /// These bytes were not taken: the process has ended.
    Ended(usize),
    /// These bytes were not taken: its stdin is closed.
    Refused(usize),
}

/// What the daemon says of a process that takes no input because it is over; that it is over is told as well.
const ENDED: &str = "has ended";

/// Where what we read goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// To the child; at the end of it its stdin is closed, if `ends` says so.
    ToChild { ends: bool },
    /// Nowhere: whoever sits there only looks, or nothing is taken any more.
    Nowhere,
}

/// The state of our stdin.
pub(in crate::verbs) struct Input {
    /// It is one, or was when it lived.
    terminal: bool,
    /// There may be more to read.
    open: bool,
    goes: Goes,
    /// The child sits at a terminal of its own, where the end of input is a key.
    to_terminal: bool,
    only_looks: bool,
    closing: bool,
    close_sent: bool,
    said_ignored: bool,
    sender: String,
    /// Where the next byte stands in all that was sent.
    offset: i64,
    detach_key: Option<DetachKey>,
    sent: VecDeque<Sent>,
    /// Read, and not sent yet.
    held: Vec<u8>,
}

impl Input {
    /// Nothing is read.
    pub(in crate::verbs) fn none() -> Self {
        Self {
            terminal: false,
            open: false,
            goes: Goes::Nowhere,
            to_terminal: false,
            only_looks: false,
            closing: false,
            close_sent: false,
            said_ignored: false,
            sender: String::new(),
            offset: 0,
            detach_key: None,
            sent: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Nothing is passed on; a terminal is listened to for the keys that leave.
    pub(in crate::verbs) fn looking() -> Self {
        let terminal = terminal::is_one(rustix::stdio::stdin());
        Self { terminal, open: terminal, only_looks: true, ..Self::none() }
    }

    /// For a process that only we write to, as far as we know. `tty`: it has a terminal of its own.
    pub(in crate::verbs) fn alone(tty: bool) -> Result<Self, CommandError> {
        let terminal = terminal::is_one(rustix::stdio::stdin());
        let (sender, goes) = (draw_sender()?, Goes::ToChild { ends: true });
        Ok(Self { terminal, open: true, goes, to_terminal: tty, sender, ..Self::none() })
    }

    /// For a process that others may write to as well: a file that says nothing does not end its input.
    pub(in crate::verbs) fn shared(tty: bool) -> Result<Self, CommandError> {
        let alone = Self::alone(tty)?;
        Ok(Self { goes: Goes::ToChild { ends: alone.terminal }, ..alone })
    }

    /// This key leaves; it is looked for only in what a terminal sends.
    pub(super) fn with_detach_key(mut self, key: Option<DetachKey>) -> Self {
        self.detach_key = key;
        self
    }

    /// Whether the person may type, and does not only look.
    pub(super) fn types(&self) -> bool {
        !self.only_looks && self.open
    }

    /// What our stdin is watched for; a terminal always for its end, and where a key leaves, for that.
    pub(super) fn interest(&self) -> Option<PollFlags> {
        let room = self.sent.len() < IN_FLIGHT && self.held.is_empty();
        match self.terminal {
            _ if !self.open => None,
            true if room || self.detach_key.is_some() => Some(PollFlags::IN),
            true => Some(PollFlags::empty()),
            false => room.then_some(PollFlags::IN),
        }
    }

    /// Reads once; what came is sent by [`push`](Self::push).
    pub(super) fn read(&mut self) -> io::Result<Typed> {
        let stdin = rustix::stdio::stdin();
        let mut buffer = vec![0; PIECE];
        let count = match rustix::io::read(stdin, &mut buffer) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(Typed::Taken),
            Err(Errno::IO) if self.terminal => return Ok(Typed::HungUp),
            Err(error) => return Err(error.into()),
        };
        buffer.truncate(count);
        if count > 0 {
            return Ok(self.take(buffer));
        }
        if self.terminal && terminal::is_gone(stdin) {
            return Ok(Typed::HungUp);
        }
        if self.terminal && self.to_terminal {
            return Ok(self.take(vec![CTRL_D]));
        }
        self.open = false;
        self.closing = self.goes == Goes::ToChild { ends: true };
        Ok(Typed::Taken)
    }

    fn take(&mut self, mut data: Vec<u8>) -> Typed {
        let detach = self.detach_key.and_then(|key| find_key(&data, key));
        if let Some(at) = detach {
            data.truncate(at);
        }
        let interrupt = self.only_looks && data.contains(&CTRL_C);
        let mut ignored = false;
        match &mut self.goes {
            _ if data.is_empty() => {}
            Goes::ToChild { ends } if self.held.len() + data.len() <= TYPED_AHEAD => {
                // Whoever pipes something in also ends it.
                *ends = true;
                self.held.append(&mut data);
            }
            _ => ignored = !self.only_looks && !std::mem::replace(&mut self.said_ignored, true),
        }
        match (detach, interrupt, ignored) {
            (Some(_), ..) => Typed::Detach,
            (None, true, _) => Typed::Interrupt,
            (None, false, true) => Typed::Ignored,
            (None, false, false) => Typed::Taken,
        }
    }

    /// Sends what was read, as far as it may be on its way; then the end of it.
    pub(super) fn push(&mut self, client: &mut Client, id: &str) -> Result<(), ClientError> {
        while self.sent.len() < IN_FLIGHT && !self.held.is_empty() {
            let rest = self.held.split_off(self.held.len().min(PIECE));
            let data = std::mem::replace(&mut self.held, rest);
            let offset = self.offset;
            self.offset += i64::try_from(data.len()).unwrap_or(0);
            // Remembered before it is sent: if sending fails half-way it is sent again.
            self.sent.push_back(Sent { request: 0, offset, data });
            let at = self.sent.len() - 1;
            self.post(client, id, at)?;
        }
        if self.closing && !self.close_sent && self.sent.is_empty() && self.held.is_empty() {
            self.close_sent = true;
            client.send::<methods::ProcessCloseStdin>(&IdKeyParams { id: id.to_owned(), key: None })?;
        }
        Ok(())
    }

    fn post(&mut self, client: &mut Client, id: &str, at: usize) -> Result<(), ClientError> {
        let Some(sent) = self.sent.get_mut(at) else { return Ok(()) };
        let sender = Some(Sender { id: self.sender.clone(), offset: sent.offset });
        let params = StdinParams { id: id.to_owned(), data: STANDARD.encode(&sent.data), offset: None, sender };
        sent.request = client.send::<methods::ProcessStdin>(&params)?;
        Ok(())
    }

    /// An answer to one of our requests. A process that takes no more input ends it; the keys that leave still count.
    pub(super) fn answered(&mut self, request: u64, error: Option<&RpcError>) -> Result<Answered, ClientError> {
        let Some(at) = self.sent.iter().position(|sent| sent.request == request) else { return Ok(Answered::Fine) };
        let Some(error) = error else {
            self.sent.remove(at);
            return Ok(Answered::Fine);
        };
        let bytes = self.sent.iter().map(|sent| sent.data.len()).sum::<usize>();
        self.sent.clear();
        match error.kind() {
            ErrorKind::Refused | ErrorKind::NotFound => {
                self.goes = Goes::Nowhere;
                self.held.clear();
                self.open = self.terminal;
                self.closing = false;
                // Said where the answer is: what is typed from now on needs no words of its own.
                self.said_ignored = true;
                Ok(if error.message.contains(ENDED) { Answered::Ended(bytes) } else { Answered::Refused(bytes) })
            }
            // It does not know us any more: what follows is sent under another name.
            ErrorKind::StdinGap => {
                self.sender = draw_sender().map_err(|_| ClientError::Rpc(error.clone()))?;
                self.offset = 0;
                Ok(Answered::Unsure(bytes))
            }
            _ => Err(ClientError::Rpc(error.clone())),
        }
    }

    /// After a reconnect: sends again what was not answered. The daemon knows by its place what it already has.
    pub(super) fn resend(&mut self, client: &mut Client, id: &str) -> Result<(), ClientError> {
        // Closed is closed, however often it is asked for.
        self.close_sent = false;
        (0..self.sent.len()).try_for_each(|at| self.post(client, id, at))?;
        self.push(client, id)
    }

    /// What was read and never sent, and what was sent and is not answered: bytes of each.
    pub(super) fn on_its_way(&self) -> (usize, usize) {
        (self.held.len(), self.sent.iter().map(|sent| sent.data.len()).sum())
    }

    /// Whether something was sent of which nobody has said that it was taken.
    pub(super) fn is_owed_an_answer(&self) -> bool {
        !self.sent.is_empty()
    }
}

/// A name that no other sender has.
fn draw_sender() -> Result<String, CommandError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| CommandError::failed(format!("no random numbers: {error}")))?;
    // Nobody in particular is 0.
    Ok(format!("{:016x}", u64::from_le_bytes(random).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typing() -> Input {
        Input { terminal: true, open: true, goes: Goes::ToChild { ends: true }, ..Input::none() }
            .with_detach_key(Some(DetachKey::default()))
    }

    #[test]
    fn what_was_typed_and_went_nowhere_is_counted() {
        let mut input = typing();
        assert_eq!(input.on_its_way(), (0, 0));
        assert_eq!(input.take(b"held".to_vec()), Typed::Taken);
        input.sent.push_back(Sent { request: 7, offset: 0, data: b"abc".to_vec() });
        assert_eq!(input.on_its_way(), (4, 3));
        input.answered(7, None).unwrap();
        assert_eq!(input.on_its_way(), (4, 0));
        assert_eq!(input.take(vec![b'x'; TYPED_AHEAD]), Typed::Ignored, "beyond what is kept");
    }

    fn refused(input: &mut Input) -> Answered {
        input.sent.push_back(Sent { request: 7, offset: 0, data: b"abc".to_vec() });
        input.answered(7, Some(&RpcError::new(ErrorKind::Refused, "its stdin is closed"))).unwrap()
    }

    #[test]
    fn what_is_refused_leaves_the_keys_that_leave() {
        let mut input = typing();
        assert_eq!(refused(&mut input), Answered::Refused(3));
        assert_eq!(input.interest(), Some(PollFlags::IN));
        assert_eq!(input.take(b"x".to_vec()), Typed::Taken, "it was said with the first");
        assert_eq!(input.take(b"\x1d".to_vec()), Typed::Detach);
        assert!(input.held.is_empty());
    }

    #[test]
    fn who_types_ahead_of_a_program_that_does_not_read_can_still_leave() {
        let mut input = typing();
        input.sent.extend((0..4).map(|request| Sent { request, offset: 0, data: vec![b'x'] }));
        assert_eq!(input.take(vec![b'x'; TYPED_AHEAD]), Typed::Taken);
        assert_eq!(input.interest(), Some(PollFlags::IN));
        assert_eq!(input.take(vec![b'x']), Typed::Ignored);
        assert_eq!(input.take(b"\x1d".to_vec()), Typed::Detach);
    }

    #[test]
    fn who_only_looks_sends_nothing_and_leaves_by_either_key() {
        let mut input = Input { terminal: true, open: true, only_looks: true, ..Input::none() }
            .with_detach_key(Some(DetachKey::default()));
        assert_eq!((input.take(b"abc".to_vec()), input.held.len()), (Typed::Taken, 0));
        assert_eq!((input.take(b"\x03".to_vec()), input.take(b"\x1d".to_vec())), (Typed::Interrupt, Typed::Detach));
    }

    #[test]
    fn a_pipe_is_read_only_as_fast_as_it_is_taken() {
        let mut input = Input { terminal: false, detach_key: None, ..typing() };
        assert_eq!(input.interest(), Some(PollFlags::IN));
        input.sent.extend((0..4).map(|request| Sent { request, offset: 0, data: vec![b'x'] }));
        assert_eq!(input.interest(), None);
    }
}
