//! `file_content`, `status_response` and `error`: answers once more as events, for clients that want them so and name them in
//! `initialize`.

use ostler_api::Timestamp;
use serde_json::{Map, Value, json};

use crate::connection::Connection;
use crate::method::Outcome;
use crate::notify;

/// The event that repeats the answers of a method.
fn kind(method: &str) -> Option<&'static str> {
    match method {
        "file/get" | "workspace/file/get" => Some("file_content"),
        "status/get" => Some("status_response"),
        _ => None,
    }
}

/// An id as the document has it: a text.
fn request_id(id: &[u8]) -> String {
    serde_json::from_slice(id).unwrap_or_else(|_| String::from_utf8_lossy(id).into_owned())
}

/// Appends the event, if this client wants it.
pub(crate) fn push(connection: &Connection, method: &str, id: Option<&[u8]>, outcome: &Outcome, out: &mut Vec<u8>) {
    let event = match outcome {
        Ok(_) => kind(method),
        Err(_) => Some("error"),
    };
    let Some((event, id)) = event.zip(id).filter(|(event, _)| connection.wanted().event(event)) else { return };
    let request = request_id(id);
    let mut payload: Map<String, Value> = match outcome {
        Ok(result) => serde_json::from_str(result.get()).unwrap_or_default(),
        Err(error) => {
            let mut rest = error.to_rest();
            let details = rest.as_object_mut().map(|details| {
                details.retain(|name, _| name != "error" && name != "code");
                std::mem::take(details)
            });
            let said = json!({"code": error.code.word(), "message": error.message, "details": details});
            if let Value::Object(said) = said { said } else { Map::new() }
        }
    };
    payload.insert("request_id".into(), request.into());
    if event == "file_content" {
        payload.insert("error".into(), Value::Null);
    }
    notify::push(out, event, Timestamp::now(), &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_text_whatever_it_was() {
        let ids = [&b"\"req-1\""[..], b"7", b"1.50"].map(request_id);
        assert_eq!(ids, ["req-1", "7", "1.50"]);
    }

    #[test]
    fn only_what_the_document_names_is_said_twice() {
        assert_eq!(
            (kind("file/get"), kind("status/get"), kind("git/status")),
            (Some("file_content"), Some("status_response"), None)
        );
    }
}
