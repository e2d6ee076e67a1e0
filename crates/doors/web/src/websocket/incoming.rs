//! What a client says, put together from the frames in which it came. No more than one message and what was read along with
//! it is ever held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::deflate::inflate;
use super::frame::{Opcode, Violation, read_head, unmask};

/// One read's worth.
const CHUNK: usize = 16 * 1024;
/// A buffer that grew for one long message is given back.
const KEEP: usize = 64 * 1024;

/// Bytes that have come, and the message that they make.
pub(super) struct Incoming {
    raw: Vec<u8>,
    /// How much of `raw` has been taken.
    taken: usize,
    message: Vec<u8>,
    /// The message has begun, and its end has not come.
    begun: bool,
    /// It is compressed, as may be where that was agreed on.
    compressed: bool,
    deflate: bool,
    /// What is no text is passed over.
    pub(super) ignores_binary: bool,
    /// The message that has begun is.
    passed_over: bool,
    max: MessageMax,
}

/// The longest message that is taken from a client; more, once it is known who that is.
#[derive(Debug, Clone)]
pub struct MessageMax(Arc<AtomicUsize>);

impl MessageMax {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// So many from the next message on.
    pub fn raise(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Text(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close,
}

impl Incoming {
    pub(super) fn new(max: MessageMax, deflate: bool) -> Self {
        Self {
            raw: Vec::new(),
            taken: 0,
            message: Vec::new(),
            begun: false,
            compressed: false,
            deflate,
            ignores_binary: false,
            passed_over: false,
            max,
        }
    }

    /// Adds what was read.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.raw.drain(..self.taken);
            self.taken = 0;
        }
        if self.raw.is_empty() && self.raw.capacity() > KEEP {
            self.raw = Vec::new();
        }
        self.raw.extend_from_slice(bytes);
    }

    /// How much is read at once.
    pub(super) const fn chunk() -> usize {
        CHUNK
    }

    /// The next whole thing; nothing while there is none.
    pub(super) fn next(&mut self) -> Result<Option<Heard>, Violation> {
        loop {
            let fresh = self.raw.get_mut(self.taken..).unwrap_or_default();
            let Some(head) = read_head(fresh, self.max.get(), self.deflate)? else { return Ok(None) };
            let Some(payload) = fresh.get_mut(head.size..head.size + head.length) else { return Ok(None) };
            unmask(head.mask, payload);
            self.taken += head.size + head.length;
            match head.opcode {
                Opcode::Ping => return Ok(Some(Heard::Ping(payload.to_vec()))),
                Opcode::Pong => return Ok(Some(Heard::Pong)),
                Opcode::Close => return Ok(Some(Heard::Close)),
                Opcode::Binary if !self.ignores_binary => return Err(Violation::NotText),
                Opcode::Text | Opcode::Binary if self.begun => return Err(Violation::Protocol),
                Opcode::Continue if !self.begun => return Err(Violation::Protocol),
                Opcode::Text | Opcode::Continue => {}
                Opcode::Binary => self.passed_over = true,
            }
            if self.passed_over {
                self.begun = !head.is_final;
                self.passed_over = self.begun;
                continue;
            }
            if self.message.len() + payload.len() > self.max.get() {
                return Err(Violation::TooLong);
            }
            self.message.extend_from_slice(payload);
            self.compressed |= head.is_compressed;
            self.begun = !head.is_final;
            if head.is_final {
                let mut message = std::mem::take(&mut self.message);
                if std::mem::take(&mut self.compressed) {
                    message = inflate(&message, self.max.get())?;
                }
                return match std::str::from_utf8(&message) {
                    Ok(_) => Ok(Some(Heard::Text(message))),
                    Err(_) => Err(Violation::NotUtf8),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first, 0x80 | u8::try_from(payload.len()).unwrap(), 9, 8, 7, 6];
        let mut payload = payload.to_vec();
        unmask([9, 8, 7, 6], &mut payload);
        bytes.extend(payload);
        bytes
    }

    fn all(incoming: &mut Incoming) -> Vec<Heard> {
        std::iter::from_fn(|| incoming.next().unwrap()).collect()
    }

    fn text(text: &str) -> Heard {
        Heard::Text(text.into())
    }

    #[test]
    fn messages_come_out_whole_however_they_arrive() {
        let bytes = [
            frame(0x81, b"one"),
            frame(0x01, b"t"),
            frame(0x89, b"there?"),
            frame(0x00, b"w"),
            frame(0x80, b"o"),
            frame(0x88, b""),
        ]
        .concat();
        for piece in [1, 3, 7, bytes.len()] {
            let mut incoming = Incoming::new(MessageMax::new(100), false);
            let mut heard = Vec::new();
            for bytes in bytes.chunks(piece) {
                incoming.add(bytes);
                heard.extend(all(&mut incoming));
            }
            assert_eq!(heard, [text("one"), Heard::Ping(b"there?".to_vec()), text("two"), Heard::Close], "{piece}");
        }
    }

    #[test]
    fn the_longest_message_is_taken_and_one_byte_more_is_not_also_in_pieces() {
        let after = |frames: &[Vec<u8>]| {
            let mut incoming = Incoming::new(MessageMax::new(4), false);
            incoming.add(&frames.concat());
            incoming.next()
        };
        assert_eq!(after(&[frame(0x81, b"1234")]), Ok(Some(text("1234"))));
        assert_eq!(after(&[frame(0x81, b"12345")]), Err(Violation::TooLong));
        assert_eq!(after(&[frame(0x01, b"12"), frame(0x80, b"34")]), Ok(Some(text("1234"))));
        assert_eq!(after(&[frame(0x01, b"12"), frame(0x80, b"345")]), Err(Violation::TooLong));
    }

    #[test]
    fn a_compressed_message_is_bounded_by_what_comes_out_of_it() {
        let short = super::super::deflate::deflate(&[b'x'; 2000]).unwrap();
        let after = |max| {
            let mut incoming = Incoming::new(MessageMax::new(max), true);
            let (first, rest) = short.split_at(5);
            incoming.add(&[frame(0x41, first), frame(0x80, rest), frame(0x81, b"plain")].concat());
            incoming.next().map(|heard| (heard, incoming.next()))
        };
        assert_eq!(after(2000), Ok((Some(text(&"x".repeat(2000))), Ok(Some(text("plain"))))));
        assert_eq!(after(1999), Err(Violation::TooLong));
    }

    #[test]
    fn what_is_no_text_is_passed_over_where_the_protocol_says_so_and_nothing_of_it_is_kept() {
        let mut incoming = Incoming::new(MessageMax::new(4), false);
        incoming.ignores_binary = true;
        let pieces = [frame(0x02, b"1234"), frame(0x89, b"?"), frame(0x00, b"5678"), frame(0x80, b"9")];
        incoming.add(&[pieces.concat(), frame(0x82, b"\xff"), frame(0x81, b"text")].concat());
        assert_eq!(all(&mut incoming), [Heard::Ping(b"?".to_vec()), text("text")]);
        incoming.add(&frame(0x82, b"12345"));
        assert_eq!(incoming.next(), Err(Violation::TooLong));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let after = |bytes: Vec<u8>| {
            let mut incoming = Incoming::new(MessageMax::new(100), false);
            incoming.add(&bytes);
            incoming.next()
        };
        assert_eq!(after(frame(0x82, b"x")), Err(Violation::NotText));
        assert_eq!(after(frame(0x81, b"\xff")), Err(Violation::NotUtf8));
        assert_eq!(after(frame(0x80, b"x")), Err(Violation::Protocol));
        assert_eq!(after([frame(0x01, b"x"), frame(0x81, b"y")].concat()), Err(Violation::Protocol));
    }
}
