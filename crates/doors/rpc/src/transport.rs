//! What a connection runs over: bytes of lines come in and go out. A unix socket is one, a WebSocket another; the loop above
//! is the same, and made for each of them when the program is compiled.

use std::io;

/// Both ways of one connection. Only [`wait`](Self::wait) waits.
pub trait Transport: Send {
    /// The way out.
    type Writer: TryWrite;

    /// The way out, which another thread may have.
    fn writer(&self) -> Self::Writer;

    /// Appends what has arrived to the room that `buffer` has; nothing when nothing has, and 0 at the end.
    fn try_read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>>;

    /// Whether the other end is closed, both ways: nobody reads what is written from here on.
    fn is_gone(&self) -> bool;

    /// Waits for input, if there is a buffer for it, or for room. Cancelled, it has lost nothing.
    fn wait(&mut self, buffer: Option<&mut Vec<u8>>, room: bool) -> impl Future<Output = io::Result<Arrival>> + Send;
}

/// The way out of a connection.
pub trait TryWrite: Send + 'static {
    /// How much was taken just now; nothing when there is no room. Without bytes it sees to what it has taken before.
    fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// What it has taken and not passed on.
    fn unsent(&self) -> usize {
        0
    }
}

/// What a wait was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// So many bytes have come; none: the client sends no more.
    Input(usize),
    /// More can be written.
    Room,
}
