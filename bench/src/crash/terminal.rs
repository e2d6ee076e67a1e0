//! The eighth child: on a terminal, which the claustrum protocol cannot ask for. It is hosted by the same daemon with
//! `ostler run -t -d` and followed through the native door, with the same blind resending of stdin and the same checks.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::hosted::{Hosted, Plan};
use crate::child::Kind;
use crate::instance::Instance;
use crate::wire::{Body, Failure, Frame, Identity};

/// The name it is found by.
const NAME: &str = "crash-terminal";

pub(crate) struct Terminal {
    pub(crate) hosted: Hosted,
    /// The native door's socket.
    pub(crate) socket: PathBuf,
}

/// What `ostler status --json` says, as far as it is needed.
#[derive(Deserialize)]
struct Status {
    instance: String,
    doors: Vec<Door>,
}

#[derive(Deserialize)]
struct Door {
    name: String,
    address: PathBuf,
}

/// Who a process is, in the words of the native door.
#[derive(Deserialize)]
struct About {
    id: String,
    pid: i32,
    started: Box<RawValue>,
}

impl Terminal {
    /// Hosts the child; nothing if this build of the product has no `run`.
    pub(crate) fn start(instance: &Instance, number: u8, seed: u64) -> Result<Option<Self>> {
        if !instance.command(&["run", "--help"]).output()?.status.success() {
            return Ok(None);
        }
        let status: Vec<Status> = serde_json::from_str(&output(instance, &["status", "--json"])?)?;
        let status = status.into_iter().next().context("`status` knows no instance")?;
        let native = status.doors.into_iter().find(|door| door.name == "native").context("no native door")?;
        let plan = Plan::new(instance, Kind::Terminal, number, seed)?;
        let tool = instance.tool().display().to_string();
        let mut words = vec!["run", "--json", "--instance", &status.instance, "-t", "-d", "--name", NAME, "--", &tool];
        words.extend(plan.arguments.iter().map(String::as_str));
        let about: About = serde_json::from_str(&output(instance, &words)?)?;
        let identity = about.identity();
        Ok(Some(Self { hosted: plan.into_hosted(about.id, identity), socket: native.address }))
    }
}

impl About {
    fn identity(&self) -> Identity {
        Identity { pid: self.pid, start_time: self.started.get().to_owned() }
    }
}

/// What a command of the product printed.
fn output(instance: &Instance, words: &[&str]) -> Result<String> {
    let told = instance.command(words).output()?;
    if !told.status.success() {
        bail!("`ostler {}`: {}", words.join(" "), String::from_utf8_lossy(&told.stderr));
    }
    Ok(String::from_utf8(told.stdout)?)
}

/// A line of the native door.
#[derive(Deserialize)]
struct Line<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Failure>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Data<'a> {
    seq: u64,
    stream: &'a str,
    data: &'a str,
}

#[derive(Deserialize)]
struct Exited {
    seq: u64,
    exit: Exit,
}

#[derive(Deserialize)]
struct Exit {
    code: Option<i64>,
}

#[derive(Deserialize)]
struct Attached {
    process: About,
}

/// A line, understood.
pub(crate) enum Incoming<'a> {
    Reply { id: u64, result: Result<&'a str, Failure> },
    Frame(Frame<'a>),
}

pub(crate) fn parse(line: &[u8]) -> Result<Incoming<'_>> {
    let parsed: Line<'_> = serde_json::from_slice(line)?;
    let params = parsed.params.map_or("null", RawValue::get);
    match (parsed.method, parsed.id, parsed.result, parsed.error) {
        (Some("process.frame"), None, None, None) => {
            let frame: Data<'_> = serde_json::from_str(params)?;
            let body = if frame.stream == "stderr" { Body::Stderr(frame.data) } else { Body::Stdout(frame.data) };
            Ok(Incoming::Frame(Frame { process: "", seq: frame.seq, body }))
        }
        (Some("process.exit"), None, None, None) => {
            let exited: Exited = serde_json::from_str(params)?;
            let code = exited.exit.code.context("ended by a signal or unseen")?;
            Ok(Incoming::Frame(Frame { process: "", seq: exited.seq, body: Body::Exit(code) }))
        }
        (None, Some(id), Some(result), None) => Ok(Incoming::Reply { id, result: Ok(result.get()) }),
        (None, Some(id), None, Some(failure)) => Ok(Incoming::Reply { id, result: Err(failure) }),
        _ => bail!("a line of no known shape"),
    }
}

/// Who the process is, in the reply to an attach.
pub(crate) fn identity(attached: &str) -> Result<Identity> {
    let attached: Attached = serde_json::from_str(attached)?;
    Ok(attached.process.identity())
}

/// One request of the native door, newline included.
pub(crate) fn request(id: u64, method: &str, params: &serde_json::Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_native_door_are_understood() {
        let line = br#"{"jsonrpc":"2.0","method":"process.frame","params":{"watch":1,"seq":3,"stream":"stdout","time":"x","data":"aGk="}}"#;
        let Ok(Incoming::Frame(frame)) = parse(line) else { panic!("not a frame") };
        assert_eq!((frame.seq, frame.body), (3, Body::Stdout("aGk=")));
        let line = br#"{"jsonrpc":"2.0","method":"process.exit","params":{"watch":1,"seq":4,"exit":{"code":47,"signal":null,"time":"x"}}}"#;
        let Ok(Incoming::Frame(frame)) = parse(line) else { panic!("not an exit") };
        assert_eq!(frame.body, Body::Exit(47));
        let Ok(Incoming::Reply { id: 2, result: Err(failure) }) =
            parse(br#"{"jsonrpc":"2.0","id":2,"error":{"code":4,"message":"gone"}}"#)
        else {
            panic!("not an error")
        };
        assert_eq!(failure.code, 4);
        assert!(parse(br#"{"jsonrpc":"2.0","method":"process.gap","params":{"watch":1,"first_seq":9}}"#).is_err());
    }
}
