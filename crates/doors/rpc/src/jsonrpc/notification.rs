//! What is said without being asked, and what is asked of a client.

use serde::Serialize;

/// Appends a notification as a line of its own; `write` puts down its parameters. Nothing but appends: frames of streams are
/// written so, and many a second.
#[inline]
pub fn notify(out: &mut Vec<u8>, method: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":"#);
    write(out);
    out.extend_from_slice(b"}\n");
}

/// The same, for a client that is to answer to this id.
pub fn request(out: &mut Vec<u8>, method: &str, id: &str, write: impl FnOnce(&mut Vec<u8>)) {
    notify(out, method, |out| {
        write(out);
        out.extend_from_slice(br#","id":"#);
        // Into memory: nothing can fail.
        let _ = serde_json::to_writer(out, id);
    });
}

/// The same for parameters that have a type. What cannot be written leaves no trace: half a line would be taken for the
/// beginning of the next one.
pub fn notify_of(out: &mut Vec<u8>, method: &str, params: &impl Serialize) -> serde_json::Result<()> {
    let (mark, mut written) = (out.len(), Ok(()));
    notify(out, method, |out| written = serde_json::to_writer(out, params));
    if written.is_err() {
        out.truncate(mark);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_a_line_behind_those_before() {
        let mut out = b"before\n".to_vec();
        notify(&mut out, "a/b", |out| out.extend_from_slice(b"{}"));
        notify_of(&mut out, "c", &[1, 2]).unwrap();
        let want = "before\n{\"jsonrpc\":\"2.0\",\"method\":\"a/b\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"c\",\"params\":[1,2]}\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
        let mut out = Vec::new();
        request(&mut out, "d", "e\"", |out| out.extend_from_slice(b"{}"));
        let want = "{\"jsonrpc\":\"2.0\",\"method\":\"d\",\"params\":{},\"id\":\"e\\\"\"}\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn what_cannot_be_written_is_not_said_by_halves() {
        let mut out = b"before\n".to_vec();
        let keys_are_text = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(notify_of(&mut out, "c", &keys_are_text).is_err());
        assert_eq!(out, b"before\n");
    }
}
