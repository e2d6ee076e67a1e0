//! What clients of this protocol are told when something cannot be done.

use ostler_door_rpc::RpcError;

pub(crate) fn not_found(message: impl Into<String>) -> RpcError {
    RpcError::new(-32000, message)
}

pub(crate) fn too_many_sessions() -> RpcError {
    RpcError::new(-32001, "Session limit reached")
}

pub(crate) fn busy(why: impl std::fmt::Display) -> RpcError {
    RpcError::new(-32002, format!("Session busy: {why}"))
}

pub(crate) fn not_owned() -> RpcError {
    RpcError::new(-32003, "Caller does not own this session")
}

pub(crate) fn crowded(message: impl Into<String>) -> RpcError {
    RpcError::new(-32004, message)
}

pub(crate) fn not_initialised() -> RpcError {
    unknown("First call must be 'initialize'")
}

/// Nobody knows who calls.
pub(crate) fn unknown(message: impl Into<String>) -> RpcError {
    RpcError::new(-32010, message)
}

pub(crate) fn version(client: u64) -> RpcError {
    RpcError::new(-32011, format!("Protocol version mismatch: server={}, client={client}", crate::PROTOCOL))
}

pub(crate) fn forbidden(message: impl Into<String>) -> RpcError {
    RpcError::new(-32012, message)
}
