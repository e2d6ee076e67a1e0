//! The two lines of the protocol as a client sees them: the request it writes and the answer it reads.
//!
//! Answers are read leniently (unknown members are ignored, optional ones may be absent); base64 is decoded on the way in,
//! so that a large stream is held once.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::stamp;

/// The release whose clients these stand in for; a prompt shows it.
pub const VERSION: &str = "1.2.0";

/// The most that a daemon reads of one request, its newline included.
pub const REQUEST_MAX: usize = 1 << 20;

/// What a daemon keeps of one stream.
const STREAM_MAX: u64 = 16 << 20;

/// Names, codes, punctuation and messages of an answer; generous, so that only nonsense is refused.
const FRAME_MAX: u64 = 1 << 20;

/// The longest answer that a request of so many stages can have: the final output, and what each stage said beside it.
pub const fn most_answer_bytes(stages: usize) -> u64 {
    let encoded = STREAM_MAX.div_ceil(3) * 4;
    (stages as u64 + 1).saturating_mul(encoded).saturating_add(FRAME_MAX)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    #[default]
    Exec,
    Stop,
    Ping,
}

impl Action {
    /// Requests to execute do not name it, as daemons that know no other action expect.
    fn is_exec(&self) -> bool {
        *self == Self::Exec
    }
}

/// One request, as it goes on the wire.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    pub id: String,
    pub host: String,
    pub session: String,
    pub time: String,
    pub pipeline: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "Action::is_exec")]
    pub action: Action,
    pub env: BTreeMap<String, String>,
    pub reason: String,
    pub privileged: bool,
    pub forward_agent: bool,
    pub version: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("request is {0} bytes long, and a daemon reads at most {REQUEST_MAX}")]
    TooLong(usize),
    #[error("serialize: {0}")]
    Json(#[from] serde_json::Error),
}

impl Request {
    /// Asks for this pipeline, as root; with a fresh id and the time of now.
    pub fn exec(session: &str, pipeline: Vec<Vec<String>>) -> io::Result<Self> {
        Ok(Self {
            id: stamp::fresh_id()?,
            host: String::new(),
            session: session.to_owned(),
            time: stamp::now_iso8601(),
            pipeline,
            action: Action::Exec,
            env: BTreeMap::new(),
            reason: String::new(),
            privileged: true,
            forward_agent: false,
            version: VERSION,
        })
    }

    /// A question to the daemon itself. It carries no pipeline, so that a daemon which knows no actions refuses it unasked.
    pub fn control(session: &str, host: &str, action: Action) -> io::Result<Self> {
        let request = Self::exec(session, Vec::new())?;
        Ok(Self { host: host.to_owned(), action, privileged: false, ..request })
    }

    /// The line with its newline.
    pub fn to_line(&self) -> Result<Vec<u8>, RequestError> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        if line.len() > REQUEST_MAX {
            return Err(RequestError::TooLong(line.len()));
        }
        Ok(line)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Denied,
    Timeout,
    Error,
}

/// What one stage of a pipeline left behind.
#[derive(Debug, Deserialize)]
pub struct Stage {
    pub exit_code: i32,
    #[serde(default, deserialize_with = "bytes")]
    pub stderr: Vec<u8>,
    #[serde(default)]
    pub stderr_truncated: bool,
}

/// A daemon's answer.
#[derive(Debug, Deserialize)]
pub struct Response {
    /// Of the request that it answers; empty when the daemon could not read one.
    #[serde(default)]
    pub id: String,
    pub status: Status,
    #[serde(default)]
    pub stages: Vec<Stage>,
    #[serde(default, deserialize_with = "bytes")]
    pub stdout: Vec<u8>,
    #[serde(default)]
    pub stdout_truncated: bool,
    #[serde(default)]
    pub message: Option<String>,
    /// Empty when the daemon is older than this member.
    #[serde(default)]
    pub version: String,
}

impl Response {
    pub fn parse(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }

    /// Whether it may be taken for the answer to `request`. Only a complaint may name no request.
    pub fn is_to(&self, request: &Request) -> bool {
        self.id == request.id || (self.id.is_empty() && self.status == Status::Error)
    }

    /// The last stage's; a death by signal is -1.
    pub fn exit_code(&self) -> i32 {
        self.stages.last().map_or(0, |stage| stage.exit_code)
    }

    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("unknown error")
    }

    pub fn version(&self) -> &str {
        if self.version.is_empty() { "unknown" } else { &self.version }
    }
}

/// A base64 string, or null, as the bytes it stands for.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Base64;

    impl Visitor<'_> for Base64 {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a base64 string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            STANDARD.decode(text).map_err(E::custom)
        }

        fn visit_unit<E: Error>(self) -> Result<Vec<u8>, E> {
            Ok(Vec::new())
        }
    }

    deserializer.deserialize_any(Base64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(request: &Request) -> serde_json::Value {
        serde_json::from_slice(&request.to_line().unwrap()).unwrap()
    }

    #[test]
    fn a_request_to_execute_names_no_action() {
        let request = Request::exec("me", vec![vec!["true".into()]]).unwrap();
        let wire = sent(&request);
        assert_eq!(wire.get("action"), None);
        assert_eq!(wire["privileged"], true);
        assert_eq!(wire["version"], VERSION);
        assert!(request.to_line().unwrap().ends_with(b"}\n"));
    }

    #[test]
    fn a_control_request_carries_an_empty_pipeline_and_no_privilege() {
        let wire = sent(&Request::control("me", "box", Action::Ping).unwrap());
        assert_eq!(
            (&wire["action"], &wire["pipeline"], &wire["privileged"], &wire["host"]),
            (&"ping".into(), &serde_json::json!([]), &false.into(), &"box".into())
        );
    }

    #[test]
    fn a_request_longer_than_a_daemon_reads_is_refused_here() {
        let mut request = Request::exec("me", vec![vec![String::new()]]).unwrap();
        let room = REQUEST_MAX - request.to_line().unwrap().len();
        request.pipeline = vec![vec!["x".repeat(room)]];
        assert_eq!(request.to_line().unwrap().len(), REQUEST_MAX);
        request.pipeline = vec![vec!["x".repeat(room + 1)]];
        assert!(matches!(request.to_line(), Err(RequestError::TooLong(n)) if n == REQUEST_MAX + 1));
    }

    #[test]
    fn answers_are_decoded_and_unknown_members_ignored() {
        let answer = Response::parse(
            br#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":"","new":1},{"exit_code":3,"stderr":"b29wcw==","stderr_truncated":true}],"stdout":"aGk\u003d","later":[]}"#,
        )
        .unwrap();
        assert_eq!((answer.exit_code(), answer.stdout.as_slice()), (3, &b"hi"[..]));
        assert_eq!((answer.stages[1].stderr.as_slice(), answer.stages[1].stderr_truncated), (&b"oops"[..], true));
        assert_eq!(answer.version(), "unknown");
    }

    #[test]
    fn a_denial_has_no_stages_and_no_output() {
        let answer = Response::parse(br#"{"id":"1","status":"denied","version":"9"}"#).unwrap();
        assert_eq!((answer.status, answer.exit_code(), answer.stdout.len()), (Status::Denied, 0, 0));
    }

    #[test]
    fn an_answer_to_another_request_is_none_to_ours() {
        let request = Request::exec("me", vec![vec!["true".into()]]).unwrap();
        let is_ours = |id: &str, status: &str| {
            let line = format!(r#"{{"id":"{id}","status":"{status}"}}"#);
            Response::parse(line.as_bytes()).unwrap().is_to(&request)
        };
        assert!(is_ours(&request.id, "ok") && is_ours(&request.id, "error"));
        assert!(is_ours("", "error"), "it could not read the request");
        assert!(
            !is_ours("", "ok") && !is_ours("", "denied") && !is_ours("another", "ok") && !is_ours("another", "error")
        );
    }

    #[test]
    fn damaged_base64_is_an_error_and_not_an_empty_stream() {
        assert!(Response::parse(br#"{"id":"1","status":"ok","stdout":"a"}"#).is_err());
    }

    #[test]
    fn two_full_streams_fit_into_the_longest_answer() {
        let encoded = 22_369_624;
        assert!(most_answer_bytes(1) > 2 * encoded + 1000);
        assert!(most_answer_bytes(1) < 3 * encoded);
    }
}
