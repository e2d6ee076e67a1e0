//! The connection's loop: one task, never more buffered than its limits, fair between requests and output.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_engine::Wake;
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinHandle};

use crate::places::{self, Seat};
use crate::reader::{Found, Reader};
use crate::socket::{Arrival, Socket};
use crate::{Flow, Later, LineBuffer, Outbox, Session, TooLong, Watch};

/// The bounds of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest line that is served, newline not counted.
    pub line: usize,
    /// Answers being worked on at once; beyond that no further line is read.
    pub in_flight: usize,
    /// Bytes of the requests being worked on at once.
    pub in_flight_bytes: usize,
    /// What may wait for processes that do not read their input.
    pub input: InputLimits,
}

/// What a connection may hold for processes that do not take their input. It has a measure of its own, so that the
/// connection's other requests are answered meanwhile; beyond it no further line is read.
#[derive(Debug, Clone, Copy)]
pub struct InputLimits {
    /// Pieces.
    pub pieces: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Default for InputLimits {
    /// Less than what may wait for one process, so that a single connection is held up rather than refused.
    fn default() -> Self {
        Self { pieces: 6 * 1024, bytes: 48 * 1024 * 1024 }
    }
}

/// Frames are added while less than this waits to be written: several frames a write, and no more than that in memory.
const OUT_LOW: usize = 256 * 1024;
/// Beyond this no request is read and no answer taken: a client that asks and never reads is bounded too.
const OUT_HIGH: usize = 1024 * 1024;
/// How often a client that sends no more is looked at: it may have gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A buffer that grew for one large reply is given back.
const OUT_KEEP: usize = 512 * 1024;

/// Wakes a connection: raised by pump threads, lowered by the connection.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    notify: Notify,
}

impl Signal {
    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    fn lower(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Signal {
    fn wake(&self) {
        self.raise();
    }
}

/// A reader that waits for the disk on another thread.
struct Reading {
    /// The id of what it reads.
    of: String,
    work: JoinHandle<Read>,
}

/// A reader, what it came upon, and the bytes of that.
type Read = (Reader, io::Result<Found>, Vec<u8>);

/// Serves one client until it goes, or the session closes.
pub async fn serve<S: Session>(stream: UnixStream, session: S, limits: Limits) -> io::Result<()>
where
    S::Tag: 'static,
{
    // One place per answer in flight, and one more for the line that reached the limit.
    let (sender, answers) = mpsc::channel(limits.in_flight + limits.input.pieces + 1);
    let signal = Arc::new(Signal::default());
    let out = Outbox::new(sender, Arc::clone(&signal));
    let input = LineBuffer::new(limits.line);
    let connection = Connection {
        socket: Socket::new(stream)?,
        session,
        limits,
        out,
        answers,
        signal,
        input,
        written: 0,
        frame: Vec::new(),
        reading: None,
        next: 0,
        half_closed: false,
        seat: places::take(),
        leaving: false,
    };
    connection.run().await
}

struct Connection<S: Session> {
    socket: Socket,
    session: S,
    limits: Limits,
    out: Outbox<S::Tag>,
    answers: mpsc::Receiver<Later<S::Tag>>,
    signal: Arc<Signal>,
    input: LineBuffer,
    /// How much of `out.ready` has been written.
    written: usize,
    /// One frame's raw bytes, reused.
    frame: Vec<u8>,
    reading: Option<Reading>,
    /// Which watch is served next: none starves another.
    next: usize,
    half_closed: bool,
    seat: Seat,
    /// Its place is needed for somebody else.
    leaving: bool,
}

impl<S: Session> Connection<S>
where
    S::Tag: 'static,
{
    async fn run(mut self) -> io::Result<()> {
        loop {
            while self.pending() < OUT_HIGH
                && let Ok(later) = self.answers.try_recv()
            {
                self.out.arrived(later);
            }
            if self.handle_lines()? == Flow::Close {
                return Ok(());
            }
            let busy = self.add_frames()?;
            self.write()?;
            if self.is_finished() {
                return Ok(());
            }
            if busy && self.pending() == 0 {
                // The socket took everything and there is more: let others run, then go on.
                tokio::task::yield_now().await;
                self.read()?;
                continue;
            }
            self.seat.busy(self.out.expects() || !self.out.watches.is_empty() || self.pending() > 0);
            self.wait().await?;
            if self.leaving {
                tracing::debug!("an idle connection makes room");
                return Ok(());
            }
            if self.half_closed && self.input.is_empty() && self.socket.is_gone() {
                return Ok(());
            }
        }
    }

    fn pending(&self) -> usize {
        self.out.ready.len() - self.written
    }

    fn accepts_lines(&self) -> bool {
        self.out.in_flight < self.limits.in_flight
            && self.out.in_flight_bytes < self.limits.in_flight_bytes
            && self.out.input.0 < self.limits.input.pieces
            && self.out.input.1 < self.limits.input.bytes
            && self.pending() + self.out.held_back < OUT_HIGH
    }

    fn handle_lines(&mut self) -> io::Result<Flow> {
        while self.accepts_lines() {
            match self.input.next_line() {
                Err(TooLong) => {
                    self.session.too_long(&mut self.out.ready);
                    self.write()?;
                    return Ok(Flow::Close);
                }
                Ok(None) if self.half_closed => return Ok(self.handle_rest()),
                Ok(None) => return Ok(Flow::Continue),
                Ok(Some([])) => {}
                Ok(Some(line)) => {
                    self.out.weight = line.len();
                    self.seat.heard();
                    if self.session.line(line, &mut self.out) == Flow::Close {
                        return Ok(Flow::Close);
                    }
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// A client that has stopped in mid-line gets an answer to that line too.
    fn handle_rest(&mut self) -> Flow {
        match self.input.rest() {
            Some(rest) => {
                self.out.weight = rest.len();
                self.session.line(&rest, &mut self.out)
            }
            None => Flow::Continue,
        }
    }

    /// Encodes frames of the watches in turn; says whether there is more to be had right now.
    fn add_frames(&mut self) -> io::Result<bool> {
        if self.out.watches.is_empty() {
            return Ok(false);
        }
        if self.signal.lower() {
            for watch in &self.out.watches {
                watch.arm();
            }
        }
        let mut quiet = 0;
        while quiet < self.out.watches.len() {
            if self.pending() >= OUT_LOW {
                return Ok(true);
            }
            self.next = (self.next + 1) % self.out.watches.len();
            match self.add_frame(self.next)? {
                true => quiet = 0,
                false => quiet += 1,
            }
        }
        Ok(false)
    }

    /// One frame of one watch; `false` when it has none just now.
    fn add_frame(&mut self, index: usize) -> io::Result<bool> {
        let Some(watch) = self.out.watches.get_mut(index) else { return Ok(false) };
        if watch.is_superseded() && self.session.leaves_superseded() {
            self.out.held_back -= watch.finish(&mut self.out.ready);
            self.out.watches.swap_remove(index);
            return Ok(true);
        }
        let Some(reader) = watch.reader.as_mut() else { return Ok(false) };
        self.frame.clear();
        match reader.try_next(&mut self.frame) {
            Ok(Found::UpToDate) => Ok(false),
            Ok(Found::WouldBlock) => {
                if self.reading.is_none()
                    && let Some(mut reader) = watch.reader.take()
                {
                    let work = tokio::task::spawn_blocking(move || {
                        let mut frame = Vec::new();
                        let found = reader.next_blocking(&mut frame);
                        (reader, found, frame)
                    });
                    self.reading = Some(Reading { of: watch.id().to_owned(), work });
                }
                Ok(false)
            }
            found => {
                let mut frame = std::mem::take(&mut self.frame);
                self.emit(index, found, &frame);
                if frame.capacity() > OUT_KEEP {
                    frame = Vec::new();
                }
                self.frame = frame;
                Ok(true)
            }
        }
    }

    fn emit(&mut self, index: usize, found: io::Result<Found>, frame: &[u8]) {
        let Some(watch) = self.out.watches.get_mut(index) else { return };
        let ready = &mut self.out.ready;
        let ended = match found {
            Ok(Found::Frame(head)) => {
                let more = self.session.frame(watch.tag(), &head, frame, ready);
                self.out.held_back -= watch.advance(head.seq, ready);
                !more
            }
            Ok(Found::Record(head)) => {
                let more = self.session.record(watch.tag(), &head, frame, ready);
                self.out.held_back -= watch.advance(head.record, ready);
                !more
            }
            Ok(Found::Gap(first, missing)) => {
                self.session.gap(watch.tag(), first, missing, ready);
                self.out.held_back -= watch.advance(first.saturating_sub(1), ready);
                false
            }
            Ok(Found::UpToDate | Found::WouldBlock) => false,
            Err(error) => {
                tracing::error!("journal of {}: {error}", watch.id());
                self.session.lost(watch.tag(), &error, ready);
                true
            }
        };
        if ended {
            self.out.held_back -= watch.finish(ready);
            self.out.watches.swap_remove(index);
        }
    }

    fn read_back(&mut self, of: &str, (reader, found, frame): Read) {
        let index = self.out.watches.iter().position(|watch| watch.id() == of && watch.reader.is_none());
        if let Some(index) = index {
            if let Some(watch) = self.out.watches.get_mut(index) {
                watch.reader = Some(reader);
            }
            self.emit(index, found, &frame);
        }
        self.signal.raise();
    }

    fn write(&mut self) -> io::Result<()> {
        while self.pending() > 0 {
            match self.socket.try_write(self.out.ready.get(self.written..).unwrap_or_default())? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(count) => self.written += count,
                None => break,
            }
        }
        if self.pending() == 0 {
            self.out.ready.clear();
            self.written = 0;
            if self.out.ready.capacity() > OUT_KEEP {
                self.out.ready = Vec::new();
            }
        } else if self.written > OUT_HIGH {
            self.out.ready.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Takes what has arrived; a client that has closed its side gets what it still waits for.
    fn read(&mut self) -> io::Result<()> {
        if self.half_closed || !self.accepts_lines() {
            return Ok(());
        }
        self.half_closed = self.socket.try_read(self.input.room())? == Some(0);
        Ok(())
    }

    /// Whether a client that sends no more has got all the replies it waits for.
    fn is_finished(&self) -> bool {
        self.half_closed
            && self.input.is_empty()
            && !self.out.expects()
            && self.pending() == 0
            && self.out.held_back == 0
            && !self.out.watches.iter().any(Watch::is_owed)
    }

    /// Waits for the next thing to do. What can not come is not asked for, so that an idle round trip stays cheap; the
    /// order does not matter, because every turn of the loop looks at everything that has come.
    async fn wait(&mut self) -> io::Result<()> {
        let reads = !self.half_closed && self.accepts_lines();
        let pending = self.pending();
        let expects = self.out.expects() && pending < OUT_HIGH;
        let watches = !self.out.watches.is_empty() && pending < OUT_LOW;
        // Whoever sends no more may still read, and the kernel does not tell when it no longer does.
        let looks = self.half_closed && pending == 0;
        let Self { socket, input, answers, signal, reading, seat, leaving, .. } = self;
        tokio::select! {
            biased;
            (of, read) = finished(reading) => {
                *reading = None;
                self.read_back(&of, read.map_err(io::Error::other)?);
            }
            arrival = socket.wait(reads.then(|| input.room()), pending > 0), if reads || pending > 0 => {
                self.half_closed |= arrival? == Arrival::Input(0);
            }
            Some(later) = answers.recv(), if expects => self.out.arrived(later),
            () = signal.notify.notified(), if watches => {}
            () = tokio::time::sleep(LOOK_EVERY), if looks => {}
            () = seat.leave() => *leaving = true,
        }
        Ok(())
    }
}

/// What a reader that was away has found.
async fn finished(reading: &mut Option<Reading>) -> (String, Result<Read, JoinError>) {
    match reading {
        Some(Reading { of, work }) => (of.clone(), work.await),
        None => std::future::pending().await,
    }
}
