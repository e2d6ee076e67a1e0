//! What went wrong, for a person (message, hint) and for a program (kind).

use serde::{Deserialize, Serialize};

use crate::schema::words;

words! {
    /// The class of a failure; it decides the command line's exit code.
    pub enum ErrorKind {
        /// The line was not JSON, or not a request.
        Invalid = "invalid",
        /// There is no such method.
        UnknownMethod = "unknown_method",
        /// The parameters do not fit the method.
        BadParams = "bad_params",
        /// It was tried and did not work.
        Failed = "failed",
        /// There is no such process, watch or file.
        NotFound = "not_found",
        /// The prefix or name fits more than one process.
        Ambiguous = "ambiguous",
        /// It could be done, but must not.
        Refused = "refused",
        /// The file is there, and the system does not execute it.
        NotExecutable = "not_executable",
        /// The stdin offset lies beyond what was accepted; `applied` says how much was.
        StdinGap = "stdin_gap",
        /// A defect of the daemon.
        Internal = "internal",
    }
}

impl ErrorKind {
    /// The JSON-RPC error number.
    pub const fn code(self) -> i32 {
        match self {
            Self::Invalid => -32600,
            Self::UnknownMethod => -32601,
            Self::BadParams => -32602,
            Self::Internal => -32603,
            Self::Failed => -32000,
            Self::NotFound => -32004,
            Self::Ambiguous => -32006,
            Self::Refused => -32005,
            Self::StdinGap => -32007,
            Self::NotExecutable => -32008,
        }
    }
}

/// The JSON-RPC error object.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

/// The machine-readable half of an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorData {
    pub kind: ErrorKind,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Bytes of stdin accepted so far, with `stdin_gap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
}

impl RpcError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let data = ErrorData { kind, hint: None, applied: None };
        Self { code: kind.code(), message: message.into(), data: Some(data) }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(data) = &mut self.data {
            data.hint = Some(hint.into());
        }
        self
    }

    /// A peer that speaks plain JSON-RPC sends only a number.
    pub fn kind(&self) -> ErrorKind {
        self.data.as_ref().map_or(ErrorKind::Failed, |data| data.kind)
    }
}
