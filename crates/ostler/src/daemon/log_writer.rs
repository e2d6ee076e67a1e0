//! Log lines on a thread of their own: a full disk or a reader that has stopped must not hold up the daemon.
//! When too many lines wait, new ones are dropped. What doors say of strangers must not fill a disk: they may say so much.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

/// Lines that may wait.
const WAITING: usize = 1024;
/// At the end, what is still to be written gets this long.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// How the names of doors begin. Whoever can connect, a page of the web or another user, has them write.
const DOORS: &str = "ostler_door_";
/// Lines of one door at once.
const AT_ONCE: u32 = 200;
/// And then one in this time: some megabytes a day.
const ONE_IN: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Where log lines go; a cheap handle.
#[derive(Clone)]
pub(crate) struct LogWriter {
    sender: SyncSender<Message>,
    doors: Arc<Mutex<BTreeMap<String, Allowance>>>,
}

/// What one door may still say.
struct Allowance {
    left: u32,
    /// Since when it is counted.
    since: Instant,
    /// Lines that were left out since the last one.
    out: u64,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: AT_ONCE, since: now, out: 0 }
    }

    /// Whether one more line may be said, and how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let more = now.duration_since(self.since).as_secs() / ONE_IN.as_secs();
        if more > 0 {
            self.left = self.left.saturating_add(u32::try_from(more).unwrap_or(u32::MAX)).min(AT_ONCE);
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.out))
            }
            None => {
                self.out += 1;
                None
            }
        }
    }
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
        Self { sender, doors: Arc::default() }
    }

    /// How many lines of this door were left out before this one; nothing if this is one of them.
    fn counted(&self, meta: &Metadata<'_>, now: Instant) -> Option<u64> {
        // Who wants to know more wants to know all.
        let Some(door) = meta.target().strip_prefix(DOORS).filter(|_| *meta.level() <= Level::INFO) else {
            return Some(0);
        };
        let door = door.split("::").next().unwrap_or(door);
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.entry(door.to_owned()).or_insert_with(|| Allowance::new(now)).take(now)
    }

    /// From now on everything that the program says of itself goes here, as far as `level` lets it.
    pub(crate) fn take_events(&self, level: Targets) {
        // Which part of the program says it is for who reads a file, to filter by.
        let target = !io::stderr().is_terminal();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_target(target).with_writer(self.clone());
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
        Line { bytes: Vec::new(), sender: Some(&self.sender) }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        let mut line = self.make_writer();
        match self.counted(meta, Instant::now()) {
            Some(0) => {}
            Some(out) => line.bytes = format!("({out} lines were left out)\n").into_bytes(),
            None => line.sender = None,
        }
        line
    }
}

/// One line being put together.
pub(crate) struct Line<'a> {
    bytes: Vec<u8>,
    /// Nobody, if it is not to be said.
    sender: Option<&'a SyncSender<Message>>,
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
        if let Some(sender) = self.sender {
            let _ = sender.try_send(Message::Line(std::mem::take(&mut self.bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_much_to_say_of_strangers_says_some_of_it_and_how_much_it_left_out() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let said = (0..10_000).filter(|_| allowance.take(start).is_some()).count();
        assert_eq!(said, AT_ONCE as usize);
        assert_eq!(allowance.take(start + ONE_IN), Some(10_000 - u64::from(AT_ONCE)));
        assert_eq!(allowance.take(start + ONE_IN), None);
        // A day of it.
        let day = (0..86_400).filter(|second| allowance.take(start + ONE_IN * (second + 2)).is_some()).count();
        assert_eq!(day, 86_400);
        assert_eq!(allowance.take(start + ONE_IN * 200_000), Some(0));
    }
}
