//! The way out to one client of a stream. A frame counts as delivered once its bytes are in the client's socket, not when
//! some buffer above it has taken them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

/// Counts what went into a socket, and knows whether anybody is at its other end.
#[derive(Debug)]
pub struct Meter {
    socket: TcpStream,
    written: AtomicU64,
    moved: Notify,
}

impl Meter {
    /// Resolves when the other end sends no more. It may be gone, or wait for its answer: who writes to it will know.
    async fn hung_up(&self) {
        // What is there to read is somebody else's: urgent data there is none, so this is the end of input alone.
        if self.socket.ready(Interest::PRIORITY).await.is_err() {
            std::future::pending().await
        }
    }

    /// Resolves when the other end has refused what was written to it.
    async fn broken(&self) {
        if self.socket.ready(Interest::ERROR).await.is_err() {
            std::future::pending().await
        }
    }
}

/// A socket that is counted.
pub(crate) struct Metered {
    meter: Arc<Meter>,
}

impl Metered {
    pub(crate) fn new(socket: TcpStream) -> (Self, Arc<Meter>) {
        let meter = Arc::new(Meter { socket, written: AtomicU64::new(0), moved: Notify::new() });
        (Self { meter: Arc::clone(&meter) }, meter)
    }

    /// Writes as soon as there is room, and counts.
    fn write(&self, cx: &mut Context<'_>, write: impl Fn(&TcpStream) -> io::Result<usize>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.meter.socket.poll_write_ready(cx))?;
            match write(&self.meter.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.meter.written.fetch_add(count as u64, Ordering::Release);
                    self.meter.moved.notify_waiters();
                    return Poll::Ready(Ok(count));
                }
                failed => return Poll::Ready(failed),
            }
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.meter.socket.poll_read_ready(cx))?;
            match self.meter.socket.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| buf.advance(count))),
            }
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, |socket| socket.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |socket| socket.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&self.meter.socket, Shutdown::Write).map_err(io::Error::from))
    }
}

/// The client is gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Gone;

/// What a stream writes to.
pub struct ResponseBody {
    frames: mpsc::Sender<io::Result<Bytes>>,
    meter: Arc<Meter>,
}

impl ResponseBody {
    /// An outlet, and the body that carries what it is given.
    pub fn new(meter: Arc<Meter>) -> (Self, Body) {
        let (frames, taken) = mpsc::channel(1);
        (Self { frames, meter }, Body::new(Frames(taken)))
    }

    /// Hands a frame over and waits until the socket has it.
    pub async fn deliver(&self, frame: impl Into<Bytes>) -> Result<(), Gone> {
        let before = self.meter.written.load(Ordering::Acquire);
        let frame: Bytes = frame.into();
        let length = frame.len() as u64;
        self.frames.send(Ok(frame)).await.map_err(|_| Gone)?;
        loop {
            let moved = self.meter.moved.notified();
            tokio::pin!(moved);
            // Before the look: what moves after it is heard.
            moved.as_mut().enable();
            let delivered = || self.meter.written.load(Ordering::Acquire) >= before + length;
            if delivered() {
                return Ok(());
            }
            tokio::select! {
                () = moved => {}
                // A client that took it and hung up at once has it all the same.
                () = self.frames.closed() => return if delivered() { Ok(()) } else { Err(Gone) },
            }
        }
    }

    /// Breaks the connection where it stands: without its last chunk nobody takes what came for all there is.
    pub async fn break_off(self) {
        let why = io::Error::other("the rest of the stream is somebody else's to tell");
        // A client that is gone misses nothing.
        let _ = self.frames.send(Err(why)).await;
    }

    /// Resolves when the client sends no more; it may still read.
    pub async fn hung_up(&self) {
        self.meter.hung_up().await;
    }

    /// Resolves when the client is gone.
    pub async fn gone(&self) {
        tokio::select! {
            () = self.frames.closed() => {}
            () = self.meter.broken() => {}
        }
    }
}

struct Frames(mpsc::Receiver<io::Result<Bytes>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(|bytes| bytes.map(Frame::data)))
    }
}
