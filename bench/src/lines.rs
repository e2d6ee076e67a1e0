//! Reads a stream of frames as fast as lines can be told apart, and counts what it carries.
//! The same reader stands behind the product and behind its raw limit, so that it cancels out.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// A few of the largest frames.
const BUFFER: usize = 256 << 10;

/// No row is silent for longer than this unless it is hung.
const SILENCE: Duration = Duration::from_secs(60);

/// A frame's fields before its data are shorter than this.
const HEAD: usize = 256;

pub(crate) struct Lines {
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
    /// Decoded bytes carried by the frames so far.
    pub(crate) bytes: u64,
}

/// What a line was, as far as a counting reader cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Data,
    Exit,
    Reply,
}

fn find(line: &[u8], needle: &[u8]) -> Option<usize> {
    let head = line.get(..HEAD.min(line.len()))?;
    head.windows(needle.len()).position(|window| window == needle)
}

/// Bytes that a base64 text of this length stands for.
fn decoded(text: &[u8]) -> u64 {
    let padding = text.iter().rev().take(2).filter(|byte| **byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding) as u64
}

fn classify(line: &[u8]) -> (Seen, u64) {
    const DATA: &[u8] = br#""data":""#;
    if find(line, br#""type":"stream""#).is_none() {
        return (Seen::Reply, 0);
    }
    let Some(at) = find(line, DATA) else { return (Seen::Exit, 0) };
    let text = line.get(at + DATA.len()..).unwrap_or_default();
    (Seen::Data, decoded(text.strip_suffix(b"\"}").unwrap_or_default()))
}

impl Lines {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(Self { reader: BufReader::with_capacity(BUFFER, stream), line: Vec::new(), bytes: 0 })
    }

    pub(crate) fn next(&mut self) -> Result<Seen> {
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line);
        read.with_context(|| format!("nothing for {SILENCE:?} after {} bytes", self.bytes))?;
        let Some(line) = self.line.strip_suffix(b"\n") else {
            bail!("the connection ended after {} bytes", self.bytes);
        };
        let (seen, bytes) = classify(line);
        self.bytes += bytes;
        Ok(seen)
    }

    /// The text of the line that `next` just saw.
    pub(crate) fn text(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or_default()
    }

    /// Reads until a line of this kind came.
    pub(crate) fn until(&mut self, wanted: Seen) -> Result<()> {
        while self.next()? != wanted {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn frames_replies_and_exits_are_told_apart_and_counted() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        writer
            .write_all(
                concat!(
                    r#"{"jsonrpc":"2.0","id":1,"result":{"success":true}}"#,
                    "\n",
                    r#"{"type":"stream","processId":"p","stream":"stdout","seq":1,"data":"aGk="}"#,
                    "\n",
                    r#"{"type":"stream","processId":"p","stream":"stderr","seq":2,"data":"YWJj"}"#,
                    "\n",
                    r#"{"type":"stream","processId":"p","stream":"exit","seq":3,"exitCode":0}"#,
                    "\n",
                )
                .as_bytes(),
            )
            .unwrap();
        drop(writer);
        let mut lines = Lines::new(reader).unwrap();
        let seen: Vec<Seen> = (0..4).map(|_| lines.next().unwrap()).collect();
        assert_eq!(seen, [Seen::Reply, Seen::Data, Seen::Data, Seen::Exit]);
        assert_eq!(lines.bytes, 5);
        assert!(lines.next().is_err(), "an end in the middle is an error");
    }
}
