//! The envelope of a request and of its answer. What the words in it mean is decided elsewhere; an id is given back byte for
//! byte, whatever JSON it is.

use std::borrow::Cow;

use ostler_door_rpc::{Envelope, Form, Head, NotAMessage, RpcError};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Everybody is answered, and nobody is told which JSON-RPC this is.
const FORM: Form = Form { version: false, id_first: false, without_id: true, ..Form::USUAL };

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
    head: Head,
}

/// Why a body is no request: answered by HTTP alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotARequest {
    /// Not JSON.
    #[error("Failed to parse the request body as JSON: {0}")]
    Syntax(String),
    /// JSON of another shape.
    #[error("Failed to deserialize the JSON body into the target type: {0}")]
    Shape(String),
}

impl From<NotAMessage> for NotARequest {
    fn from(error: NotAMessage) -> Self {
        match error {
            NotAMessage::Syntax(why) => Self::Syntax(why),
            NotAMessage::Shape(why) => Self::Shape(why),
        }
    }
}

impl<'a> Request<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, NotARequest> {
        let given = |value: &&RawValue| value.get() != "null";
        let envelope = Envelope::read(body)?;
        let method = match envelope.method.filter(given) {
            None => None,
            Some(_) => {
                Some(envelope.method().ok_or_else(|| NotARequest::Shape("method: expected a string".to_owned()))?)
            }
        };
        // Blanks between the parts of an id are nobody's; line ends among them would break the one line.
        let one_line = |id: &RawValue| id.get().replace(['\n', '\r'], "");
        let id = envelope.id.filter(given).map(one_line);
        Ok(Self { method, params: envelope.params, head: Head::new(&FORM, id.as_deref().map(str::as_bytes)) })
    }

    /// The body of the answer, one line. `ok` stands beside the result: one client looks for it there when it asks for the
    /// health of a daemon that it has just started.
    pub(crate) fn answer(&self, result: Result<String, RpcError>, ok: bool) -> Vec<u8> {
        let mut body = Vec::new();
        self.head.answer(&mut body, |out| {
            out.extend_from_slice(result?.as_bytes());
            if ok {
                out.extend_from_slice(br#","ok":true"#);
            }
            Ok(())
        });
        body
    }

    /// Its parameters; anything but an object holds none.
    pub(crate) fn params(&self) -> Params {
        Params(self.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default())
    }
}

/// The members of `params`.
#[derive(Debug, Default)]
pub(crate) struct Params(Map<String, Value>);

impl Params {
    /// All of these must be strings. Which ones a method needs is told whole, as its clients know it.
    pub(crate) fn need<const N: usize>(&self, names: [&str; N]) -> Result<[&str; N], RpcError> {
        let mut found = [""; N];
        for (place, name) in found.iter_mut().zip(names) {
            *place = self.0.get(name).and_then(Value::as_str).ok_or_else(|| missing(&names))?;
        }
        Ok(found)
    }

    /// A string, or nothing where it is absent or null.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, RpcError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(RpcError::params(format!("Invalid param: {name} must be a string"))),
        }
    }

    /// Whether it is there at all, null included.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

pub(crate) fn missing(names: &[&str]) -> RpcError {
    let s = if names.len() == 1 { "" } else { "s" };
    RpcError::params(format!("Missing required param{s}: {}", names.join(", ")))
}

pub(crate) fn no_such_method(name: &str) -> RpcError {
    RpcError::method(format!("Method not found: {name}"))
}

/// Everything that is nobody's slip: no such session, a path that is not there.
pub(crate) fn failed(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(-32000, error.to_string())
}

pub(crate) fn no_session(id: &str) -> RpcError {
    failed(format!("Session not found: {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request<'_>, NotARequest> {
        Request::read(body.as_bytes())
    }

    fn answered(body: &str, result: Result<String, RpcError>, ok: bool) -> String {
        String::from_utf8(read(body).unwrap().answer(result, ok)).unwrap()
    }

    #[test]
    fn an_id_is_given_back_byte_for_byte_and_null_is_none() {
        for id in ["\"a\\u0041\"", "7", "1.50", "{ \"a\": [1] }", "true"] {
            let body = format!("{{\"method\":\"m\",\"id\":{id}}}");
            assert_eq!(answered(&body, Ok("1".to_owned()), false), format!("{{\"result\":1,\"id\":{id}}}"));
        }
        assert_eq!(answered("{\"method\":\"m\",\"id\":null}", Ok("1".to_owned()), false), "{\"result\":1}");
    }

    #[test]
    fn an_answer_is_one_line_also_when_the_id_is_not() {
        let body = "{\"method\":\"m\",\"id\":{\n\"a\":\r\n1}}";
        assert_eq!(answered(body, Ok("1".to_owned()), false), "{\"result\":1,\"id\":{\"a\":1}}");
    }

    #[test]
    fn what_is_no_json_and_what_is_another_shape_are_told_apart() {
        for body in ["", "{not json", "{\"method\":", "{\"method\":\"m\"} x"] {
            assert!(matches!(read(body), Err(NotARequest::Syntax(_))), "{body}");
        }
        for body in ["[1,2]", "\"str\"", "{\"method\":5}", "[\"health.check\"]", "7"] {
            assert!(matches!(read(body), Err(NotARequest::Shape(_))), "{body}");
        }
    }

    #[test]
    fn a_missing_method_is_a_request_all_the_same() {
        assert!(read("{}").unwrap().method.is_none());
        assert!(read("{\"method\":null,\"jsonrpc\":\"2.0\"}").unwrap().method.is_none());
    }

    #[test]
    fn parameters_that_are_missing_are_named_as_clients_know_it() {
        let params = read("{\"params\":{\"sessionId\":5,\"model\":null}}").unwrap().params();
        assert_eq!(params.need(["path"]).unwrap_err().message, "Missing required param: path");
        assert_eq!(params.need(["sessionId", "mode"]).unwrap_err().message, "Missing required params: sessionId, mode");
        assert_eq!(params.text("model"), Ok(None));
        assert!(params.has("model") && !params.has("mode"));
        assert_eq!(params.text("sessionId").unwrap_err().code, -32602);
        assert!(read("{\"params\":[1]}").unwrap().params().0.is_empty());
    }

    #[test]
    fn ok_stands_beside_a_result_only() {
        assert_eq!(answered("{}", Ok("{}".to_owned()), true), "{\"result\":{},\"ok\":true}");
        let error = answered("{}", Err(no_such_method("x\"")), true);
        assert_eq!(error, "{\"error\":{\"code\":-32601,\"message\":\"Method not found: x\\\"\"}}");
    }
}
