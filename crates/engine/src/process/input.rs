//! Stdin: appended to the ledger first, delivered from there. The answer says what was accepted, never what was read.

pub use ostler_journal::StdinError;

use ostler_journal::Appended;
use tokio::sync::oneshot;

use super::Process;

impl Process {
    /// Accepts `data` for delivery; `done` hears what came of it, on a thread that must not be held up.
    /// Calls made one after the other are accepted in that order. Where the engine itself speaks, stdin is closed to
    /// everybody else: who could write there could answer an agent's requests without anybody deciding.
    pub fn write_stdin_then(
        &self,
        offset: Option<i64>,
        data: Vec<u8>,
        done: impl FnOnce(Result<Appended, StdinError>) + Send + 'static,
    ) {
        match self.hears_the_engine_only() {
            true => done(Err(StdinError::Closed)),
            false => self.feed_then(offset, data, done),
        }
    }

    /// The same for one of several who write: `offset` is a place in all that this sender ever sent. A piece that is sent
    /// again, also to the next daemon, is accepted once, whatever others have written since.
    pub fn write_stdin_of(
        &self,
        sender: u64,
        offset: i64,
        data: Vec<u8>,
        done: impl FnOnce(Result<Appended, StdinError>) + Send + 'static,
    ) {
        match self.hosted() {
            _ if self.hears_the_engine_only() => done(Err(StdinError::Closed)),
            Some(hosted) => hosted.append_stdin_of(sender, offset, data, Box::new(done)),
            None => done(Err(StdinError::NotRunning)),
        }
    }

    /// The same for the engine itself.
    pub(crate) fn feed_then(
        &self,
        offset: Option<i64>,
        data: Vec<u8>,
        done: impl FnOnce(Result<Appended, StdinError>) + Send + 'static,
    ) {
        match self.hosted() {
            Some(hosted) => hosted.append_stdin(offset, data, Box::new(done)),
            None => done(Err(StdinError::NotRunning)),
        }
    }

    /// Whether it is a session's agent, or the runner of a command.
    fn hears_the_engine_only(&self) -> bool {
        self.about().session.is_some() || self.is_runner()
    }

    /// Accepts `data` for delivery and waits until it has been accepted.
    pub async fn write_stdin(&self, offset: Option<i64>, data: Vec<u8>) -> Result<Appended, StdinError> {
        match self.hears_the_engine_only() {
            true => Err(StdinError::Closed),
            false => self.feed(offset, data).await,
        }
    }

    /// The same for the engine itself.
    pub(crate) async fn feed(&self, offset: Option<i64>, data: Vec<u8>) -> Result<Appended, StdinError> {
        let (tell, told) = oneshot::channel();
        self.feed_then(offset, data, move |result| {
            // The caller may have gone; the bytes are accepted all the same.
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(StdinError::NotRunning))
    }

    /// Closes stdin after everything accepted so far has been delivered; `done` hears when that is recorded. For the engine
    /// itself.
    pub(crate) fn end_feed_then(&self, done: impl FnOnce(Result<(), StdinError>) + Send + 'static) {
        match self.hosted() {
            Some(hosted) => hosted.close_stdin(Box::new(move |result| done(result.map(|_| ())))),
            None => done(Err(StdinError::NotRunning)),
        }
    }

    /// Closes stdin after everything accepted so far has been delivered.
    pub async fn close_stdin(&self) -> Result<(), StdinError> {
        if self.hears_the_engine_only() {
            return Err(StdinError::Closed);
        }
        let (tell, told) = oneshot::channel();
        self.end_feed_then(move |result| {
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(StdinError::NotRunning))
    }
}
