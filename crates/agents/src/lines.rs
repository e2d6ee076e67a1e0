//! Cuts an agent's output into lines without ever holding more than one of them, and never a longer one than it may.

/// 8 MiB: a tool result with a large file or picture fits; more is a runaway program, and would be held in memory.
pub const MAX_LINE: usize = 8 << 20;

/// What came out of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line without its end.
    Line(&'a [u8]),
    /// A line that was too long to keep, and how many bytes it had.
    TooLong(u64),
}

/// A stream being cut into lines.
#[derive(Debug, Default)]
pub struct Splitter {
    held: Vec<u8>,
    /// Bytes of the current line that were dropped because it is too long.
    dropped: u64,
    /// Bytes taken so far.
    offset: u64,
}

impl Splitter {
    /// A splitter whose first byte is at `offset` of the stream.
    pub fn at(offset: u64) -> Self {
        Splitter { offset, ..Splitter::default() }
    }

    /// How many bytes of the stream it has taken, those before it included.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes bytes; gives each line that ends in them, with the offset after it.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(u64, Piece<'_>)) {
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.offset = self.offset.saturating_add(end as u64 + 1);
            if self.held.is_empty() && self.dropped == 0 && line.len() <= MAX_LINE {
                take(self.offset, Piece::Line(without_return(line)));
            } else {
                self.hold(line);
                self.give(&mut take);
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        self.hold(bytes);
    }

    /// The stream has ended: gives the last line if it has no end.
    pub fn finish(&mut self, mut take: impl FnMut(u64, Piece<'_>)) {
        if !self.held.is_empty() || self.dropped > 0 {
            self.give(&mut take);
        }
    }

    fn give(&mut self, take: &mut impl FnMut(u64, Piece<'_>)) {
        match self.dropped {
            0 => take(self.offset, Piece::Line(without_return(&self.held))),
            n => take(self.offset, Piece::TooLong(n)),
        }
        self.held = Vec::new();
        self.dropped = 0;
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.dropped > 0 || self.held.len() + bytes.len() > MAX_LINE {
            self.dropped += (self.held.len() + bytes.len()) as u64;
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(bytes);
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(u64, Result<Vec<u8>, u64>)> {
        let (mut splitter, mut out) = (Splitter::default(), Vec::new());
        let mut keep = |at, piece: Piece<'_>| {
            out.push((
                at,
                match piece {
                    Piece::Line(line) => Ok(line.to_vec()),
                    Piece::TooLong(n) => Err(n),
                },
            ))
        };
        for chunk in chunks {
            splitter.push(chunk, &mut keep);
        }
        splitter.finish(&mut keep);
        out
    }

    #[test]
    fn each_line_comes_with_the_offset_after_it() {
        let lines = cut(&[b"one\ntw", b"o\r\n\nthree"]);
        let want: Vec<(u64, &[u8])> = vec![(4, b"one"), (9, b"two"), (10, b""), (15, b"three")];
        assert_eq!(lines, want.into_iter().map(|(at, l)| (at, Ok(l.to_vec()))).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_not_kept() {
        let mib = vec![b'x'; 1 << 20];
        let mut splitter = Splitter::default();
        for _ in 0..20 {
            splitter.push(&mib, |_, _| panic!("no line has ended"));
            assert!(splitter.held.len() <= MAX_LINE);
        }
        let mut seen = Vec::new();
        splitter.push(b"y\nshort\n", |at, piece| seen.push((at, format!("{piece:?}"))));
        let n = (20u64 << 20) + 1;
        assert_eq!(seen[0], (n + 1, format!("TooLong({n})")));
        assert_eq!(seen[1].0, n + 7);
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200), at in 0usize..200) {
            let at = at.min(bytes.len());
            prop_assert_eq!(cut(&[&bytes]), cut(&[&bytes[..at], &bytes[at..]]));
        }
    }
}
