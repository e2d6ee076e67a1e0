//! What goes out to one client: replies, frames, and the writing side of its socket. It is behind a lock, so that the thread
//! which sees a process end, or has the answer, can write that itself: waking the connection's task for it would cost more
//! than the writing.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_engine::MayWait;
use tokio::task::JoinHandle;

use crate::connection_slots::ConnectionSlot;
use crate::reader::{ReadStep, Reader};
use crate::signal::Signal;
use crate::transport::TryWrite;
use crate::{Flow, Later, Limits, Outbox, Session, Watch};

/// Frames are added while less than this waits to be written: several frames a write, and no more than that in memory.
pub(crate) const OUT_LOW: usize = 256 * 1024;
/// Beyond this no request is read and no answer taken: a client that asks and never reads is bounded too.
pub(crate) const OUT_HIGH: usize = 1024 * 1024;
/// So many are looked at before others get their turn on this thread: of what a client does not want, nothing is written.
const LOOK_MAX: usize = 1024;
/// A buffer that grew for one large reply is given back.
const OUT_KEEP: usize = 512 * 1024;

/// A reader that waits for the disk on another thread.
pub(crate) struct Reading {
    /// The id of what it reads.
    pub(crate) of: String,
    pub(crate) work: JoinHandle<Read>,
}

/// A reader, what it came upon, and the bytes of that.
pub(crate) type Read = (Reader, io::Result<ReadStep>, Vec<u8>);

/// What a look at one watch brought.
#[derive(PartialEq, Eq)]
enum Added {
    Frame,
    /// It has none just now.
    Nothing,
    /// It has one, which is on the disk only.
    OnDisk,
    /// Enough waits to be written.
    Enough,
}

/// What goes out to one client. The lock is held for as long as it takes to encode and to offer the kernel a few frames,
/// never while somebody waits.
pub(crate) struct Delivery<S: Session, W> {
    pub(crate) session: S,
    pub(crate) out: Outbox<S::Tag>,
    /// The connection's task waits for input and has nothing else to see to: what a process said last may be written
    /// without it.
    pub(crate) at_rest: bool,
    limits: Limits,
    writer: W,
    signal: Arc<Signal>,
    slot: Arc<ConnectionSlot>,
    /// How much of `out.ready` has been written.
    written: usize,
    /// One frame's raw bytes, reused.
    frame: Vec<u8>,
    /// Which watch is served next: none starves another.
    next: usize,
}

impl<S: Session, W: TryWrite> Delivery<S, W>
where
    S::Tag: 'static,
{
    pub(crate) fn new(
        session: S,
        out: Outbox<S::Tag>,
        limits: Limits,
        writer: W,
        signal: Arc<Signal>,
        slot: Arc<ConnectionSlot>,
    ) -> Self {
        let frame = Vec::new();
        Self { session, out, at_rest: false, limits, writer, signal, slot, written: 0, frame, next: 0 }
    }

    pub(crate) fn pending(&self) -> usize {
        self.out.ready.len() - self.written + self.writer.unsent()
    }

    pub(crate) fn accepts_lines(&self) -> bool {
        self.out.in_flight < self.limits.in_flight
            && self.out.in_flight_bytes < self.limits.in_flight_bytes
            && self.out.input.0 < self.limits.input.pieces
            && self.out.input.1 < self.limits.input.bytes
            && self.pending() + self.out.held_back < OUT_HIGH
    }

    /// Tells the session that it can speak.
    pub(crate) fn open(&mut self) {
        self.session.opened(&mut self.out);
    }

    /// Hands a line to the session.
    pub(crate) fn line(&mut self, line: &[u8]) -> Flow {
        self.out.weight = line.len();
        self.session.line(line, &mut self.out)
    }

    /// Has the session look at what its door published, if it was rung and there is room for what it may write.
    pub(crate) fn look(&mut self) -> Flow {
        let room = self.pending() < OUT_LOW;
        match self.out.nudge.as_ref().is_some_and(|nudge| room && nudge.take()) {
            true => self.session.nudged(&mut self.out),
            false => Flow::Continue,
        }
    }

    /// Whether every reply and frame that a client waits for has been written.
    pub(crate) fn owes_nothing(&self) -> bool {
        !self.out.expects()
            && self.pending() == 0
            && self.out.held_back == 0
            && !self.out.watches.iter().any(Watch::is_owed)
    }

    /// Says at its slot whether this client waits for something.
    pub(crate) fn note_busy(&self) {
        let follows = self.out.nudge.is_some() || !self.out.watches.is_empty();
        self.slot.busy(self.out.expects() || follows || self.pending() > 0);
    }

    /// Writes what is left of a process that has ended. `false`: there is more to it, which the task has to see to.
    fn pass_on(&mut self, id: &str) -> bool {
        let rested = std::mem::take(&mut self.at_rest);
        // A client that waits for answers too gets several things in one write.
        if !rested || self.out.expects() {
            return false;
        }
        if !matches!(self.add_frames_of(id), Ok(Added::Frame)) {
            return false;
        }
        self.write_at_rest()
    }

    /// Writes the answer that this client waits for, and gives it back if it waits for others too: it gets several in one
    /// write.
    fn answer(&mut self, later: Later<S::Tag>) -> Option<Later<S::Tag>> {
        if !self.at_rest || later.last || self.out.expected() > 1 {
            return Some(later);
        }
        let mut whole = true;
        if let Some(watch) = self.out.take(later) {
            let id = watch.id().to_owned();
            self.out.begin(watch);
            whole = matches!(self.add_frames_of(&id), Ok(Added::Frame | Added::Nothing));
        }
        if !(self.write_at_rest() && whole) {
            self.at_rest = false;
            self.signal.raise();
        }
        None
    }

    /// Writes what is ready in place of the task. `false`: the task has to go on with it.
    fn write_at_rest(&mut self) -> bool {
        // What fails here fails for the task too, which ends the connection.
        self.at_rest = self.write().is_ok() && self.pending() == 0;
        self.note_busy();
        self.at_rest
    }

    /// Adds everything that one watch has. `Frame`: it ended with that.
    fn add_frames_of(&mut self, id: &str) -> io::Result<Added> {
        while let Some(index) = self.out.watches.iter().position(|watch| watch.id() == id) {
            let added = if self.pending() >= OUT_LOW { Added::Enough } else { self.add_frame(index)? };
            if added != Added::Frame {
                return Ok(added);
            }
        }
        Ok(Added::Frame)
    }

    /// Encodes frames of the watches in turn; says whether there is more to be had right now. What is on the disk only is
    /// read elsewhere, one frame at a time.
    pub(crate) fn add_frames(&mut self, reading: &mut Option<Reading>) -> io::Result<bool> {
        // Also where nobody is watched: one that stays raised rings for nobody who comes later.
        if self.signal.lower() {
            for watch in &self.out.watches {
                watch.arm();
            }
        }
        let (mut quiet, mut looked) = (0, 0);
        while quiet < self.out.watches.len() {
            if self.pending() >= OUT_LOW || looked >= LOOK_MAX {
                return Ok(true);
            }
            looked += 1;
            self.next = (self.next + 1) % self.out.watches.len();
            let added = self.add_frame(self.next)?;
            if added == Added::OnDisk && reading.is_none() {
                *reading = self.out.watches.get_mut(self.next).and_then(read_from_disk);
            }
            quiet = if added == Added::Frame { 0 } else { quiet + 1 };
        }
        Ok(false)
    }

    fn add_frame(&mut self, index: usize) -> io::Result<Added> {
        let Some(watch) = self.out.watches.get_mut(index) else { return Ok(Added::Nothing) };
        if watch.is_superseded() && self.session.leaves_superseded() {
            self.out.held_back -= watch.finish(&mut self.out.ready);
            self.out.watches.swap_remove(index);
            return Ok(Added::Frame);
        }
        let Some(reader) = watch.reader.as_mut() else { return Ok(Added::Nothing) };
        self.frame.clear();
        match reader.try_next(&mut self.frame) {
            Ok(ReadStep::UpToDate) => Ok(Added::Nothing),
            Ok(ReadStep::WouldBlock) => Ok(Added::OnDisk),
            found => {
                let mut frame = std::mem::take(&mut self.frame);
                self.emit(index, found, &frame);
                if frame.capacity() > OUT_KEEP {
                    frame = Vec::new();
                }
                self.frame = frame;
                Ok(Added::Frame)
            }
        }
    }

    fn emit(&mut self, index: usize, found: io::Result<ReadStep>, frame: &[u8]) {
        let Some(watch) = self.out.watches.get_mut(index) else { return };
        let ready = &mut self.out.ready;
        let ended = match found {
            Ok(ReadStep::Frame(head)) => {
                let more = self.session.frame(watch.tag(), &head, frame, ready);
                self.out.held_back -= watch.advance(head.seq, ready);
                !more
            }
            Ok(ReadStep::Record(head)) => {
                let more = self.session.record(watch.tag(), &head, frame, ready);
                self.out.held_back -= watch.advance(head.record, ready);
                !more
            }
            Ok(ReadStep::Lines) => {
                ready.extend_from_slice(frame);
                false
            }
            Ok(ReadStep::Gap(first, missing)) => {
                self.session.gap(watch.tag(), first, missing, ready);
                self.out.held_back -= watch.advance(first.saturating_sub(1), ready);
                false
            }
            Ok(ReadStep::UpToDate | ReadStep::WouldBlock) => false,
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

    /// A reader is back from the disk.
    pub(crate) fn read_back(&mut self, of: &str, (reader, found, frame): Read) {
        let index = self.out.watches.iter().position(|watch| watch.id() == of && watch.reader.is_none());
        if let Some(index) = index {
            if let Some(watch) = self.out.watches.get_mut(index) {
                watch.reader = Some(reader);
            }
            self.emit(index, found, &frame);
        }
        self.signal.raise();
    }

    pub(crate) fn write(&mut self) -> io::Result<()> {
        while self.pending() > 0 {
            let rest = self.out.ready.get(self.written..).unwrap_or_default();
            match self.writer.try_write(rest)? {
                Some(0) if !rest.is_empty() => return Err(io::ErrorKind::WriteZero.into()),
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
}

fn read_from_disk<Tag>(watch: &mut Watch<Tag>) -> Option<Reading> {
    let mut reader = watch.reader.take()?;
    let work = MayWait::pool(move |wait| {
        let mut frame = Vec::new();
        let found = reader.next_blocking(wait, &mut frame);
        (reader, found, frame)
    });
    Some(Reading { of: watch.id().to_owned(), work })
}

/// One delivery, of whoever has something for the client.
pub(crate) struct SharedDelivery<S: Session, W>(Mutex<Delivery<S, W>>);

impl<S: Session + 'static, W: TryWrite> SharedDelivery<S, W> {
    /// Makes it, and has answers and the ends of processes brought to it. Neither ever waits: whoever has it is the task, which
    /// then looks once more.
    pub(crate) fn new(delivery: Delivery<S, W>) -> Arc<Self> {
        let signal = Arc::clone(&delivery.signal);
        let shared = Arc::new(Self(Mutex::new(delivery)));
        let weak = Arc::downgrade(&shared);
        shared.lock().out.answers_go_to(move |later| match weak.upgrade() {
            Some(shared) => match shared.0.try_lock() {
                Ok(mut delivery) => delivery.answer(later),
                Err(_) => Some(later),
            },
            None => Some(later),
        });
        let weak = Arc::downgrade(&shared);
        signal.ends_go_to(move |id| {
            let Some(shared) = weak.upgrade() else { return false };
            shared.0.try_lock().is_ok_and(|mut delivery| delivery.pass_on(id))
        });
        shared
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Delivery<S, W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use ostler_engine::{EventCursor, EventHead, Wake as _};
    use ostler_journal::EventJournal;
    use tokio::sync::mpsc;

    use super::*;
    use crate::signal::Bell;
    use crate::socket::{Socket, Writer};
    use crate::transport::Transport as _;
    use crate::{InputLimits, connection_slots};

    /// Every record is the last.
    struct Door;

    impl Session for Door {
        type Tag = ();

        fn line(&mut self, _: &[u8], _: &mut Outbox<()>) -> Flow {
            Flow::Continue
        }

        fn record(&mut self, (): &(), _: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(data);
            false
        }
    }

    struct Stage {
        shared: Arc<SharedDelivery<Door, Writer>>,
        client: UnixStream,
        end: Bell,
        answers: mpsc::Receiver<Later<()>>,
        _dir: tempfile::TempDir,
    }

    /// A connection at rest whose client watches what has said its last word, and the bell that tells of it.
    fn stage() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let journal = EventJournal::create(&dir.path().join("j")).unwrap();
        journal.append(0, 0, b"over").unwrap();
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _inside = runtime.enter();
        let socket = Socket::new(tokio::net::UnixStream::from_std(server).unwrap()).unwrap();
        let signal = Arc::new(Signal::default());
        let (sender, answers) = mpsc::channel(4);
        let mut out = Outbox::new(sender, Arc::clone(&signal));
        out.watch(Watch::events("s0".into(), (), EventCursor::new(journal, 0)));
        signal.lower();
        let limits = Limits { line: 100, in_flight: 4, in_flight_bytes: 1000, input: InputLimits::default() };
        let slot = Arc::new(connection_slots::take());
        let mut delivery = Delivery::new(Door, out, limits, socket.writer(), Arc::clone(&signal), slot);
        delivery.at_rest = true;
        Stage {
            shared: SharedDelivery::new(delivery),
            client,
            end: Bell { signal, of: "s0".into() },
            answers,
            _dir: dir,
        }
    }

    fn heard(stage: &Stage) -> String {
        let mut text = [0; 16];
        let count = (&stage.client).read(&mut text).unwrap_or(0);
        String::from_utf8(text[..count].to_vec()).unwrap()
    }

    #[test]
    fn an_end_is_written_by_the_thread_that_saw_it() {
        let stage = stage();
        stage.end.ended();
        assert_eq!(heard(&stage), "over");
        assert!(!stage.end.signal.lower(), "nobody else is woken for it");
        let delivery = stage.shared.lock();
        assert!(delivery.at_rest && delivery.out.watches.is_empty());
    }

    #[test]
    fn an_end_is_left_to_the_task_where_that_has_more_to_see_to() {
        let busy: [fn(&mut Delivery<Door, Writer>); 3] = [
            |delivery| delivery.at_rest = false,
            |delivery| drop(delivery.out.later()),
            |delivery| delivery.out.watches.iter_mut().for_each(|watch| watch.reader = None),
        ];
        for make in busy {
            let stage = stage();
            make(&mut stage.shared.lock());
            stage.end.ended();
            assert_eq!(heard(&stage), "");
            assert!(stage.end.signal.lower(), "the task is woken");
        }
        let stage = stage();
        let held = stage.shared.lock();
        stage.end.ended();
        drop(held);
        assert!(stage.end.signal.lower(), "nobody waits for a lock");
        assert_eq!(heard(&stage), "");
    }

    #[test]
    fn the_only_answer_is_written_by_the_thread_that_has_it() {
        let mut stage = stage();
        let deliver = stage.shared.lock().out.later();
        // Its watch has said something already, which follows.
        let mut later = Later::reply(b"yes, ".to_vec());
        later.watch = stage.shared.lock().out.watches.pop();
        deliver(later);
        assert_eq!(heard(&stage), "yes, over");
        assert!(stage.answers.try_recv().is_err() && !stage.end.signal.lower(), "nobody else is woken for it");
        let delivery = stage.shared.lock();
        assert!(delivery.at_rest && !delivery.out.expects());
    }

    #[test]
    fn an_answer_is_left_to_the_task_where_that_has_more_to_see_to() {
        let busy: [fn(&mut Delivery<Door, Writer>); 2] =
            [|delivery| delivery.at_rest = false, |delivery| drop(delivery.out.later())];
        for make in busy {
            let mut stage = stage();
            let deliver = stage.shared.lock().out.later();
            make(&mut stage.shared.lock());
            deliver(Later::reply(b"yes".to_vec()));
            assert_eq!(heard(&stage), "");
            assert!(stage.answers.try_recv().is_ok());
        }
        let mut stage = stage();
        let deliver = stage.shared.lock().out.later();
        let held = stage.shared.lock();
        deliver(Later::reply(b"yes".to_vec()));
        drop(held);
        assert!(stage.answers.try_recv().is_ok(), "nobody waits for a lock");
    }

    #[test]
    fn a_signal_for_nobody_does_not_swallow_the_next() {
        let stage = stage();
        let watch = stage.shared.lock().out.watches.pop();
        stage.end.wake();
        assert!(!stage.shared.lock().add_frames(&mut None).unwrap());
        stage.shared.lock().out.watches.extend(watch);
        assert!(!stage.end.signal.lower(), "whoever rings now is heard");
    }

    #[test]
    fn an_answer_that_can_not_be_written_wakes_the_task() {
        let stage = stage();
        let deliver = stage.shared.lock().out.later();
        drop(stage.client);
        deliver(Later::reply(b"yes".to_vec()));
        assert!(stage.end.signal.lower() && !stage.shared.lock().at_rest);
    }
}
