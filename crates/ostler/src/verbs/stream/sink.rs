//! Where a watched process's output goes: its two streams to ours, as they are or made safe, with times, or as JSON.

use std::io::{self, IsTerminal, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_api::{Exited, Frame, Gap, Missing, Stream, Timestamp};

use crate::output::escape::{Filter, Policy, Unasked};

/// How output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verbs) enum Format {
    /// Byte for byte.
    Raw,
    /// Byte for byte into a file or pipe; made safe where a terminal shows it.
    Safe(Policy),
    /// One JSON object a frame.
    Json,
    /// Not at all: only its end is of interest.
    Nothing,
}

pub(in crate::verbs) struct Sink {
    format: Format,
    times: bool,
    terminal: bool,
    out: Lane,
    err: Lane,
    /// Where a terminal is drawn upon as it is.
    unasked: Unasked,
    /// The past of a terminal program, while that is played.
    past: Option<Filter>,
}

/// One of our two streams.
struct Lane {
    filter: Option<Filter>,
    at_line_start: bool,
    buffer: Vec<u8>,
}

impl Sink {
    pub(in crate::verbs) fn new(format: Format, times: bool) -> Self {
        let lane = |terminal: bool| Lane {
            filter: match format {
                Format::Safe(policy) if terminal => Some(Filter::new(policy)),
                _ => None,
            },
            at_line_start: true,
            buffer: Vec::new(),
        };
        let (out, err) = (lane(io::stdout().is_terminal()), lane(io::stderr().is_terminal()));
        Self { format, times, terminal: io::stdout().is_terminal(), out, err, unasked: Unasked::default(), past: None }
    }

    /// Writes one frame's bytes.
    pub(super) fn frame(&mut self, frame: &Frame, bytes: &[u8]) -> io::Result<()> {
        if self.format == Format::Json {
            let Frame { seq, stream, time, .. } = frame;
            let data = STANDARD.encode(bytes);
            return json_line(&serde_json::json!({"seq": seq, "stream": stream, "time": time, "data": data}));
        }
        if self.format == Format::Nothing {
            return Ok(());
        }
        if self.is_raw_terminal() && !self.times && frame.stream == Stream::Stdout {
            let mut shown = Vec::with_capacity(bytes.len());
            if let Some(mut past) = self.past.take() {
                past.finish(&mut shown);
            }
            self.unasked.feed(bytes, &mut shown);
            return write_all(&mut io::stdout().lock(), &shown);
        }
        let time = self.times.then_some(frame.time);
        match frame.stream {
            Stream::Stdout => write_all(&mut io::stdout().lock(), self.out.format(bytes, time)),
            Stream::Stderr => write_all(&mut io::stderr().lock(), self.err.format(bytes, time)),
        }
    }

    /// Writes one frame that lies in the past: whoever asked the terminal something in it has no use for an answer now.
    pub(super) fn past(&mut self, frame: &Frame, bytes: &[u8]) -> io::Result<()> {
        if !self.is_raw_terminal() || self.times || frame.stream != Stream::Stdout {
            return self.frame(frame, bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.past.get_or_insert_with(|| Filter::new(Policy::Replay)).feed(bytes, &mut shown);
        write_all(&mut io::stdout().lock(), &shown)
    }

    /// Bytes that are no frame: a repaint.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(&mut io::stdout().lock(), bytes)
    }

    /// Whether what a program writes reaches a terminal as it is.
    pub(super) fn is_raw_terminal(&self) -> bool {
        self.format == Format::Raw && self.terminal
    }

    /// Tells a program of what is missing; what to say to a person, who sits at a terminal of some kind.
    pub(super) fn gap(&mut self, gap: &Gap) -> io::Result<Option<String>> {
        let first_seq = gap.first_seq;
        if self.format == Format::Json {
            json_line(&serde_json::json!({"gap": true, "first_seq": first_seq, "missing": gap.missing}))?;
            return Ok(None);
        }
        // What is missing must not look as if it had never been.
        Ok(Some(match gap.missing {
            None | Some(Missing::LetGo) => format!("output before {first_seq} was deleted (retention)"),
            Some(Missing::Damaged) => format!("output before {first_seq} is missing: its index is damaged"),
            Some(Missing::Lost) => "output after this is lost: all of ostler was killed at once".to_owned(),
        }))
    }

    pub(super) fn exited(&mut self, exited: &Exited) -> io::Result<()> {
        if self.format == Format::Json {
            return json_line(&serde_json::json!({"seq": exited.seq, "exit": exited.exit}));
        }
        self.finish()
    }

    /// Writes what is unfinished.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let mut held = Vec::new();
        self.unasked.finish(&mut held);
        write_all(&mut io::stdout().lock(), &held)?;
        write_all(&mut io::stdout().lock(), self.out.finish())?;
        write_all(&mut io::stderr().lock(), self.err.finish())
    }
}

impl Lane {
    fn format<'a>(&'a mut self, bytes: &'a [u8], time: Option<Timestamp>) -> &'a [u8] {
        if self.filter.is_none() && time.is_none() {
            return bytes;
        }
        self.buffer.clear();
        let Some(time) = time else {
            if let Some(filter) = &mut self.filter {
                filter.feed(bytes, &mut self.buffer);
            }
            return &self.buffer;
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start {
                self.buffer.extend(format!("{time} ").bytes());
            }
            match &mut self.filter {
                Some(filter) => filter.feed(line, &mut self.buffer),
                None => self.buffer.extend_from_slice(line),
            }
            self.at_line_start = line.ends_with(b"\n");
        }
        &self.buffer
    }

    fn finish(&mut self) -> &[u8] {
        self.buffer.clear();
        if let Some(filter) = &mut self.filter {
            filter.finish(&mut self.buffer);
        }
        &self.buffer
    }
}

pub(super) fn decode(frame: &Frame) -> io::Result<Vec<u8>> {
    STANDARD.decode(&frame.data).map_err(|error| io::Error::other(format!("frame {}: {error}", frame.seq)))
}

fn json_line(value: &serde_json::Value) -> io::Result<()> {
    write_all(&mut io::stdout().lock(), format!("{value}\n").as_bytes())
}

fn write_all(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_the_time_of_the_frame_it_began_in() {
        let mut lane = Lane { filter: None, at_line_start: true, buffer: Vec::new() };
        let at = |micros| Some(Timestamp::from_micros(micros));
        assert_eq!(lane.format(b"a\nb", at(0)), b"1970-01-01T00:00:00.000000Z a\n1970-01-01T00:00:00.000000Z b");
        assert_eq!(lane.format(b"c\nd\n", at(1)), b"c\n1970-01-01T00:00:00.000001Z d\n");
    }
}
