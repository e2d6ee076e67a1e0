//! The native protocol of ostler: its types, their description, and a blocking client.
//!
//! JSON-RPC 2.0, one object per line, over a unix socket that only its owner may open. Every method is a type
//! that implements [`Method`]; the OpenRPC document is made from those same types. This crate knows no engine
//! and starts no thread: the command line links it and nothing else of the daemon.

mod approval;
mod arrival;
mod changes;
pub mod client;
mod device;
mod error;
mod feed;
mod finish;
mod git;
mod history;
mod hosted;
mod instance;
mod method;
mod notice;
mod openrpc;
mod path;
mod piece;
mod process;
mod review;
mod schema;
mod search;
mod session;
mod session_event;
mod setup;
mod time;
mod workspace;

pub use approval::*;
pub use arrival::*;
pub use changes::*;
pub use device::*;
pub use error::{ErrorData, ErrorKind, RpcError};
pub use feed::*;
pub use finish::*;
pub use git::*;
pub use history::*;
pub use hosted::*;
pub use instance::*;
pub use method::{METHODS, Method, MethodInfo, Notification, methods};
pub use notice::*;
pub use openrpc::document;
pub use path::FilePath;
pub use piece::*;
pub use process::*;
pub use review::*;
pub use schema::Schema;
pub use search::*;
pub use session::*;
pub use session_event::SessionEvent;
pub use setup::*;
pub use time::Timestamp;
pub use workspace::*;

/// The version of this protocol, agreed in `instance.hello`. It grows when a peer must know of a change;
/// new optional fields and methods do not count, because unknown fields are ignored.
pub const API_VERSION: u32 = 1;

/// The longest request: the longest prompt (8 MiB) fits, escaped.
pub const LINE_MAX: usize = 12 * 1024 * 1024;
