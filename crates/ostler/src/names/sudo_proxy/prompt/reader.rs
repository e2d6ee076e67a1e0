//! What comes from a terminal, read on a thread of its own: a read may not hold up anything else, and ends at once when
//! nobody wants it any more.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

/// A line that somebody types fits many times; passwords pass through here.
const BUFFER: usize = 1024;
/// A reader that is behind is waited for: what it does not take stays in the terminal.
const PIECES: usize = 4;
/// How often a reader that may not read looks whether it may.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pieces of input as they come. Dropping it ends the thread.
pub(super) struct Reader {
    pieces: mpsc::Receiver<Vec<u8>>,
    _wanted: OwnedFd,
}

impl Reader {
    /// Reads from `source`, which does not block.
    pub(super) fn start(source: OwnedFd) -> io::Result<Self> {
        Self::start_while(source, |_| true)
    }

    /// As [`Reader::start`], but only while `may_read` holds: what comes meanwhile is for somebody else.
    pub(super) fn start_while(source: OwnedFd, may_read: fn(&OwnedFd) -> bool) -> io::Result<Self> {
        let (unwanted, wanted) = pipe_with(PipeFlags::CLOEXEC)?;
        let (send, pieces) = mpsc::channel(PIECES);
        let read = move || {
            while let Some(piece) = next(&source, &unwanted, may_read) {
                if send.blocking_send(piece).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("terminal".into()).spawn(read)?;
        Ok(Self { pieces, _wanted: wanted })
    }

    /// The next piece; nothing once the other side is gone. Whoever takes a password wipes it.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.pieces.recv().await
    }
}

fn next(source: &OwnedFd, unwanted: &OwnedFd, may_read: fn(&OwnedFd) -> bool) -> Option<Vec<u8>> {
    let mut buffer = [0u8; BUFFER];
    loop {
        let mut both = [PollFd::new(source, PollFlags::IN), PollFd::new(unwanted, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let [ready, ended] = both.map(|fd| !fd.revents().is_empty());
        if ended {
            return None;
        }
        if !ready {
            continue;
        }
        if !may_read(source) {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        match rustix::io::read(source, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            // An error is how a pseudo terminal says that its last user is gone.
            Ok(0) | Err(_) => return None,
            Ok(count) => {
                let piece = buffer.get(..count).unwrap_or_default().to_vec();
                buffer.fill(0);
                return Some(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
    }

    #[tokio::test]
    async fn pieces_arrive_and_the_end_is_told() {
        let (source, writer) = pipe();
        let mut reader = Reader::start(source).unwrap();
        rustix::io::write(&writer, b"y").unwrap();
        assert_eq!(reader.next().await.as_deref(), Some(&b"y"[..]));
        drop(writer);
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn a_reader_that_is_dropped_takes_nothing_more() {
        let (source, writer) = pipe();
        let kept = source.try_clone().unwrap();
        drop(Reader::start(source).unwrap());
        rustix::io::write(&writer, b"for the next prompt").unwrap();
        let mut next = Reader::start(kept).unwrap();
        assert_eq!(next.next().await.as_deref(), Some(&b"for the next prompt"[..]));
    }
}
