//! What a request is refused with: the code and the exact text that clients match on.

/// An error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into() }
    }

    /// The line is not JSON of the expected shape. Its reply carries a null id.
    pub(crate) fn parse() -> Self {
        Self::new(-32700, "Parse error")
    }

    /// The token is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        Self::new(-32001, "Unauthorized: invalid or missing auth token")
    }

    /// `jsonrpc` is not "2.0".
    pub(crate) fn version() -> Self {
        Self::new(-32600, "Invalid JSON-RPC version")
    }

    /// There is no such method, namespace or method shape.
    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(-32601, message)
    }

    /// The params are well formed but cannot be served.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// The params are absent, no object, or a field has the wrong type.
    pub(crate) fn invalid_params() -> Self {
        Self::params("Invalid params")
    }

    /// The work itself failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// Input that would leave a hole in what the process has read.
    pub(crate) fn stdin_gap() -> Self {
        Self::new(-32003, "stdin offset gap: offset ahead of applied bytes")
    }
}

impl From<crate::gojson::Mistyped> for RpcError {
    fn from(_: crate::gojson::Mistyped) -> Self {
        Self::invalid_params()
    }
}
