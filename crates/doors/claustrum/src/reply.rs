//! The heads of replies, as clients match on them, and what a log shows of what they sent.

use ostler_door_rpc::{Form, Head};

use crate::gojson::{Raw, push_compact_id, push_string};

/// Escaping is part of the contract.
pub(crate) const FORM: Form = Form { text: push_string, ..Form::USUAL };
/// What a log line shows of a client's text.
const LOG_MAX: usize = 200;

/// Makes this the head of the answer to this id: without blanks between its parts, and null where there is none.
pub(crate) fn set_id(head: &mut Head, id: Option<Raw<'_>>) {
    let text = head.renew();
    match id {
        Some(raw) if std::str::from_utf8(raw.text()).is_ok() => push_compact_id(text, raw.text()),
        Some(raw) => push_compact_id(text, readable(raw.text()).as_bytes()),
        None => text.extend_from_slice(b"null"),
    }
}

/// Bytes that are no text, one replacement character for each, as in every other text that came in: the reply must be JSON.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// A client's text as a log may show it: short, and without a character that a terminal would obey.
pub(crate) fn for_log(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(LOG_MAX) {
        match letter.is_control() || ostler_door_rpc::is_hidden(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_no_text_is_answered_with_json() {
        let line = b"{\"id\":[\"a\xff\xfe\xe2\x80z\", 1]}";
        let envelope = crate::envelope::Envelope::read(line).unwrap();
        let mut head = Head::unknown(&FORM);
        set_id(&mut head, envelope.id);
        let reply = head.result(b"{}");
        let want = "{\"jsonrpc\":\"2.0\",\"id\":[\"a\u{fffd}\u{fffd}\u{fffd}\u{fffd}z\",1],\"result\":{}}\n";
        assert_eq!(String::from_utf8(reply).unwrap(), want);
    }

    #[test]
    fn what_a_log_shows_of_a_client_cannot_move_the_cursor() {
        assert_eq!(for_log("a\x1b[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\u{a}\\u{202e}");
        assert_eq!(for_log(&"x".repeat(500)).len(), 200);
    }
}
