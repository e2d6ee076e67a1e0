//! The connection's loop: one task, never more buffered than its limits, fair between requests and output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinError;

use crate::connection_slots::{self, ConnectionSlot};
use crate::delivery::{Delivery, OUT_HIGH, OUT_LOW, Read, Reading, SharedDelivery};
use crate::signal::Signal;
use crate::socket::Socket;
use crate::transport::{Arrival, Transport, TryWrite};
use crate::{Flow, Later, LineBuffer, Outbox, Session, TooLong};

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

/// How often a client that sends no more is looked at: it may have gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Serves one client until it goes, or the session closes. Clients leave without a word; that is no error.
pub async fn serve<S: Session + 'static>(stream: UnixStream, session: S, limits: Limits) -> io::Result<()>
where
    S::Tag: 'static,
{
    serve_over(Socket::new(stream)?, session, limits).await
}

/// The same over anything that carries lines.
pub async fn serve_over<T: Transport, S: Session + 'static>(socket: T, session: S, limits: Limits) -> io::Result<()>
where
    S::Tag: 'static,
{
    // One place per answer in flight, and one more for the line that reached the limit.
    let (sender, answers) = mpsc::channel(limits.in_flight + limits.input.pieces + 1);
    let (signal, slot) = (Arc::new(Signal::default()), Arc::new(connection_slots::take()));
    let out = Outbox::new(sender, Arc::clone(&signal));
    let input = LineBuffer::new(limits.line);
    let delivery = Delivery::new(session, out, limits, socket.writer(), Arc::clone(&signal), Arc::clone(&slot));
    let delivery = SharedDelivery::new(delivery);
    let served = Connection { socket, delivery, answers, signal, input, reading: None, half_closed: false, slot }.run();
    match served.await {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
        served => served,
    }
}

struct Connection<T: Transport, S: Session> {
    socket: T,
    delivery: Arc<SharedDelivery<S, T::Writer>>,
    answers: mpsc::Receiver<Later<S::Tag>>,
    signal: Arc<Signal>,
    input: LineBuffer,
    reading: Option<Reading>,
    half_closed: bool,
    slot: Arc<ConnectionSlot>,
}

/// What follows a turn.
enum Next {
    Close,
    /// The socket took everything and there is more: others run, then it goes on.
    GoOn,
    Wait(Waiting),
}

/// What is waited for. What can not come is not asked for, so that an idle round trip stays cheap.
struct Waiting {
    input: bool,
    room: bool,
    answers: bool,
    frames: bool,
    /// Whoever sends no more may still read, and the kernel does not tell when it no longer does.
    hangup: bool,
}

/// What a wait brought.
enum Event {
    /// Look at everything.
    Look,
    Input(usize),
    /// The place is needed for somebody else.
    Leave,
}

impl<T: Transport, S: Session + 'static> Connection<T, S>
where
    S::Tag: 'static,
{
    async fn run(mut self) -> io::Result<()> {
        self.delivery.lock().open();
        loop {
            match self.turn()? {
                Next::Close => return Ok(()),
                Next::GoOn => {
                    tokio::task::yield_now().await;
                    self.read()?;
                    continue;
                }
                Next::Wait(waiting) => match self.wait(&waiting).await? {
                    Event::Look => {}
                    Event::Input(count) => self.half_closed |= count == 0,
                    Event::Leave => {
                        tracing::debug!("an idle connection makes room");
                        return Ok(());
                    }
                },
            }
            if self.half_closed && self.input.is_empty() && self.socket.is_gone() {
                return Ok(());
            }
        }
    }

    /// Looks at everything that has come, and writes what there is.
    fn turn(&mut self) -> io::Result<Next> {
        let mut delivery = self.delivery.lock();
        let delivery = &mut *delivery;
        while delivery.pending() < OUT_HIGH
            && let Ok(later) = self.answers.try_recv()
        {
            delivery.out.arrived(later);
        }
        let mut flow = match delivery.out.over {
            true => Flow::Farewell,
            false => handle_lines(delivery, &mut self.input, self.half_closed, &self.slot)?,
        };
        if flow == Flow::Continue {
            flow = delivery.look();
        }
        match flow {
            Flow::Continue => {}
            Flow::Close => return Ok(Next::Close),
            Flow::Farewell => {
                delivery.write()?;
                return Ok(Next::Close);
            }
        }
        let busy = delivery.add_frames(&mut self.reading)?;
        delivery.write()?;
        if self.half_closed && self.input.is_empty() && delivery.owes_nothing() {
            return Ok(Next::Close);
        }
        let pending = delivery.pending();
        if busy && pending == 0 {
            return Ok(Next::GoOn);
        }
        delivery.note_busy();
        let waiting = Waiting {
            input: !self.half_closed && delivery.accepts_lines(),
            room: pending > 0,
            answers: delivery.out.expects() && pending < OUT_HIGH,
            // An answer that another thread has written may have begun a watch.
            frames: (delivery.out.expects() || delivery.out.nudge.is_some() || !delivery.out.watches.is_empty())
                && pending < OUT_LOW,
            hangup: self.half_closed && pending == 0,
        };
        delivery.at_rest = waiting.input && !waiting.room;
        Ok(Next::Wait(waiting))
    }

    /// Takes what has arrived; a client that has closed its side gets what it still waits for.
    fn read(&mut self) -> io::Result<()> {
        if self.half_closed || !self.delivery.lock().accepts_lines() {
            return Ok(());
        }
        self.half_closed = self.socket.try_read(self.input.room())? == Some(0);
        Ok(())
    }

    /// Waits for the next thing to do. The order does not matter, because every turn looks at everything that has come.
    async fn wait(&mut self, waiting: &Waiting) -> io::Result<Event> {
        let Self { socket, input, answers, signal, reading, slot, delivery, .. } = self;
        tokio::select! {
            biased;
            (of, read) = finished(reading) => {
                *reading = None;
                delivery.lock().read_back(&of, read.map_err(io::Error::other)?);
            }
            arrival = socket.wait(waiting.input.then(|| input.room()), waiting.room), if waiting.input || waiting.room => {
                return Ok(match arrival? {
                    Arrival::Input(count) => Event::Input(count),
                    Arrival::Room => Event::Look,
                });
            }
            Some(later) = answers.recv(), if waiting.answers => delivery.lock().out.arrived(later),
            () = signal.raised(), if waiting.frames => {}
            () = tokio::time::sleep(LOOK_EVERY), if waiting.hangup => {}
            () = slot.leave() => return Ok(Event::Leave),
        }
        Ok(Event::Look)
    }
}

fn handle_lines<S: Session, W: TryWrite>(
    delivery: &mut Delivery<S, W>,
    input: &mut LineBuffer,
    half_closed: bool,
    slot: &ConnectionSlot,
) -> io::Result<Flow>
where
    S::Tag: 'static,
{
    while delivery.accepts_lines() {
        match input.next_line() {
            Err(TooLong) => {
                delivery.session.too_long(&mut delivery.out.ready);
                delivery.write()?;
                return Ok(Flow::Close);
            }
            // A client that has stopped in mid-line gets an answer to that line too.
            Ok(None) if half_closed => {
                return Ok(input.rest().map_or(Flow::Continue, |rest| delivery.line(&rest)));
            }
            Ok(None) => return Ok(Flow::Continue),
            Ok(Some([])) => {}
            Ok(Some(line)) => {
                slot.heard();
                match delivery.line(line) {
                    Flow::Continue => {}
                    ends => return Ok(ends),
                }
            }
        }
    }
    Ok(Flow::Continue)
}

/// What a reader that was away has found.
async fn finished(reading: &mut Option<Reading>) -> (String, Result<Read, JoinError>) {
    match reading {
        Some(Reading { of, work }) => (of.clone(), work.await),
        None => std::future::pending().await,
    }
}
