//! Splits what a socket delivers into lines, without copying a line twice.

/// A read fills at most this much: two frames in base64, so that a fast stream needs few system calls.
const CHUNK: usize = 128 * 1024;
/// No line of a daemon of ours is longer: a full inbox with the contents of all its requests is half of this. Whoever sends
/// more is not one, and gets no more of our memory.
const LINE_MAX: usize = if cfg!(test) { 4 << 20 } else { 256 << 20 };

#[derive(Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to here no newline was found.
    searched: usize,
    /// Up to here the bytes are real.
    end: usize,
}

impl LineBuffer {
    /// The next whole line, without its newline.
    pub(super) fn next_line(&mut self) -> Option<&[u8]> {
        let unseen = self.bytes.get(self.searched..self.end)?;
        match unseen.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let line = self.start..self.searched + at;
                self.start = line.end + 1;
                self.searched = self.start;
                self.bytes.get(line)
            }
            None => {
                self.searched = self.end;
                None
            }
        }
    }

    /// Room for a read; none after a line that has no end.
    pub(super) fn space(&mut self) -> Option<&mut [u8]> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end > LINE_MAX {
            return None;
        }
        if self.bytes.len() < self.end + CHUNK {
            self.bytes.resize(self.end + CHUNK, 0);
        }
        self.bytes.get_mut(self.end..)
    }

    /// Says how much of `space` a read has filled.
    pub(super) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut LineBuffer, bytes: &[u8]) {
        buffer.space().unwrap()[..bytes.len()].copy_from_slice(bytes);
        buffer.filled(bytes.len());
    }

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let text = b"a\n\nlong line\nend";
        for size in 1..=text.len() {
            let mut buffer = LineBuffer::default();
            let mut lines: Vec<Vec<u8>> = Vec::new();
            for part in text.chunks(size) {
                feed(&mut buffer, part);
                while let Some(line) = buffer.next_line() {
                    lines.push(line.to_vec());
                }
            }
            assert_eq!(lines, [b"a".to_vec(), b"".to_vec(), b"long line".to_vec()], "chunks of {size}");
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_lines() {
        let mut buffer = LineBuffer::default();
        for _ in 0..10_000 {
            feed(&mut buffer, &[b'x'; 999]);
            feed(&mut buffer, b"\n");
            assert_eq!(buffer.next_line().map(<[u8]>::len), Some(999));
        }
        assert!(buffer.bytes.capacity() <= 4 * CHUNK, "{}", buffer.bytes.capacity());
    }

    #[test]
    fn a_line_without_an_end_gets_no_more_room() {
        let mut buffer = LineBuffer::default();
        let mut taken = 0;
        while let Some(space) = buffer.space() {
            let count = space.len();
            buffer.filled(count);
            assert_eq!(buffer.next_line(), None);
            taken += count;
            assert!(taken <= LINE_MAX + 2 * CHUNK);
        }
        assert!(taken > LINE_MAX);
    }
}
