//! What is answered instead of a result.

use serde_json::Value;

/// A code, words for a person, and whatever else a protocol tells programs.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// What clients tell errors apart by.
    pub code: i32,
    /// For people.
    pub message: String,
    /// For programs.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error of the door's own.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same, and what programs may want to know.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// It is no JSON.
    pub fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    /// It is JSON, and no request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// There is no such method.
    pub fn method(message: impl Into<String>) -> Self {
        Self::new(-32601, message)
    }

    /// Its parameters cannot be served.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// The work itself failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }
}

/// Whoever worked on it ended in the middle, which is a fault of ours.
impl From<tokio::task::JoinError> for RpcError {
    fn from(lost: tokio::task::JoinError) -> Self {
        Self::internal(lost.to_string())
    }
}
