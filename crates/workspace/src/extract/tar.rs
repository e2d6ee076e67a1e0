//! Reads a tar archive entry by entry: ustar, pax and GNU long names. Memory is bounded whatever the
//! headers claim. Sparse files are not understood and come out with a type of their own.

use super::stream::{StreamError, Unzip};

const BLOCK: usize = 512;

/// Most bytes of an extended header: longer names cannot be used anyway.
const MAX_EXTENDED: u64 = 1 << 20;

/// Entry types, as written in the header.
pub(super) const REGULAR: u8 = b'0';
pub(super) const DIRECTORY: u8 = b'5';
const REGULAR_OLD: u8 = 0;
const SPARSE: u8 = b'S';
const LONG_NAME: u8 = b'L';
const LONG_LINK: u8 = b'K';
const PAX: u8 = b'x';

/// Hard link to fifo: these have no content, whatever size they state.
const CONTENTLESS: std::ops::RangeInclusive<u8> = b'1'..=b'6';

pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: u8,
    /// Bytes of content that follow.
    pub(super) size: u64,
}

/// What the headers before an entry say about it.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

pub(super) struct Tar {
    input: Unzip,
    /// Content of the current entry not read yet.
    left: u64,
    /// Fill bytes behind it.
    padding: u64,
}

impl Tar {
    pub(super) fn new(input: Unzip) -> Self {
        Tar { input, left: 0, padding: 0 }
    }

    /// The next entry; `None` at the end of the archive.
    pub(super) fn next_entry(&mut self) -> Result<Option<Entry>, StreamError> {
        let mut extended = Extended::default();
        loop {
            self.skip_content()?;
            let Some(block) = self.header_block()? else {
                return Ok(None);
            };
            let header = Header(&block);
            header.check()?;
            let kind = header.kind();
            match kind {
                PAX => {
                    self.start_content(header.size()?);
                    let records = self.extended()?;
                    extended.apply_pax(&records)?;
                }
                LONG_NAME | LONG_LINK if header.is_gnu() => {
                    self.start_content(header.size()?);
                    let text = self.extended()?;
                    if kind == LONG_NAME {
                        extended.name = Some(until_nul(&text).to_vec());
                    }
                }
                _ => return self.entry(&header, extended).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header<'_>, extended: Extended) -> Result<Entry, StreamError> {
        let name = extended.name.unwrap_or_else(|| header.name());
        let mut kind = header.kind();
        if kind == REGULAR_OLD {
            // Archives from before there were types mark a directory by its name.
            kind = if name.ends_with(b"/") { DIRECTORY } else { REGULAR };
        }
        let mut size = match extended.size {
            Some(size) => size,
            None => header.size()?,
        };
        if CONTENTLESS.contains(&kind) {
            size = 0;
        }
        if extended.sparse {
            kind = SPARSE;
        }
        self.start_content(size);
        Ok(Entry { name, kind, size })
    }

    /// Reads on in the content of the current entry; 0 at its end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let wanted = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = match buffer.get_mut(..wanted) {
            Some(room) if !room.is_empty() => self.input.read(room)?,
            _ => return Ok(0),
        };
        if count == 0 {
            return Err(StreamError::CutShort);
        }
        self.left -= count as u64;
        Ok(count)
    }

    fn start_content(&mut self, size: u64) {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    fn skip_content(&mut self) -> Result<(), StreamError> {
        let mut scratch = [0; 8 * BLOCK];
        while self.read(&mut scratch)? > 0 {}
        let padding = usize::try_from(self.padding).unwrap_or(0);
        self.padding = 0;
        // The fill bytes behind the very last entry may be missing.
        self.input.fill(scratch.get_mut(..padding).unwrap_or_default())?;
        Ok(())
    }

    fn header_block(&mut self) -> Result<Option<[u8; BLOCK]>, StreamError> {
        let mut block = [0; BLOCK];
        for zeros in 0..2 {
            match self.input.fill(&mut block)? {
                0 => return Ok(None),
                BLOCK => {}
                _ => return Err(StreamError::CutShort),
            }
            match (zeros, block.iter().any(|&byte| byte != 0)) {
                (0, true) => return Ok(Some(block)),
                // Some programs read on here, others stop: what both see differs.
                (_, true) => return Err(StreamError::TarHeader),
                (_, false) => {}
            }
        }
        // Two blocks of zeros end an archive.
        Ok(None)
    }

    fn extended(&mut self) -> Result<Vec<u8>, StreamError> {
        if self.left > MAX_EXTENDED {
            return Err(StreamError::FieldTooLong);
        }
        let mut text = vec![0; usize::try_from(self.left).unwrap_or(0)];
        if self.input.fill(&mut text)? != text.len() {
            return Err(StreamError::CutShort);
        }
        self.left = 0;
        Ok(text)
    }
}

impl Extended {
    /// Records of the form `LENGTH KEY=VALUE\n`, the length counting all of it.
    fn apply_pax(&mut self, mut records: &[u8]) -> Result<(), StreamError> {
        while !records.is_empty() {
            let (record, rest) = split_record(records).ok_or(StreamError::TarHeader)?;
            records = rest;
            let equals = record.iter().position(|&byte| byte == b'=');
            let (key, value) = equals.and_then(|at| record.split_at_checked(at)).ok_or(StreamError::TarHeader)?;
            let value = value.get(1..).unwrap_or_default();
            match key {
                // An empty value takes back what an earlier record said.
                b"path" if value.contains(&0) => return Err(StreamError::TarHeader),
                b"path" => self.name = (!value.is_empty()).then(|| value.to_vec()),
                b"size" if value.is_empty() => self.size = None,
                b"size" => self.size = Some(decimal(value).ok_or(StreamError::TarHeader)?),
                _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
        }
        Ok(())
    }
}

fn split_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = records.iter().position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(records.get(..space)?)?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
    Some((body, rest))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    let value: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    u64::try_from(value).ok()
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// One header block.
struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn field(&self, start: usize, length: usize) -> &[u8] {
        self.0.get(start..start + length).unwrap_or_default()
    }

    /// The sum of all bytes, the field of the sum itself counted as blanks; some old programs added
    /// the bytes as signed numbers.
    fn check(&self) -> Result<(), StreamError> {
        let stated = octal(self.field(148, 8)).ok_or(StreamError::TarHeader)?;
        let mut unsigned = 0i64;
        let mut signed = 0i64;
        for (at, &byte) in self.0.iter().enumerate() {
            let byte = if (148..156).contains(&at) { b' ' } else { byte };
            unsigned += i64::from(byte);
            signed += i64::from(byte.cast_signed());
        }
        if stated == unsigned || stated == signed { Ok(()) } else { Err(StreamError::TarHeader) }
    }

    fn kind(&self) -> u8 {
        self.field(156, 1).first().copied().unwrap_or(0)
    }

    fn is_gnu(&self) -> bool {
        self.field(257, 8) == b"ustar  \0"
    }

    fn is_ustar(&self) -> bool {
        self.field(257, 6) == b"ustar\0"
    }

    fn name(&self) -> Vec<u8> {
        let name = until_nul(self.field(0, 100));
        let prefix = until_nul(self.field(345, 155));
        if self.is_ustar() && !prefix.is_empty() { [prefix, name].join(&b'/') } else { name.to_vec() }
    }

    fn size(&self) -> Result<u64, StreamError> {
        octal(self.field(124, 12)).and_then(|size| u64::try_from(size).ok()).ok_or(StreamError::TarHeader)
    }
}

/// A number in a header: octal digits, or binary when the top bit is set.
fn octal(field: &[u8]) -> Option<i64> {
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        // Negative numbers (the next bit) are of no use here.
        let top = i64::from(first & 0x3f);
        return (first & 0x40 == 0)
            .then(|| rest.iter().try_fold(top, |value, &byte| value.checked_mul(256)?.checked_add(i64::from(byte))))
            .flatten();
    }
    let trimmed: &[u8] = until_nul(field.trim_ascii_start());
    let digits = trimmed.trim_ascii();
    digits.iter().try_fold(0i64, |value, &digit| {
        let digit = char::from(digit).to_digit(8)?;
        value.checked_mul(8)?.checked_add(i64::from(digit))
    })
}
