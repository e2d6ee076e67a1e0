//! The unzipped bytes of an archive, with every way they can end badly told apart.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// One read from the compressed file.
const INPUT: usize = 64 << 10;

/// Why the bytes of an archive ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// There was nothing at all.
    #[error("the file is empty")]
    Empty,
    /// The archive stops in the middle.
    #[error("the archive is cut short")]
    CutShort,
    /// Not gzip.
    #[error("not a gzip header")]
    GzipHeader,
    /// The bytes were damaged after they were packed.
    #[error("the checksum does not match")]
    Checksum,
    /// The compressed data makes no sense.
    #[error("the compressed data is damaged")]
    Deflate,
    /// Unzipped, but not a tar header.
    #[error("not a tar header")]
    TarHeader,
    /// A name or other attribute of more than a megabyte.
    #[error("a header field is too long")]
    FieldTooLong,
    /// More bytes than any acceptable archive has.
    #[error("the archive unpacks to too much")]
    TooLarge,
    /// The file could not be read.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        // The decoder tells its errors apart by text only.
        match error.kind() {
            io::ErrorKind::UnexpectedEof => StreamError::CutShort,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if error.raw_os_error().is_none() => {
                let text = error.to_string();
                if text.contains("header") {
                    StreamError::GzipHeader
                } else if text.contains("checksum") {
                    StreamError::Checksum
                } else {
                    StreamError::Deflate
                }
            }
            _ => StreamError::Io(error),
        }
    }
}

pub(super) struct Unzip {
    decoder: MultiGzDecoder<BufReader<File>>,
    /// Bytes that may still come out.
    budget: u64,
}

impl Unzip {
    /// Reads the gzip header. At most twice `limit` bytes will be unzipped: the headers and padding
    /// of files above half a kilobyte never outweigh their content.
    pub(super) fn new(file: File, limit: u64) -> Result<Self, StreamError> {
        let mut input = BufReader::with_capacity(INPUT, file);
        if input.fill_buf()?.is_empty() {
            return Err(StreamError::Empty);
        }
        let mut decoder = MultiGzDecoder::new(input);
        if decoder.header().is_none() {
            // The reason was kept for the first read.
            return Err(match decoder.read(&mut [0]) {
                Ok(_) => StreamError::GzipHeader,
                Err(error) => error.into(),
            });
        }
        Ok(Unzip { decoder, budget: limit.saturating_mul(2) })
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        loop {
            match self.decoder.read(buffer) {
                Ok(count) => {
                    self.budget = self.budget.checked_sub(count as u64).ok_or(StreamError::TooLarge)?;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fills the buffer as far as the stream reaches.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}
