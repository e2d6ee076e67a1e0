//! The envelope of a request and of its answer. What the words in it mean is decided elsewhere; an id is given back byte for
//! byte, whatever JSON it is.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The request has no method.
const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
const NO_METHOD: i32 = -32601;
/// A parameter is missing, or not what it must be.
const INVALID_PARAMS: i32 = -32602;
/// Everything else: no such session, a path that is not there.
const FAILED: i32 = -32000;

/// A request as it came.
#[derive(Debug, Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
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

/// What is answered instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

/// Whoever worked on it ended in the middle, which is a fault of ours.
impl From<tokio::task::JoinError> for RpcError {
    fn from(lost: tokio::task::JoinError) -> Self {
        Self::failed(lost.to_string())
    }
}

impl<'a> Request<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, NotARequest> {
        let request: Self = serde_json::from_slice(body).map_err(|error| match error.is_data() {
            true => NotARequest::Shape(error.to_string()),
            false => NotARequest::Syntax(error.to_string()),
        })?;
        // A list of the right length would pass for an object.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            Ok(request)
        } else {
            Err(NotARequest::Shape("expected an object".to_owned()))
        }
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

impl RpcError {
    pub(crate) fn no_method_given() -> Self {
        Self { code: INVALID_REQUEST, message: "Invalid request: missing method".to_owned() }
    }

    pub(crate) fn no_such_method(name: &str) -> Self {
        Self { code: NO_METHOD, message: format!("Method not found: {name}") }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    pub(crate) fn no_session(id: &str) -> Self {
        Self::failed(format!("Session not found: {id}"))
    }
}

/// The body of an answer, one line. `ok` stands beside the result: one client looks for it there when it asks for the
/// health of a daemon that it has just started.
pub(crate) fn answer(result: &Result<String, RpcError>, ok: bool, id: Option<&RawValue>) -> String {
    let mut body = match result {
        Ok(result) => format!("{{\"result\":{result}"),
        Err(error) => {
            let message = Value::from(error.message.as_str());
            format!("{{\"error\":{{\"code\":{},\"message\":{message}}}", error.code)
        }
    };
    if ok && result.is_ok() {
        body.push_str(",\"ok\":true");
    }
    if let Some(id) = id {
        body.push_str(",\"id\":");
        // Blanks between the parts of an id are nobody's; line ends among them would break the one line.
        body.extend(id.get().chars().filter(|c| !matches!(c, '\n' | '\r')));
    }
    body.push('}');
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request<'_>, NotARequest> {
        Request::read(body.as_bytes())
    }

    #[test]
    fn an_id_is_given_back_byte_for_byte_and_null_is_none() {
        for id in ["\"a\\u0041\"", "7", "1.50", "{ \"a\": [1] }", "true"] {
            let body = format!("{{\"method\":\"m\",\"id\":{id}}}");
            let request = read(&body).unwrap();
            assert_eq!(answer(&Ok("1".to_owned()), false, request.id), format!("{{\"result\":1,\"id\":{id}}}"));
        }
        assert!(read("{\"method\":\"m\",\"id\":null}").unwrap().id.is_none());
    }

    #[test]
    fn an_answer_is_one_line_also_when_the_id_is_not() {
        let request = read("{\"method\":\"m\",\"id\":{\n\"a\":\r\n1}}").unwrap();
        assert_eq!(answer(&Ok("1".to_owned()), false, request.id), "{\"result\":1,\"id\":{\"a\":1}}");
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
        assert_eq!(params.text("sessionId").unwrap_err().code, INVALID_PARAMS);
        assert!(read("{\"params\":[1]}").unwrap().params().0.is_empty());
    }

    #[test]
    fn ok_stands_beside_a_result_only() {
        assert_eq!(answer(&Ok("{}".to_owned()), true, None), "{\"result\":{},\"ok\":true}");
        let error = answer(&Err(RpcError::no_such_method("x\"")), true, None);
        assert_eq!(error, "{\"error\":{\"code\":-32601,\"message\":\"Method not found: x\\\"\"}}");
    }
}
