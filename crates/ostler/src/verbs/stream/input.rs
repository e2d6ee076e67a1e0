//! Our stdin on its way to the child's: sent in pieces, a few at a time, each remembered until it is accepted.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_api::client::{Client, ClientError};
use ostler_api::{ErrorKind, IdKeyParams, RpcError, StdinParams, methods};

use crate::config::DetachKey;

/// One pipe's worth: larger pieces would only wait in the daemon.
const PIECE: usize = 64 * 1024;
/// Pieces on their way at once. Enough to keep the socket busy, few enough to send again after a crash.
const IN_FLIGHT: usize = 4;

/// A piece that was sent and not yet answered.
struct Sent {
    request: u64,
    offset: Option<i64>,
    data: Vec<u8>,
}

/// What reading the keyboard brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Sent,
    Detach,
    End,
}

/// The state of our stdin.
pub(in crate::verbs) struct Input {
    open: bool,
    /// Close the child's stdin when ours ends.
    close_at_end: bool,
    closing: bool,
    /// Where the next byte stands in all that was ever sent; known only to who sends alone.
    offset: Option<i64>,
    detach_key: Option<DetachKey>,
    sent: VecDeque<Sent>,
    buffer: Vec<u8>,
}

impl Input {
    /// Nothing is passed on.
    pub(in crate::verbs) fn none() -> Self {
        Self {
            open: false,
            close_at_end: false,
            closing: false,
            offset: None,
            detach_key: None,
            sent: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    /// For a process that only we write to: every byte has its place, so that nothing is sent twice or lost.
    pub(in crate::verbs) fn alone() -> Self {
        Self { open: true, close_at_end: true, offset: Some(0), ..Self::none() }
    }

    /// For a process that others may write to as well.
    pub(in crate::verbs) fn shared() -> Self {
        // Ctrl-D on a terminal is meant for the child; the end of a file that said nothing is not.
        Self { open: true, close_at_end: io::stdin().is_terminal(), ..Self::none() }
    }

    /// This key leaves; it is looked for only in what a terminal sends.
    pub(super) fn with_detach_key(mut self, key: Option<DetachKey>) -> Self {
        self.detach_key = key;
        self
    }

    /// Whether more can be taken from our stdin now.
    pub(super) fn wants_more(&self) -> bool {
        self.open && self.sent.len() < IN_FLIGHT
    }

    /// Reads once and sends what came.
    pub(super) fn read(&mut self, client: &mut Client, id: &str) -> Result<Typed, InputError> {
        self.buffer.resize(PIECE, 0);
        let count = match rustix::io::read(rustix::stdio::stdin(), &mut self.buffer) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(Typed::Sent),
            // A terminal that went away reads as an error; it is the end all the same.
            Err(rustix::io::Errno::IO) => 0,
            Err(error) => return Err(InputError::Local(error.into())),
        };
        let mut data = self.buffer.get(..count).unwrap_or_default().to_vec();
        if data.is_empty() {
            self.open = false;
            self.closing = self.close_at_end;
            self.close_if_done(client, id)?;
            return Ok(Typed::End);
        }
        let detach = self.detach_key.and_then(|key| find_key(&data, key));
        if let Some(at) = detach {
            data.truncate(at);
        }
        if !data.is_empty() {
            // Whoever pipes something in also ends it.
            self.close_at_end = true;
            self.send(client, id, data)?;
        }
        Ok(if detach.is_some() { Typed::Detach } else { Typed::Sent })
    }

    fn send(&mut self, client: &mut Client, id: &str, data: Vec<u8>) -> Result<(), ClientError> {
        let offset = self.offset;
        self.offset = offset.map(|offset| offset + i64::try_from(data.len()).unwrap_or(0));
        self.post(client, id, offset, data)
    }

    fn post(&mut self, client: &mut Client, id: &str, offset: Option<i64>, data: Vec<u8>) -> Result<(), ClientError> {
        let params = StdinParams { id: id.to_owned(), data: STANDARD.encode(&data), offset };
        // Remembered before it is sent: if sending fails half-way it is sent again.
        self.sent.push_back(Sent { request: 0, offset, data });
        let request = client.send::<methods::ProcessStdin>(&params)?;
        if let Some(sent) = self.sent.back_mut() {
            sent.request = request;
        }
        Ok(())
    }

    /// An answer to one of our requests; a process that takes no more input ends it quietly.
    pub(super) fn answered(
        &mut self,
        client: &mut Client,
        id: &str,
        request: u64,
        error: Option<&RpcError>,
    ) -> Result<(), ClientError> {
        let Some(at) = self.sent.iter().position(|sent| sent.request == request) else { return Ok(()) };
        self.sent.remove(at);
        if let Some(error) = error {
            self.open = false;
            self.closing = false;
            self.sent.clear();
            return match error.kind() {
                // It has ended, or closed its stdin: its output will tell.
                ErrorKind::Refused | ErrorKind::NotFound => Ok(()),
                _ => Err(ClientError::Rpc(error.clone())),
            };
        }
        self.close_if_done(client, id)
    }

    /// After a reconnect: sends again what was not answered. The daemon knows by the offsets what it already has.
    /// Gives back how many bytes may be lost because they have no offset.
    pub(super) fn resend(&mut self, client: &mut Client, id: &str) -> Result<usize, ClientError> {
        let mut doubtful = 0;
        for sent in std::mem::take(&mut self.sent) {
            match sent.offset {
                Some(_) => self.post(client, id, sent.offset, sent.data)?,
                None => doubtful += sent.data.len(),
            }
        }
        self.close_if_done(client, id)?;
        Ok(doubtful)
    }

    fn close_if_done(&mut self, client: &mut Client, id: &str) -> Result<(), ClientError> {
        if self.closing && self.sent.is_empty() {
            client.send::<methods::ProcessCloseStdin>(&IdKeyParams { id: id.to_owned(), key: None })?;
        }
        Ok(())
    }
}

/// Where reading went wrong: at our end, or at the daemon's.
#[derive(Debug)]
pub(super) enum InputError {
    Local(io::Error),
    Client(ClientError),
}

impl From<ClientError> for InputError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Where the key was pressed: as a control character, or in one of the two ways by which programs can ask terminals to
/// send every key in full.
fn find_key(data: &[u8], key: DetachKey) -> Option<usize> {
    let letter = (key.byte() | 0x40).to_ascii_lowercase();
    let spellings = [vec![key.byte()], format!("\x1b[{letter};5u").into(), format!("\x1b[27;5;{letter}~").into()];
    spellings.iter().filter_map(|one| data.windows(one.len()).position(|part| part == one.as_slice())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detach_key_is_found_in_every_spelling() {
        let key = DetachKey::default();
        assert_eq!(find_key(b"ab\x1d", key), Some(2));
        assert_eq!(find_key(b"\x1b[93;5u", key), Some(0));
        assert_eq!(find_key(b"x\x1b[27;5;93~", key), Some(1));
        assert_eq!(find_key(b"plain ] and \x1b[93u", key), None);
        assert_eq!(find_key(b"\x1b[97;5u", DetachKey::parse("ctrl-a").unwrap()), Some(0));
    }
}
