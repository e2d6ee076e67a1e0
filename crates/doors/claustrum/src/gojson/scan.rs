//! The JSON grammar, checked in one pass over the bytes. Keeps its own stack of open brackets, so a
//! hostile line can neither overflow the thread's stack nor nest beyond the limit.

use super::{Key, Malformed, Member, Raw};

/// Deepest nesting that Go's decoder accepts.
const MAX_DEPTH: usize = 10_000;

/// Bytes looked at in one step of a string body; the compiler turns a step into vector instructions.
const LANE: usize = 32;

/// Length of the longest prefix in which no byte satisfies `stop`.
pub(super) fn run_until(bytes: &[u8], stop: impl Fn(u8) -> bool) -> usize {
    let (lanes, _) = bytes.as_chunks::<LANE>();
    let mut clear = 0;
    for lane in lanes {
        if lane.iter().fold(false, |hit, &byte| hit | stop(byte)) {
            break;
        }
        clear += LANE;
    }
    let tail = bytes.get(clear..).unwrap_or_default();
    clear + tail.iter().position(|&byte| stop(byte)).unwrap_or(tail.len())
}

/// Words looked at before a string counts as long: keys, ids and names end within them.
const SHORT: usize = 16;

/// How many bytes of a string body stand for themselves: up to a quote, a backslash or a control character.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut clear = 0;
    for word in words.iter().take(SHORT) {
        let hits = specials(u64::from_le_bytes(*word));
        if hits != 0 {
            return clear + hits.trailing_zeros() as usize / 8;
        }
        clear += 8;
    }
    let rest = if words.len() > SHORT { bytes.get(clear..).unwrap_or_default() } else { tail };
    clear + run_until(rest, |byte| (byte < 0x20) | (byte == b'"') | (byte == b'\\'))
}

/// The high bit of the lowest byte that ends a plain run is the lowest bit set; bits above it may be wrong.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64))) & HIGH
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

/// A position in a JSON text. Every method leaves it behind what it accepted.
pub(super) struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Scanner { rest: text }
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    #[inline]
    fn blanks(&mut self) {
        while let [byte @ ..=b' ', tail @ ..] = self.rest {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return;
            }
            self.rest = tail;
        }
    }

    /// Skips blanks and looks at the next byte.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.rest.first().copied()
    }

    /// Skips blanks and takes `byte` if it comes next.
    #[inline]
    fn accept(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        if hit {
            self.advance(1);
        }
        hit
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.accept(byte) { Ok(()) } else { Err(Malformed) }
    }

    /// Nothing but blanks is left.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Malformed),
        }
    }

    /// Hands every member of the object that comes next to `take`; `false` for `null`, which has none.
    pub(super) fn object_or_null(&mut self, mut take: impl FnMut(Member<'a>)) -> Result<bool, Malformed> {
        if self.peek() == Some(b'n') {
            self.literal(b"null")?;
            return Ok(false);
        }
        self.expect(b'{')?;
        if self.accept(b'}') {
            return Ok(true);
        }
        loop {
            let key = self.key()?;
            let value = self.value(1)?;
            take(Member { key, value });
            if self.accept(b'}') {
                return Ok(true);
            }
            self.expect(b',')?;
        }
    }

    /// The elements of the array that comes next.
    pub(super) fn array(&mut self) -> Result<Vec<Raw<'a>>, Malformed> {
        self.expect(b'[')?;
        let mut elements = Vec::new();
        if self.accept(b']') {
            return Ok(elements);
        }
        loop {
            elements.push(self.value(1)?);
            if self.accept(b']') {
                return Ok(elements);
            }
            self.expect(b',')?;
        }
    }

    /// A key and the colon behind it.
    #[inline]
    fn key(&mut self) -> Result<Key<'a>, Malformed> {
        self.blanks();
        let start = self.rest;
        let escaped = self.string()?;
        let key = Key::new(Raw::new(self.since(start), escaped));
        self.expect(b':')?;
        Ok(key)
    }

    /// What was accepted since `start`.
    #[inline]
    fn since(&self, start: &'a [u8]) -> &'a [u8] {
        let taken = start.len().saturating_sub(self.rest.len());
        start.get(..taken).unwrap_or_default()
    }

    /// One whole value with everything inside it, `depth` brackets being open around it.
    #[inline]
    fn value(&mut self, depth: usize) -> Result<Raw<'a>, Malformed> {
        if self.peek() != Some(b'"') {
            return self.other_value(depth);
        }
        let start = self.rest;
        let escaped = self.string()?;
        Ok(Raw::new(self.since(start), escaped))
    }

    /// Anything that does not begin with a quote.
    fn other_value(&mut self, depth: usize) -> Result<Raw<'a>, Malformed> {
        let start = self.rest;
        let mut open: Vec<Open> = Vec::new();
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if depth + open.len() >= MAX_DEPTH {
                        return Err(Malformed);
                    }
                    self.advance(1);
                    let (kind, close) = if bracket == b'{' { (Open::Object, b'}') } else { (Open::Array, b']') };
                    if !self.accept(close) {
                        open.push(kind);
                        if kind == Open::Object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => escaped = self.string()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(_) => self.number()?,
                None => return Err(Malformed),
            }
            if self.close(&mut open)? {
                return Ok(Raw::new(self.since(start), escaped));
            }
        }
    }

    /// After a value: takes closing brackets, or the comma (and key) before the next value.
    /// True when no bracket is open any more.
    fn close(&mut self, open: &mut Vec<Open>) -> Result<bool, Malformed> {
        while let Some(&kind) = open.last() {
            if self.accept(b',') {
                if kind == Open::Object {
                    self.key()?;
                }
                return Ok(false);
            }
            self.expect(if kind == Open::Object { b'}' } else { b']' })?;
            open.pop();
        }
        Ok(true)
    }

    #[inline]
    fn literal(&mut self, word: &[u8]) -> Result<(), Malformed> {
        if !self.rest.starts_with(word) {
            return Err(Malformed);
        }
        self.advance(word.len());
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Malformed> {
        let count = run_until(self.rest, |byte| !byte.is_ascii_digit());
        if count == 0 {
            return Err(Malformed);
        }
        self.advance(count);
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<(), Malformed> {
        if let [b'-', tail @ ..] = self.rest {
            self.rest = tail;
        }
        match self.rest {
            [b'0', tail @ ..] => self.rest = tail,
            _ => self.digits()?,
        }
        if let [b'.', tail @ ..] = self.rest {
            self.rest = tail;
            self.digits()?;
        }
        if let [b'e' | b'E', tail @ ..] = self.rest {
            self.rest = tail;
            if let [b'+' | b'-', tail @ ..] = self.rest {
                self.rest = tail;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// A string with its quotes; true when it holds escapes. Bytes above ASCII are not looked at.
    #[inline]
    fn string(&mut self) -> Result<bool, Malformed> {
        let [b'"', body @ ..] = self.rest else {
            return Err(Malformed);
        };
        self.rest = body;
        let mut escaped = false;
        loop {
            self.advance(plain_run(self.rest));
            match self.rest {
                [b'"', tail @ ..] => {
                    self.rest = tail;
                    return Ok(escaped);
                }
                [b'\\', b'u', a, b, c, d, tail @ ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                    self.rest = tail;
                }
                [b'\\', b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"', tail @ ..] => self.rest = tail,
                _ => return Err(Malformed),
            }
            escaped = true;
        }
    }
}
