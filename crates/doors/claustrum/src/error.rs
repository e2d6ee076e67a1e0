//! What requests are refused with, where clients match on code and text.

use ostler_door_rpc::RpcError;

/// The line is not JSON of the expected shape. Its reply carries a null id.
pub(crate) fn parse() -> RpcError {
    RpcError::parse("Parse error")
}

/// The token is missing or wrong.
pub(crate) fn unauthorized() -> RpcError {
    RpcError::new(-32001, "Unauthorized: invalid or missing auth token")
}

/// `jsonrpc` is not "2.0".
pub(crate) fn version() -> RpcError {
    RpcError::invalid("Invalid JSON-RPC version")
}

/// The params are absent, no object, or a field has the wrong type.
pub(crate) fn invalid_params() -> RpcError {
    RpcError::params("Invalid params")
}

/// Input that would leave a hole in what the process has read.
pub(crate) fn stdin_gap() -> RpcError {
    RpcError::new(-32003, "stdin offset gap: offset ahead of applied bytes")
}

impl From<crate::gojson::Mistyped> for RpcError {
    fn from(_: crate::gojson::Mistyped) -> Self {
        invalid_params()
    }
}
