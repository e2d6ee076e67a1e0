//! The way out to one client of a stream. A frame counts as delivered once its bytes are in the client's socket, not when
//! some buffer above it has taken them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, mpsc};

/// Counts what went into a socket.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    written: AtomicU64,
    moved: Notify,
}

/// A socket that is counted.
pub(crate) struct Metered<S> {
    socket: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(socket: S) -> (Self, Arc<Meter>) {
        let meter = Arc::<Meter>::default();
        (Self { socket, meter: Arc::clone(&meter) }, meter)
    }

    fn count(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = polled {
            self.meter.written.fetch_add(count as u64, Ordering::Release);
            self.meter.moved.notify_waiters();
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.count(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.count(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// The client is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// What a stream writes to.
pub(crate) struct Outlet {
    frames: mpsc::Sender<Bytes>,
    meter: Arc<Meter>,
}

impl Outlet {
    /// An outlet, and the body that carries what it is given.
    pub(crate) fn new(meter: Arc<Meter>) -> (Self, Body) {
        let (frames, taken) = mpsc::channel(1);
        (Self { frames, meter }, Body::new(Frames(taken)))
    }

    /// Hands a frame over and waits until the socket has it.
    pub(crate) async fn deliver(&self, frame: String) -> Result<(), Gone> {
        let before = self.meter.written.load(Ordering::Acquire);
        let length = frame.len() as u64;
        self.frames.send(frame.into()).await.map_err(|_| Gone)?;
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

    /// Resolves when the client is gone.
    pub(crate) async fn gone(&self) {
        self.frames.closed().await;
    }
}

struct Frames(mpsc::Receiver<Bytes>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}
