//! What a client is told when something cannot be done: a number and a word for it, in JSON-RPC as in REST.

use axum::http::StatusCode;
use ostler_door_rpc::RpcError;
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $code:ident = $number:literal $word:literal $status:ident;)*) => {
        /// Every way in which a request can fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $($(#[doc = $doc])* $code,)*
        }

        impl Code {
            /// All of them, for the description.
            pub(crate) const ALL: &[Self] = &[$(Self::$code),*];

            /// The number of JSON-RPC.
            pub(crate) fn number(self) -> i32 {
                match self {
                    $(Self::$code => $number,)*
                }
            }

            /// The word of the protocol.
            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Self::$code => $word,)*
                }
            }

            /// The status of HTTP.
            pub(crate) fn status(self) -> StatusCode {
                match self {
                    $(Self::$code => StatusCode::$status,)*
                }
            }
        }
    };
}

codes! {
    /// Not JSON.
    Parse = -32700 "INVALID_PAYLOAD" BAD_REQUEST;
    /// JSON, but no request.
    Request = -32600 "INVALID_PAYLOAD" BAD_REQUEST;
    /// No such method.
    Method = -32601 "INVALID_COMMAND" NOT_FOUND;
    /// Parameters that do not fit.
    Params = -32602 "INVALID_PAYLOAD" BAD_REQUEST;
    /// It is our own fault.
    Internal = -32603 "INTERNAL_ERROR" INTERNAL_SERVER_ERROR;
    /// The agent is at work.
    AgentRunning = -32001 "CLAUDE_ALREADY_RUNNING" CONFLICT;
    /// It is not.
    AgentNotRunning = -32002 "CLAUDE_NOT_RUNNING" CONFLICT;
    /// It did not do what was asked.
    Agent = -32003 "AGENT_ERROR" CONFLICT;
    /// It is not installed.
    AgentMissing = -32004 "AGENT_NOT_CONFIGURED" SERVICE_UNAVAILABLE;
    /// No such session.
    SessionNotFound = -32010 "SESSION_NOT_FOUND" NOT_FOUND;
    /// It is none that this can be done with.
    SessionInvalid = -32011 "SESSION_INVALID" BAD_REQUEST;
    /// No such file.
    FileNotFound = -32020 "FILE_NOT_FOUND" NOT_FOUND;
    /// It is larger than allowed.
    FileTooLarge = -32021 "FILE_TOO_LARGE" PAYLOAD_TOO_LARGE;
    /// It is not below the repository.
    PathTraversal = -32022 "PATH_TRAVERSAL" FORBIDDEN;
    /// It could not be read.
    FileUnreadable = -32023 "FILE_READ_ERROR" UNPROCESSABLE_ENTITY;
    /// No such folder.
    FolderNotFound = -32024 "FILE_NOT_FOUND" NOT_FOUND;
    /// Too much is asked; the answer says how long to wait.
    RateLimited = -32029 "RATE_LIMITED" TOO_MANY_REQUESTS;
    /// The folder is no repository.
    NotARepository = -32030 "GIT_ERROR" NOT_FOUND;
    /// Git refused.
    Git = -32031 "GIT_ERROR" UNPROCESSABLE_ENTITY;
    /// Git found a conflict.
    GitConflict = -32032 "GIT_ERROR" CONFLICT;
    /// The index is being made.
    IndexNotReady = -32040 "INDEX_NOT_READY" SERVICE_UNAVAILABLE;
    /// The search failed.
    Search = -32041 "SEARCH_ERROR" INTERNAL_SERVER_ERROR;
    /// The index could not be made anew.
    IndexRebuild = -32042 "INDEX_REBUILD_FAILED" INTERNAL_SERVER_ERROR;
    /// The device has no right to do this.
    Forbidden = -32050 "FORBIDDEN" FORBIDDEN;
    /// Nobody has said who they are.
    Unauthorized = -32051 "UNAUTHORIZED" UNAUTHORIZED;
    /// The client speaks another version.
    Version = -32052 "INCOMPATIBLE_VERSION" BAD_REQUEST;
    /// No such thing.
    NotFound = -32053 "NOT_FOUND" NOT_FOUND;
    /// It cannot be done now, because of another one.
    Conflict = -32054 "CONFLICT" CONFLICT;
    /// There is no room for it.
    Full = -32055 "STORAGE_FULL" INSUFFICIENT_STORAGE;
    /// It is of a kind that is not taken.
    MediaType = -32056 "UNSUPPORTED_MEDIA_TYPE" UNSUPPORTED_MEDIA_TYPE;
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Error {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// What else a program may want to know.
    details: Map<String, Value>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// Parameters that do not fit.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(Code::Params, message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, message.to_string())
    }

    /// The same, and one thing more.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// One of what else is said.
    pub(crate) fn detail(&self, name: &str) -> Option<&Value> {
        self.details.get(name)
    }

    /// As JSON-RPC has it.
    pub(crate) fn to_rpc(&self) -> RpcError {
        let mut data = self.details.clone();
        data.insert("code".into(), self.code.word().into());
        RpcError::new(self.code.number(), self.message.as_str()).with_data(Value::Object(data))
    }

    /// As REST has it.
    pub(crate) fn to_rest(&self) -> Value {
        let mut body = self.details.clone();
        body.insert("error".into(), self.message.clone().into());
        body.insert("code".into(), self.code.word().into());
        Value::Object(body)
    }
}

/// The disk, or another thing of the system's.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_has_its_number_and_its_word_in_both_forms() {
        let error = Error::new(Code::FileTooLarge, "too large").with("size", 7);
        let data = json!({ "size": 7, "code": "FILE_TOO_LARGE" });
        assert_eq!(error.to_rpc(), RpcError::new(-32021, "too large").with_data(data));
        assert_eq!(error.to_rest(), json!({ "size": 7, "error": "too large", "code": "FILE_TOO_LARGE" }));
        assert_eq!(error.code.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[test]
    fn no_number_stands_for_two_things() {
        let mut numbers: Vec<i32> = Code::ALL.iter().map(|code| code.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), Code::ALL.len());
    }
}
