//! A WebSocket as a transport of lines: a text message is a line, each line of ours is one. A client that is silent is asked
//! whether it is there, which also keeps proxies from hanging up.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ostler_door_rpc::{Arrival, Transport, TryWrite};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Manner;
use super::deflate::deflate;
use super::frame::{Opcode, push, push_compressed};
use super::incoming::{Heard, Incoming, MessageMax};

/// Lines are put into frames while less than this waits for the socket.
const OUT: usize = 64 * 1024;
/// Answers to pings are left out while so much waits: who asks and does not read is told less.
const PONGS: usize = 4 * 1024;
/// Messages are taken while fewer bytes of them wait to be served.
const IN: usize = 64 * 1024;
/// Shorter texts are sent as they are.
const DEFLATE_FROM: usize = 256;
pub(super) const GOING_AWAY: u16 = 1001;
pub(super) const NORMAL: u16 = 1000;

/// Both ways of one WebSocket.
pub struct WebSocket<S> {
    line: Arc<Mutex<Line<S>>>,
    incoming: Incoming,
    manner: Manner,
    /// When the client is asked whether it is there; once it was, when it is given up.
    ask_at: Instant,
    /// It was asked, and nothing was heard or taken since.
    asked: bool,
    ended: bool,
}

/// The way out of a WebSocket.
pub struct Writer<S>(Arc<Mutex<Line<S>>>);

/// The stream, and frames that it has not taken.
struct Line<S> {
    stream: S,
    out: Vec<u8>,
    written: usize,
    /// The stream has taken all of it and may hold some.
    flushing: bool,
    /// Long texts are compressed.
    deflate: bool,
    closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Over a stream whose handshake is done, for messages of at most `max` bytes, compressed where that was agreed on.
    pub fn new(stream: S, max: MessageMax, deflate: bool) -> Self {
        let line = Line { stream, out: Vec::new(), written: 0, flushing: false, deflate, closed: false };
        let manner = Manner::default();
        Self {
            line: Arc::new(Mutex::new(line)),
            incoming: Incoming::new(max, deflate),
            manner,
            ask_at: Instant::now() + manner.ask_after,
            asked: false,
            ended: false,
        }
    }

    /// The same in the manner of a protocol.
    pub(super) fn with(mut self, manner: Manner) -> Self {
        self.incoming.ignores_binary = manner.ignores_binary;
        self.ask_at = Instant::now() + manner.ask_after;
        Self { manner, ..self }
    }

    /// Says goodbye, if nobody has, when dropped futures have left it: nobody who was served is just hung up on.
    pub(super) fn farewell(&self) -> impl FnOnce(u16) + use<S> {
        let line = Arc::clone(&self.line);
        move |code| lock(&line).close(code, &mut noop())
    }

    /// Appends what was said as lines; says how much that was.
    fn take(&mut self, buffer: &mut Vec<u8>, cx: &mut Context<'_>) -> io::Result<usize> {
        let before = buffer.len();
        while !self.ended && buffer.len() - before < IN {
            let heard = match self.incoming.next() {
                Ok(Some(heard)) => heard,
                Ok(None) => break,
                Err(violation) => {
                    lock(&self.line).close(violation as u16, cx);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
                }
            };
            match heard {
                Heard::Text(message) => {
                    let start = buffer.len();
                    buffer.extend_from_slice(&message);
                    // One message is one request; between the words of JSON a new line is a space.
                    let said = buffer.get_mut(start..).unwrap_or_default();
                    said.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
                    buffer.push(b'\n');
                }
                Heard::Ping(payload) => {
                    let mut line = lock(&self.line);
                    if line.unsent() < PONGS {
                        push(Opcode::Pong, &payload, &mut line.out);
                    }
                }
                Heard::Pong => {}
                Heard::Close => {
                    lock(&self.line).close(NORMAL, cx);
                    self.ended = true;
                }
            }
        }
        Ok(buffer.len() - before)
    }

    /// What has come, as lines; 0 when no more will.
    fn poll_input(&mut self, buffer: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            let count = self.take(buffer, cx)?;
            if count > 0 || self.ended {
                return Poll::Ready(Ok(count));
            }
            let mut chunk = [const { std::mem::MaybeUninit::uninit() }; Incoming::chunk()];
            let mut read = ReadBuf::uninit(&mut chunk);
            let polled = Pin::new(&mut lock(&self.line).stream).poll_read(cx, &mut read);
            ready!(polled)?;
            if read.filled().is_empty() {
                lock(&self.line).closed = true;
                self.ended = true;
            }
            self.asked = false;
            self.ask_at = Instant::now() + self.manner.ask_after;
            self.incoming.add(read.filled());
        }
    }

    fn poll_arrival(
        &mut self,
        buffer: Option<&mut Vec<u8>>,
        room: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Arrival>> {
        if self.poll_room(cx)?.is_ready() && room {
            return Poll::Ready(Ok(Arrival::Room));
        }
        let Some(buffer) = buffer else { return Poll::Pending };
        match self.poll_input(buffer, cx) {
            Poll::Ready(count) => Poll::Ready(count.map(Arrival::Input)),
            Poll::Pending => {
                // What was said to the client while listening to it.
                let _ = self.poll_room(cx)?;
                Poll::Pending
            }
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = lock(&self.line);
        let before = line.unsent();
        let sent = line.poll_send(cx);
        if self.asked && line.unsent() < before {
            // Who has much to take comes to the question late.
            self.asked = self.manner.must_answer;
            self.ask_at = Instant::now() + self.manner.gone_after;
        }
        sent
    }

    /// Asks a silent client whether it is there. One that did not answer the last time is not.
    fn ask(&mut self) {
        let mut line = lock(&self.line);
        if self.asked {
            line.closed = true;
            self.ended = true;
            return;
        }
        push(Opcode::Ping, &[], &mut line.out);
        self.asked = true;
        self.ask_at = Instant::now() + self.manner.gone_after;
    }
}

impl<S> Line<S> {
    fn unsent(&self) -> usize {
        self.out.len() - self.written + usize::from(self.flushing)
    }

    fn say(&mut self, text: &[u8]) {
        let worth = self.deflate && text.len() >= DEFLATE_FROM;
        match worth.then(|| deflate(text)).flatten() {
            Some(short) => push_compressed(&short, &mut self.out),
            None => push(Opcode::Text, text, &mut self.out),
        }
    }
}

impl<S: AsyncWrite + Unpin> Line<S> {
    /// Passes on what waits.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
            self.flushing = true;
        }
        self.out.clear();
        self.written = 0;
        if self.flushing {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.flushing = false;
        }
        if self.out.capacity() > 2 * OUT {
            self.out = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Says why this is the end, if there is room to say it.
    fn close(&mut self, code: u16, cx: &mut Context<'_>) {
        if !self.closed {
            push(Opcode::Close, &code.to_be_bytes(), &mut self.out);
            self.closed = true;
            // Nobody waits for a client that leaves.
            let _ = self.poll_send(cx);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for WebSocket<S> {
    type Writer = Writer<S>;

    fn writer(&self) -> Writer<S> {
        Writer(Arc::clone(&self.line))
    }

    fn try_read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        // Nobody is told by this waker; who waits looks once more.
        match self.poll_input(buffer, &mut noop()) {
            Poll::Ready(count) => count.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// A client that has closed its side of a WebSocket has closed both.
    fn is_gone(&self) -> bool {
        lock(&self.line).closed
    }

    async fn wait(&mut self, mut buffer: Option<&mut Vec<u8>>, room: bool) -> io::Result<Arrival> {
        loop {
            let ask_at = self.ask_at;
            let arrival = poll_fn(|cx| self.poll_arrival(buffer.as_deref_mut(), room, cx));
            match tokio::time::timeout_at(ask_at, arrival).await {
                Ok(arrival) => return arrival,
                // Who is not listened to can not answer, and who owes nothing need not.
                Err(_) if buffer.is_none() && lock(&self.line).unsent() == 0 => {
                    self.ask_at = Instant::now() + self.manner.ask_after;
                }
                // A part of something has come meanwhile.
                Err(_) if Instant::now() < self.ask_at => {}
                Err(_) => self.ask(),
            }
            if self.ended {
                return Ok(Arrival::Input(0));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin + Send + 'static> TryWrite for Writer<S> {
    fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut line = lock(&self.0);
        if line.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if line.poll_send(&mut noop())?.is_pending() {
            return Ok(None);
        }
        let mut taken = 0;
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.say(text.strip_suffix(b"\n").unwrap_or(text));
            taken += text.len();
            if line.out.len() >= OUT {
                break;
            }
        }
        // What does not go now goes later.
        let _ = line.poll_send(&mut noop())?;
        Ok(Some(taken))
    }

    fn unsent(&self) -> usize {
        lock(&self.0).unsent()
    }
}

fn lock<S>(line: &Mutex<Line<S>>) -> MutexGuard<'_, Line<S>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::frame::unmask;
    use ostler_door_rpc::{Flow, InputLimits, Limits, Outbox, Session, serve_over};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::task::JoinHandle;

    /// Says every line twice, once at once and once later.
    struct Echo;

    impl Session for Echo {
        type Tag = ();

        fn line(&mut self, line: &[u8], out: &mut Outbox<()>) -> Flow {
            let again = [line, b"\n"].concat();
            out.ready.extend_from_slice(&again);
            out.spawn_blocking(move |_| ostler_door_rpc::Later::reply(again));
            Flow::Continue
        }
    }

    const MAX: usize = 1 << 20;

    fn served(buffer: usize) -> (DuplexStream, JoinHandle<io::Result<()>>) {
        let (client, server) = tokio::io::duplex(buffer);
        let limits = Limits { line: MAX, in_flight: 4, in_flight_bytes: MAX, input: InputLimits::default() };
        (client, tokio::spawn(serve_over(WebSocket::new(server, MessageMax::new(MAX), false), Echo, limits)))
    }

    async fn say(client: &mut DuplexStream, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode, 0xff];
        frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        frame.extend_from_slice(&[1, 2, 3, 4]);
        if payload.len() <= 125 {
            frame = vec![0x80 | opcode, 0x80 | payload.len() as u8, 1, 2, 3, 4];
        }
        let mut payload = payload.to_vec();
        unmask([1, 2, 3, 4], &mut payload);
        frame.extend(payload);
        client.write_all(&frame).await.unwrap();
    }

    /// The opcode and payload of the next frame.
    async fn hear(client: &mut DuplexStream) -> (u8, Vec<u8>) {
        let (first, short) = (client.read_u8().await.unwrap(), client.read_u8().await.unwrap());
        let length = match short {
            126 => u64::from(client.read_u16().await.unwrap()),
            127 => client.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        client.read_exact(&mut payload).await.unwrap();
        (first & 0xf, payload)
    }

    #[tokio::test]
    async fn a_message_is_a_line_and_a_line_a_message() {
        let (mut client, serving) = served(1 << 16);
        say(&mut client, 1, b"{\"a\":\n1}").await;
        for _ in 0..2 {
            assert_eq!(hear(&mut client).await, (1, b"{\"a\": 1}".to_vec()));
        }
        say(&mut client, 9, b"there?").await;
        assert_eq!(hear(&mut client).await, (10, b"there?".to_vec()));
        say(&mut client, 8, &1000u16.to_be_bytes()).await;
        assert_eq!(hear(&mut client).await, (8, 1000u16.to_be_bytes().to_vec()));
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_gets_all_of_it() {
        // The stream takes a few bytes at a time, in both directions.
        let (mut client, _serving) = served(64);
        let long = vec![b'x'; 300_000];
        let (mut read, mut write) = tokio::io::split(&mut client);
        let mut frame = vec![0x81, 0xff];
        frame.extend_from_slice(&(long.len() as u64).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0]);
        frame.extend_from_slice(&long);
        let saying = async { write.write_all(&frame).await.unwrap() };
        let mut heard = vec![0; 2 * (long.len() + 10)];
        let hearing = async { read.read_exact(&mut heard).await.unwrap() };
        tokio::join!(saying, hearing);
        assert!(heard[10..10 + long.len()] == long && heard[20 + long.len()..] == long);
    }

    #[tokio::test]
    async fn where_it_was_agreed_on_long_texts_are_compressed_both_ways() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let limits = Limits { line: MAX, in_flight: 4, in_flight_bytes: MAX, input: InputLimits::default() };
        tokio::spawn(serve_over(WebSocket::new(server, MessageMax::new(MAX), true), Echo, limits));
        let long = vec![b'x'; 5000];
        let short = crate::websocket::deflate::deflate(&long).unwrap();
        say(&mut client, 0x41, &short).await;
        assert_eq!(
            (client.read_u8().await.unwrap(), usize::from(client.read_u8().await.unwrap())),
            (0xc1, short.len())
        );
        let mut heard = vec![0; short.len()];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(crate::websocket::deflate::inflate(&heard, MAX).unwrap(), long);
    }

    #[tokio::test]
    async fn who_breaks_the_protocol_is_told_how_and_let_go() {
        for (opcode, payload, code) in [(2, &b"x"[..], 1003u16), (1, b"\xff", 1007), (3, b"", 1002)] {
            let (mut client, serving) = served(1 << 16);
            say(&mut client, opcode, payload).await;
            assert_eq!(hear(&mut client).await, (8, code.to_be_bytes().to_vec()));
            assert_eq!(serving.await.unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let (mut client, _serving) = served(1 << 16);
        client.write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1]).await.unwrap();
        assert_eq!(hear(&mut client).await, (8, 1009u16.to_be_bytes().to_vec()));
    }

    #[tokio::test]
    async fn a_silent_client_is_asked_whether_it_is_there() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut socket = WebSocket::new(server, MessageMax::new(MAX), false);
        socket.ask_at = Instant::now();
        let mut lines = Vec::new();
        let waiting = tokio::time::timeout(Duration::from_millis(50), socket.wait(Some(&mut lines), false));
        assert!(waiting.await.is_err(), "it has said nothing");
        assert_eq!(hear(&mut client).await, (9, Vec::new()));
    }

    #[tokio::test]
    async fn one_that_answers_stays_and_one_that_does_not_is_let_go() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut socket = WebSocket::new(server, MessageMax::new(MAX), false);
        for _ in 0..3 {
            socket.ask();
            say(&mut client, 10, b"").await;
            assert_eq!(socket.try_read(&mut Vec::new()).unwrap(), None);
            assert!(!socket.is_gone());
        }
        socket.ask();
        socket.ask();
        assert!(socket.is_gone());
        assert_eq!(socket.wait(Some(&mut Vec::new()), false).await.unwrap(), Arrival::Input(0));
    }

    /// Has only one thing to say, and says it late.
    struct Last;

    impl Session for Last {
        type Tag = ();

        fn line(&mut self, _: &[u8], out: &mut Outbox<()>) -> Flow {
            out.spawn_blocking(|_| ostler_door_rpc::Later::farewell(b"no\n".to_vec()));
            Flow::Continue
        }
    }

    #[tokio::test]
    async fn the_last_answer_is_heard_and_ends_the_connection_however_late_it_comes() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let limits = Limits { line: MAX, in_flight: 4, in_flight_bytes: MAX, input: InputLimits::default() };
        let serving = serve_over(WebSocket::new(server, MessageMax::new(MAX), false), Last, limits);
        let talk = async {
            say(&mut client, 1, b"may I?").await;
            assert_eq!(hear(&mut client).await, (1, b"no".to_vec()));
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        };
        let (served, ()) = tokio::join!(serving, talk);
        served.unwrap();
    }

    #[tokio::test]
    async fn how_long_a_client_may_be_silent_is_its_protocols_to_say() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (ask_after, gone_after) = (Duration::from_millis(100), Duration::from_millis(400));
        let manner = Manner { ask_after, gone_after, must_answer: true, ..Manner::default() };
        let mut socket = WebSocket::new(server, MessageMax::new(MAX), false).with(manner);
        let begun = Instant::now();
        let talk = async {
            assert_eq!(hear(&mut client).await, (9, Vec::new()));
            assert!(begun.elapsed() >= ask_after);
            say(&mut client, 10, b"").await;
            let answered = Instant::now();
            assert_eq!(hear(&mut client).await, (9, Vec::new()));
            assert!(answered.elapsed() >= ask_after);
            client
        };
        let mut lines = Vec::new();
        let (arrival, _client) = tokio::join!(socket.wait(Some(&mut lines), false), talk);
        assert_eq!(arrival.unwrap(), Arrival::Input(0));
        assert!(begun.elapsed() >= 2 * ask_after + gone_after, "{:?}", begun.elapsed());
    }
}
