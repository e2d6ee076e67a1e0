//! Stream frames. They are the bulk of what the door writes, so each is put down in one pass without a serialiser.

use ostler_door_rpc::push_base64;
use ostler_engine::{FrameHead, Kind};
use ostler_story::Exit;

use crate::gojson::{push_int, push_string};

/// Everything of a frame that does not change from frame to frame of one process.
#[derive(Debug, Clone)]
pub(crate) struct Tag(Vec<u8>);

impl Tag {
    pub(crate) fn new(process_id: &str) -> Self {
        let mut prefix = br#"{"type":"stream","processId":"#.to_vec();
        push_string(&mut prefix, process_id);
        prefix.extend_from_slice(br#","stream":""#);
        Self(prefix)
    }
}

/// Appends one frame; `false` after the exit frame, which is the last that a client sees.
pub(crate) fn write(tag: &Tag, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) -> bool {
    // Base64 grows by a third; the rest of a frame is short.
    out.reserve(tag.0.len() + data.len() / 3 * 4 + 80);
    out.extend_from_slice(&tag.0);
    let seq = i64::try_from(head.seq).unwrap_or(i64::MAX);
    match head.kind {
        Kind::Exit => {
            out.extend_from_slice(br#"exit","seq":"#);
            push_int(out, seq);
            out.extend_from_slice(br#","exitCode":"#);
            push_int(out, i64::from(head.exit.map_or(BY_SIGNAL, exit_code)));
            out.extend_from_slice(b"}\n");
            false
        }
        kind => {
            out.extend_from_slice(if kind == Kind::Stdout { b"stdout" } else { b"stderr" });
            out.extend_from_slice(br#"","seq":"#);
            push_int(out, seq);
            out.extend_from_slice(br#","data":""#);
            push_base64(data, out);
            out.extend_from_slice(b"\"}\n");
            true
        }
    }
}

/// What clients are told instead of a signal's number.
const BY_SIGNAL: i32 = -1;

/// The exit code that clients see.
pub(crate) fn exit_code(exit: Exit) -> i32 {
    exit.code().unwrap_or(BY_SIGNAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind, exit: Option<Exit>) -> FrameHead {
        FrameHead { seq: 7, kind, time_ns: 0, from: 0, len: 0, exit, late: false }
    }

    #[test]
    fn frames_have_exactly_the_documented_fields() {
        let tag = Tag::new("a<b");
        let mut out = Vec::new();
        assert!(write(&tag, &head(Kind::Stdout, None), b"hi", &mut out));
        assert!(!write(&tag, &head(Kind::Exit, Some(Exit::Signal(9))), b"", &mut out));
        let want = concat!(
            r#"{"type":"stream","processId":"a\u003cb","stream":"stdout","seq":7,"data":"aGk="}"#,
            "\n",
            r#"{"type":"stream","processId":"a\u003cb","stream":"exit","seq":7,"exitCode":-1}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
