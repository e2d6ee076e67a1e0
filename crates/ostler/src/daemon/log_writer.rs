//! Log lines on a thread of their own: a full disk or a reader that has stopped must not hold up the daemon.
//! When too many lines wait, new ones are dropped.

use std::io::{self, Write};
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

/// Lines that may wait.
const WAITING: usize = 1024;
/// At the end, what is still to be written gets this long.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Where log lines go; a cheap handle.
#[derive(Clone)]
pub(crate) struct LogWriter {
    sender: SyncSender<Message>,
}

impl LogWriter {
    /// Writes to standard error.
    pub(crate) fn to_stderr() -> Self {
        let (sender, messages) = mpsc::sync_channel(WAITING);
        std::thread::spawn(move || {
            for message in messages {
                match message {
                    // A closed standard error is a choice of whoever started us.
                    Message::Line(line) => drop(io::stderr().write_all(&line)),
                    Message::Flush(done) => drop(done.send(())),
                }
            }
        });
        Self { sender }
    }

    /// From now on everything that the program says of itself goes here, as far as `level` lets it.
    pub(crate) fn take_events(&self, level: Targets) {
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(self.clone());
        // A second call would keep the first logger, which is as good.
        let _ = tracing_subscriber::registry().with(lines.with_filter(level)).try_init();
    }

    /// Waits until everything so far has been written, but not for ever.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_WITHIN);
        }
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { bytes: Vec::new(), sender: &self.sender }
    }
}

/// One line being put together.
pub(crate) struct Line<'a> {
    bytes: Vec<u8>,
    sender: &'a SyncSender<Message>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let _ = self.sender.try_send(Message::Line(std::mem::take(&mut self.bytes)));
    }
}
