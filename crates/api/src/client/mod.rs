//! A blocking client for the native door.
//!
//! One connection, one thread. [`Client::call`] is for plain questions; a watcher that must also look at a
//! keyboard polls the descriptor and uses [`Client::send`], [`Client::fill`] and [`Client::take`].

mod connect;
mod lines;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::method::{Method, Notification, methods};
use crate::{API_VERSION, Hello, HelloParams};
use lines::LineBuffer;

/// Nobody waits for an answer behind more notifications than this: a daemon sends an answer as soon as it has it.
const EARLY_MAX: usize = 1 << 16;

/// A healthy daemon answers in well under a millisecond; after this long something is wrong and waiting hides it.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is written into the record of decisions. Where another program holds that file, the daemon waits for up to a minute,
/// and then says so: who gives up before would not know whether it counts.
const RECORDED: [&str; 12] = [
    methods::ApprovalDecide::NAME,
    methods::ApprovalShown::NAME,
    methods::ApprovalUnlock::NAME,
    methods::DeviceAdmit::NAME,
    methods::DeviceAffirm::NAME,
    methods::DeviceRevoke::NAME,
    methods::DeviceTailnet::NAME,
    methods::ProcessAccess::NAME,
    methods::RuleAdd::NAME,
    methods::RuleAffirm::NAME,
    methods::RuleRevoke::NAME,
    methods::SettingConfirm::NAME,
];
const RECORD_TIMEOUT: Duration = Duration::from_secs(70);

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot connect to {path}: {source}")]
    Connect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the daemon closed the connection")]
    Closed,
    #[error("the daemon did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the connection to the daemon failed: {0}")]
    Io(#[source] io::Error),
    #[error("the daemon sent something that is not an answer: {0}")]
    Garbled(String),
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// Something that arrived.
#[derive(Debug)]
pub enum Incoming {
    Reply { id: u64, result: Result<Box<RawValue>, RpcError> },
    Notification(Notification),
}

/// A connection to one instance.
pub struct Client {
    stream: UnixStream,
    lines: LineBuffer,
    last_id: u64,
    /// Notifications that arrived while `call` waited for its answer.
    early: VecDeque<Notification>,
    timeout: Option<Duration>,
}

impl Client {
    /// Connects; paths too long for a socket address work.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = connect::connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        let mut client =
            Self { stream, lines: LineBuffer::default(), last_id: 0, early: VecDeque::new(), timeout: None };
        client.answer_within(Some(ANSWER_TIMEOUT))?;
        Ok(client)
    }

    /// How long `call` waits; `None` for as long as it takes.
    pub fn answer_within(&mut self, timeout: Option<Duration>) -> Result<(), ClientError> {
        self.timeout = timeout;
        self.stream.set_read_timeout(timeout).map_err(ClientError::Io)
    }

    /// Agrees on the protocol version. `client` names the caller in the daemon's log.
    pub fn hello(&mut self, client: &str) -> Result<Hello, ClientError> {
        self.call::<methods::InstanceHello>(&HelloParams { client: client.to_owned(), version: API_VERSION })
    }

    /// Asks and waits for the answer.
    pub fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Result, ClientError> {
        let asked = self.send::<M>(params)?;
        parse::<M>(&self.answer_of::<M>(asked)?)
    }

    /// The same. Whoever waits for longer than `patience` is told by `slow`, once, and waits on.
    pub fn call_patiently<M: Method>(
        &mut self,
        params: &M::Params,
        patience: Duration,
        slow: impl FnOnce(),
    ) -> Result<M::Result, ClientError> {
        let asked = self.send::<M>(params)?;
        self.stream.set_read_timeout(Some(patience)).map_err(ClientError::Io)?;
        let soon = self.answer(asked);
        self.stream.set_read_timeout(self.timeout).map_err(ClientError::Io)?;
        let answer = match soon {
            Err(ClientError::TimedOut(_)) => {
                slow();
                self.answer_of::<M>(asked)
            }
            soon => soon,
        };
        parse::<M>(&answer?)
    }

    /// The answer, waited for as long as this method may take.
    fn answer_of<M: Method>(&mut self, asked: u64) -> Result<Box<RawValue>, ClientError> {
        let usual = self.timeout;
        if usual.is_some_and(|usual| usual < RECORD_TIMEOUT) && RECORDED.contains(&M::NAME) {
            self.answer_within(Some(RECORD_TIMEOUT))?;
        }
        let answer = self.answer(asked);
        if self.timeout != usual {
            self.answer_within(usual)?;
        }
        answer
    }

    fn answer(&mut self, asked: u64) -> Result<Box<RawValue>, ClientError> {
        loop {
            match self.take()? {
                Some(Incoming::Reply { id, result }) if id == asked => return Ok(result?),
                Some(Incoming::Reply { .. }) => {}
                Some(Incoming::Notification(_)) if self.early.len() >= EARLY_MAX => {
                    return Err(ClientError::Garbled("notifications without end instead of an answer".into()));
                }
                Some(Incoming::Notification(notification)) => self.early.push_back(notification),
                None => self.fill()?,
            }
        }
    }

    /// Asks without waiting; the answer comes through `take` with the returned number.
    pub fn send<M: Method>(&mut self, params: &M::Params) -> Result<u64, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":"#, M::NAME).into_bytes();
        M::write_params(params, &mut line).map_err(|error| ClientError::Garbled(error.to_string()))?;
        line.extend_from_slice(b"}\n");
        self.write(&line)?;
        Ok(id)
    }

    fn write(&mut self, line: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(line).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::Closed,
            _ => ClientError::Io(error),
        })
    }

    /// The next thing that has arrived whole; `None` until more is read.
    pub fn take(&mut self) -> Result<Option<Incoming>, ClientError> {
        while let Some(line) = self.lines.next_line() {
            if let Some(incoming) = read_line(line)? {
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }

    /// The next notification, also one that came before an answer.
    pub fn next_notification(&mut self) -> Result<Notification, ClientError> {
        loop {
            if let Some(early) = self.early.pop_front() {
                return Ok(early);
            }
            match self.take()? {
                Some(Incoming::Notification(notification)) => return Ok(notification),
                Some(Incoming::Reply { .. }) => {}
                None => self.fill()?,
            }
        }
    }

    /// The same; nothing if none comes within this time.
    pub fn next_notification_within(&mut self, most: Duration) -> Result<Option<Notification>, ClientError> {
        let usual = self.timeout;
        self.answer_within(Some(most))?;
        let next = self.next_notification();
        self.answer_within(usual)?;
        match next {
            Err(ClientError::TimedOut(_)) => Ok(None),
            next => next.map(Some),
        }
    }

    /// A notification that is here already. Never waits.
    pub fn arrived(&mut self) -> Result<Option<Notification>, ClientError> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        while let Some(incoming) = self.take()? {
            if let Incoming::Notification(notification) = incoming {
                return Ok(Some(notification));
            }
        }
        Ok(None)
    }

    /// Notifications that arrived while a call waited.
    pub fn take_early(&mut self) -> Option<Notification> {
        self.early.pop_front()
    }

    /// One read from the socket; blocks unless the descriptor was polled before.
    pub fn fill(&mut self) -> Result<(), ClientError> {
        let space = self.lines.space().ok_or_else(|| ClientError::Garbled("a line without an end".into()))?;
        let read = loop {
            match self.stream.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match read {
            Ok(0) => Err(ClientError::Closed),
            Ok(count) => {
                self.lines.filled(count);
                Ok(())
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    ClientError::TimedOut(self.timeout.unwrap_or_default())
                }
                io::ErrorKind::ConnectionReset => ClientError::Closed,
                _ => ClientError::Io(error),
            }),
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Reads the result of a `send`.
pub fn parse<M: Method>(result: &RawValue) -> Result<M::Result, ClientError> {
    M::read_result(result.get()).map_err(|error| ClientError::Garbled(format!("{}: {error}", M::NAME)))
}

/// What the daemon writes before every notification; a frame is long, and is not read twice.
const NOTIFICATIONS: [&[u8]; 2] =
    [br#"{"jsonrpc":"2.0","method":"process."#, br#"{"jsonrpc":"2.0","method":"session."#];

fn read_line(line: &[u8]) -> Result<Option<Incoming>, ClientError> {
    #[derive(Deserialize)]
    struct Line<'a> {
        id: Option<u64>,
        #[serde(borrow)]
        method: Option<std::borrow::Cow<'a, str>>,
        result: Option<Box<RawValue>>,
        error: Option<RpcError>,
    }
    if NOTIFICATIONS.iter().any(|start| line.starts_with(start))
        && let Ok(notification) = serde_json::from_slice(line)
    {
        return Ok(Some(Incoming::Notification(notification)));
    }
    let garbled = |error: serde_json::Error| ClientError::Garbled(error.to_string());
    let head: Line<'_> = serde_json::from_slice(line).map_err(garbled)?;
    if let Some(method) = head.method {
        // A newer daemon may say things this client has no word for; what it has a word for must be sound.
        let known = matches!(
            &*method,
            "process.frame"
                | "process.exit"
                | "process.gap"
                | "process.lost"
                | "session.events"
                | "session.gap"
                | "session.lost"
                | "feed.changes"
                | "feed.gap"
                | "feed.lost"
        );
        return if known {
            serde_json::from_slice(line).map(|note| Some(Incoming::Notification(note))).map_err(garbled)
        } else {
            Ok(None)
        };
    }
    match (head.id, head.result, head.error) {
        (Some(id), _, Some(error)) => Ok(Some(Incoming::Reply { id, result: Err(error) })),
        (Some(id), Some(result), None) => Ok(Some(Incoming::Reply { id, result: Ok(result) })),
        (None, _, Some(error)) => Err(ClientError::Rpc(error)),
        _ => Err(ClientError::Garbled("neither answer nor notification".into())),
    }
}

#[cfg(test)]
mod tests;
