//! What a watcher is told, written by hand: a frame is mostly base64, and a serialiser would copy it once more.

use std::io::Write;

use ostler_api::{Exit, Timestamp};
use ostler_door_rpc::{notify, push_base64};
use ostler_engine::{FrameHead, Kind, Missing};

use crate::words::Translate;

/// Bytes of output.
pub(crate) fn push_frame(watch: u64, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) {
    let stream = if head.kind == Kind::Stderr { "stderr" } else { "stdout" };
    let time = Timestamp::from_nanos(head.time_ns);
    let seq = head.seq;
    notify(out, "process.frame", |out| {
        // Writing to a vector cannot fail.
        let _ = write!(out, r#"{{"watch":{watch},"seq":{seq},"stream":"{stream}","time":"{time}","data":""#);
        push_base64(data, out);
        out.extend_from_slice(b"\"}");
    });
}

/// The end.
pub(crate) fn push_exit(watch: u64, head: &FrameHead, out: &mut Vec<u8>) {
    let exit = serde_json::to_string(&exit_of(head)).unwrap_or_default();
    let seq = head.seq;
    notify(out, "process.exit", |out| {
        let _ = write!(out, r#"{{"watch":{watch},"seq":{seq},"exit":{exit}}}"#);
    });
}

pub(crate) fn push_gap(watch: u64, first_seq: u64, missing: Missing, out: &mut Vec<u8>) {
    let missing = word(missing);
    notify(out, "process.gap", |out| {
        let _ = write!(out, r#"{{"watch":{watch},"first_seq":{first_seq},"missing":"{missing}"}}"#);
    });
}

/// Why something is missing, in the words of the protocol.
pub(crate) fn word(missing: Missing) -> &'static str {
    let missing: ostler_api::Missing = missing.translated();
    missing.as_str()
}

pub(crate) fn push_lost(watch: u64, message: &str, out: &mut Vec<u8>) {
    let message = serde_json::Value::from(message);
    notify(out, "process.lost", |out| {
        let _ = write!(out, r#"{{"watch":{watch},"message":{message}}}"#);
    });
}

fn exit_of(head: &FrameHead) -> Exit {
    let how = head.exit.unwrap_or(ostler_story::Exit::Unknown);
    Exit::new(how, Timestamp::from_nanos(head.time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::{Notification, Stream};

    fn head(kind: Kind) -> FrameHead {
        FrameHead {
            seq: 7,
            kind,
            time_ns: 1_500_000,
            from: 0,
            len: 2,
            exit: Some(ostler_story::Exit::Signal(9)),
            late: false,
        }
    }

    #[test]
    fn what_is_written_by_hand_reads_as_the_type_says() {
        let mut out = Vec::new();
        push_frame(3, &head(Kind::Stderr), b"hi", &mut out);
        let Notification::Frame(frame) = serde_json::from_slice(&out).unwrap() else { panic!() };
        assert_eq!((frame.watch, frame.seq, frame.stream, frame.data.as_str()), (3, 7, Stream::Stderr, "aGk="));
        assert_eq!(frame.time, Timestamp::from_micros(1500));
        out.clear();
        push_exit(3, &head(Kind::Exit), &mut out);
        let Notification::Exit(exited) = serde_json::from_slice(&out).unwrap() else { panic!() };
        assert_eq!((exited.exit.code, exited.exit.signal), (None, Some(9)));
        out.clear();
        push_lost(3, "a \"b\"", &mut out);
        assert!(matches!(serde_json::from_slice(&out).unwrap(), Notification::Lost(lost) if lost.message == "a \"b\""));
    }
}
