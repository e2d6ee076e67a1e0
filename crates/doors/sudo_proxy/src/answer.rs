//! Answers on the wire. Members come in one order and are absent where they say nothing; output is encoded while it is
//! copied, so that a large answer costs no memory.

use std::io::{self, Write};

use ostler_door_rpc::push_base64;
use serde::Serialize;

/// A multiple of three, so that pieces of base64 join without padding.
const PIECE: usize = 24 * 1024;

/// An answer without output.
#[derive(Debug, Serialize)]
struct Short<'a> {
    id: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    version: &'a str,
}

/// Who is answered, and by which version.
#[derive(Debug, Clone)]
pub(crate) struct Responder<'a> {
    pub(crate) id: &'a str,
    pub(crate) version: &'a str,
}

impl Responder<'_> {
    pub(crate) fn error(&self, message: &str) -> Vec<u8> {
        self.short("error", None, Some(message))
    }

    pub(crate) fn denied(&self) -> Vec<u8> {
        self.short("denied", None, None)
    }

    pub(crate) fn timeout(&self) -> Vec<u8> {
        self.short("timeout", None, None)
    }

    /// A control action was taken.
    pub(crate) fn done(&self, message: Option<&str>) -> Vec<u8> {
        self.short("ok", Some(""), message)
    }

    fn short(&self, status: &str, stdout: Option<&str>, message: Option<&str>) -> Vec<u8> {
        let short = Short { id: self.id, status, stdout, message, version: self.version };
        // A struct of texts always serialises.
        let mut line = serde_json::to_vec(&short).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// A command ran: `output` writes what each stream holds.
    pub(crate) fn ran(&self, ran: &Ran, output: &mut impl Output, out: &mut dyn Write) -> io::Result<()> {
        write!(out, r#"{{"id":{},"status":"ok","stages":["#, serde_json::to_string(self.id)?)?;
        for (number, (code, truncated)) in ran.stages.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(out, r#"{comma}{{"exit_code":{code},"stderr":""#)?;
            encode(out, |to| output.stderr(number, to))?;
            out.write_all(if *truncated { br#"","stderr_truncated":true}"# } else { br#""}"# })?;
        }
        out.write_all(br#"],"stdout":""#)?;
        encode(out, |to| output.stdout(to))?;
        out.write_all(if ran.stdout_truncated { br#"","stdout_truncated":true"# } else { br#"""# })?;
        writeln!(out, r#","version":{}}}"#, serde_json::to_string(self.version)?)?;
        out.flush()
    }
}

/// How each stage ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Exit code, and whether more was written to stderr than is kept.
    pub(crate) stages: Vec<(i32, bool)>,
    pub(crate) stdout_truncated: bool,
}

/// Where the bytes of an answer come from.
pub(crate) trait Output {
    /// Writes one stage's stderr.
    fn stderr(&mut self, stage: usize, to: &mut dyn Write) -> io::Result<()>;
    /// Writes the last stage's stdout.
    fn stdout(&mut self, to: &mut dyn Write) -> io::Result<()>;
}

/// Hands `copy` a place whose bytes arrive in `out` as base64.
fn encode(out: &mut dyn Write, copy: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut encoder = Base64 { out, waiting: Vec::with_capacity(PIECE), text: Vec::new() };
    copy(&mut encoder)?;
    encoder.pass_on()
}

/// Encodes whole pieces and keeps what does not make one yet.
struct Base64<'a> {
    out: &'a mut dyn Write,
    waiting: Vec<u8>,
    text: Vec<u8>,
}

impl Base64<'_> {
    fn pass_on(&mut self) -> io::Result<()> {
        self.text.clear();
        push_base64(&self.waiting, &mut self.text);
        self.waiting.clear();
        self.out.write_all(&self.text)
    }
}

impl Write for Base64<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE - self.waiting.len();
        let taken = self.waiting.write(bytes.get(..room.min(bytes.len())).unwrap_or_default())?;
        if self.waiting.len() == PIECE {
            self.pass_on()?;
        }
        Ok(taken)
    }

    /// What does not make a whole piece must wait for the next bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Responder<'_> = Responder { id: "5\"e", version: "1.2.0" };

    fn text(line: Vec<u8>) -> String {
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn short_answers_hold_only_what_they_say() {
        assert_eq!(text(TO.denied()), "{\"id\":\"5\\\"e\",\"status\":\"denied\",\"version\":\"1.2.0\"}\n");
        assert_eq!(text(TO.timeout()), "{\"id\":\"5\\\"e\",\"status\":\"timeout\",\"version\":\"1.2.0\"}\n");
        let error = "{\"id\":\"5\\\"e\",\"status\":\"error\",\"message\":\"no\",\"version\":\"1.2.0\"}\n";
        assert_eq!(text(TO.error("no")), error);
        let pong = "{\"id\":\"5\\\"e\",\"status\":\"ok\",\"stdout\":\"\",\"message\":\"pong\",\"version\":\"1.2.0\"}\n";
        assert_eq!(text(TO.done(Some("pong"))), pong);
    }

    /// Streams that come in odd pieces.
    struct Pieces(Vec<u8>, usize);

    impl Output for Pieces {
        fn stderr(&mut self, stage: usize, to: &mut dyn Write) -> io::Result<()> {
            to.write_all(format!("e{stage}").as_bytes())
        }

        fn stdout(&mut self, to: &mut dyn Write) -> io::Result<()> {
            self.0.chunks(self.1).try_for_each(|piece| to.write_all(piece))
        }
    }

    #[test]
    fn a_pipeline_has_one_entry_per_stage_and_flags_only_where_true() {
        let ran = Ran { stages: vec![(3, false), (-1, true)], stdout_truncated: true };
        let mut out = Vec::new();
        TO.ran(&ran, &mut Pieces(b"hi".to_vec(), 1), &mut out).unwrap();
        let expected = concat!(
            r#"{"id":"5\"e","status":"ok","stages":[{"exit_code":3,"stderr":"ZTA="},"#,
            r#"{"exit_code":-1,"stderr":"ZTE=","stderr_truncated":true}],"stdout":"aGk=","stdout_truncated":true,"#,
            r#""version":"1.2.0"}"#,
            "\n"
        );
        assert_eq!(text(out), expected);
    }

    #[test]
    fn pieces_of_any_size_make_one_text() {
        for (length, piece) in [(0, 1), (1, 1), (PIECE - 1, 7), (PIECE, 1000), (PIECE + 1, PIECE), (3 * PIECE + 2, 999)]
        {
            let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut out = Vec::new();
            let ran = Ran { stages: vec![(0, false)], stdout_truncated: false };
            TO.ran(&ran, &mut Pieces(data.clone(), piece), &mut out).unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let stdout = answer["stdout"].as_str().unwrap();
            assert_eq!(ostler_door_rpc::decode_base64(stdout.as_bytes()), Ok(data), "{length}/{piece}");
            assert!(answer.get("stdout_truncated").is_none());
        }
    }
}
