//! The lines of the claustrum protocol as a client writes and reads them.
//! Written for these programs alone: it shares no code with the product, so that one mistake cannot hide another.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One request line, newline included.
pub(crate) fn request(id: u64, method: &str, params: Option<&serde_json::Value>, token: &str) -> String {
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}""#);
    if let Some(params) = params {
        // Writing to a String cannot fail.
        let _ = write!(line, r#","params":{params}"#);
    }
    let _ = writeln!(line, r#","auth":"{token}"}}"#);
    line
}

/// A stdin request: built by hand, because its payload is most of what a feeder writes.
pub(crate) fn stdin_request(id: u64, process: &str, offset: u64, data: &[u8], token: &str) -> String {
    let mut line = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"process.stdin","params":{{"id":"{process}","offset":{offset},"data":""#
    );
    STANDARD.encode_string(data, &mut line);
    let _ = writeln!(line, r#""}},"auth":"{token}"}}"#);
    line
}

/// One line from the daemon.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Reply { id: u64, result: Result<&'a str, Failure> },
    Frame(Frame<'a>),
}

/// An error reply.
#[derive(Debug, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// One stream notification; its data is still base64 text.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) process: &'a str,
    pub(crate) seq: u64,
    pub(crate) body: Body<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Stdout(&'a str),
    Stderr(&'a str),
    Exit(i64),
}

#[derive(Deserialize)]
struct Line<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Failure>,
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    #[serde(rename = "processId")]
    process: Option<&'a str>,
    stream: Option<&'a str>,
    seq: Option<u64>,
    data: Option<&'a str>,
    #[serde(rename = "exitCode")]
    exit_code: Option<i64>,
}

pub(crate) fn parse(line: &[u8]) -> Result<Incoming<'_>> {
    let parsed: Line<'_> = serde_json::from_slice(line)?;
    if parsed.kind == Some("stream") {
        let body = match (parsed.stream, parsed.data, parsed.exit_code) {
            (Some("stdout"), Some(data), None) => Body::Stdout(data),
            (Some("stderr"), Some(data), None) => Body::Stderr(data),
            (Some("exit"), None, Some(code)) => Body::Exit(code),
            _ => bail!("a stream frame of no known shape"),
        };
        let process = parsed.process.context("a stream frame without processId")?;
        return Ok(Incoming::Frame(Frame { process, seq: parsed.seq.context("a stream frame without seq")?, body }));
    }
    let id = parsed.id.context("neither a reply with an id nor a stream frame")?;
    match (parsed.result, parsed.error) {
        (Some(result), None) => Ok(Incoming::Reply { id, result: Ok(result.get()) }),
        (None, Some(failure)) => Ok(Incoming::Reply { id, result: Err(failure) }),
        _ => bail!("a reply must have either a result or an error"),
    }
}

/// The result of process.reattach and, in its last two fields, of process.spawn.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Attached {
    #[serde(default)]
    pub(crate) found: bool,
    #[serde(default)]
    pub(crate) running: bool,
    #[serde(rename = "lastSeq", default)]
    pub(crate) last_seq: u64,
    #[serde(rename = "stdinApplied", default)]
    pub(crate) stdin_applied: u64,
    pub(crate) pid: Option<i32>,
    /// Kept as text: the token must come back letter for letter.
    #[serde(rename = "startTime")]
    pub(crate) start_time: Option<Box<RawValue>>,
}

impl Attached {
    /// Who the process is: unchanged for its whole life.
    pub(crate) fn identity(&self) -> Option<Identity> {
        Some(Identity { pid: self.pid?, start_time: self.start_time.as_ref()?.get().to_owned() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    pub(crate) start_time: String,
}

/// The result of process.stdin.
#[derive(Debug, Deserialize)]
pub(crate) struct Applied {
    pub(crate) applied: u64,
    #[serde(default)]
    pub(crate) duplicate: bool,
}

/// Decodes a frame's data into `out`, replacing what was there.
pub(crate) fn decode(data: &str, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    STANDARD.decode_vec(data, out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_one_line_of_valid_json() {
        let params = serde_json::json!({"id": "a", "fromSeq": 3});
        for line in [
            request(1, "server.ping", None, "t"),
            request(2, "process.reattach", Some(&params), "t"),
            stdin_request(3, "a", 10, b"hello", "t"),
        ] {
            assert_eq!(line.matches('\n').count(), 1);
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["auth"], "t");
        }
    }

    #[test]
    fn every_kind_of_line_is_understood() {
        let frame = br#"{"type":"stream","processId":"p","stream":"stdout","seq":4,"data":"aGk="}"#;
        let Incoming::Frame(frame) = parse(frame).unwrap() else { panic!("not a frame") };
        assert_eq!((frame.process, frame.seq, frame.body), ("p", 4, Body::Stdout("aGk=")));
        let exit = br#"{"type":"stream","processId":"p","stream":"exit","seq":5,"exitCode":0}"#;
        let Incoming::Frame(exit) = parse(exit).unwrap() else { panic!("not a frame") };
        assert_eq!(exit.body, Body::Exit(0));
        let reply = br#"{"jsonrpc":"2.0","id":1,"result":{"found":true,"pid":5,"startTime":1794727592.369972}}"#;
        let Incoming::Reply { id: 1, result: Ok(result) } = parse(reply).unwrap() else { panic!("not a reply") };
        let attached: Attached = serde_json::from_str(result).unwrap();
        assert_eq!(attached.identity().unwrap().start_time, "1794727592.369972");
        let error = br#"{"jsonrpc":"2.0","id":2,"error":{"code":-32003,"message":"gap"}}"#;
        let Incoming::Reply { result: Err(failure), .. } = parse(error).unwrap() else { panic!("not an error") };
        assert_eq!(failure.code, -32003);
    }

    #[test]
    fn a_frame_of_a_wrong_shape_is_an_error() {
        for line in [
            r#"{"type":"stream","processId":"p","stream":"exit","seq":5,"exitCode":0,"data":""}"#,
            r#"{"type":"stream","processId":"p","stream":"stdout","data":"aGk="}"#,
            r#"{"type":"stream","processId":"p","stream":"other","seq":5,"data":"aGk="}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            "",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
