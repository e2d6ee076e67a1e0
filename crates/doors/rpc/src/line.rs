//! Splits what arrives into lines, with a bound on their length.

/// The line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes that have arrived and are not yet a whole line.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far no newline has been found.
    searched: usize,
    max: usize,
}

/// One read's worth; small enough that an idle connection costs little.
const CHUNK: usize = 16 * 1024;
/// A buffer that grew for one long line is given back.
const KEEP: usize = 64 * 1024;

impl LineBuffer {
    /// For lines of at most `max` bytes, the newline not counted.
    pub fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0, max }
    }

    /// Room to append what has arrived.
    pub fn room(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(CHUNK);
        &mut self.bytes
    }

    /// The next whole line, without its newline and one carriage return before it; nothing while none is whole.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let fresh = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', fresh) else {
            self.searched = self.bytes.len();
            return if self.bytes.len() - self.start > self.max { Err(TooLong) } else { Ok(None) };
        };
        let (from, end) = (self.start, self.searched + at);
        self.start = end + 1;
        self.searched = self.start;
        if end - from > self.max {
            return Err(TooLong);
        }
        let line = self.bytes.get(from..end).unwrap_or_default();
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// What is left when the client has stopped in mid-line.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes.split_off(self.start);
        (self.bytes, self.start, self.searched) = (Vec::new(), 0, 0);
        let rest = rest.strip_suffix(b"\r").map(<[u8]>::to_vec).unwrap_or(rest);
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut LineBuffer, bytes: &[u8]) {
        buffer.room().extend_from_slice(bytes);
    }

    fn lines(buffer: &mut LineBuffer) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(line) = buffer.next_line().unwrap() {
            all.push(String::from_utf8(line.to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let mut buffer = LineBuffer::new(10);
        feed(&mut buffer, b"one\r\ntw");
        assert_eq!(lines(&mut buffer), ["one"]);
        feed(&mut buffer, b"o\n\nthree");
        assert_eq!(lines(&mut buffer), ["two", ""]);
        assert_eq!(buffer.rest().as_deref(), Some(&b"three"[..]));
        assert_eq!(buffer.rest(), None);
    }

    #[test]
    fn the_longest_line_is_served_and_one_byte_more_is_not() {
        let mut buffer = LineBuffer::new(4);
        feed(&mut buffer, b"1234\n");
        assert_eq!(lines(&mut buffer), ["1234"]);
        feed(&mut buffer, b"12345\n");
        assert_eq!(buffer.next_line(), Err(TooLong));
        let mut buffer = LineBuffer::new(4);
        feed(&mut buffer, b"12345");
        assert_eq!(buffer.next_line(), Err(TooLong));
    }
}
