//! The MCP door: commands that a person decides, offered to a model over stdio.
//!
//! It is a client of a sudo-proxy socket, ours or the original's, and holds what such clients share: the wire format, the
//! places of sockets, the list of known hosts. It carries questions and answers; nothing in here can decide one.

mod exchange;
mod hosts;
mod ready;
mod server;
mod stamp;
mod target;
mod terminal;
mod tools;
mod tunnel;
mod wire;
mod wording;

pub use exchange::{SendError, send};
pub use hosts::{Host, Hosts, HostsError, Policy, Registry};
pub use server::{Identity, PendingSource, ServeError, Server, Settings, serve_stdio};
pub use stamp::now_iso8601;
pub use target::{HostNameError, Places, Target, check_host, impostor, runtime_dir};
pub use tunnel::{Tunnel, TunnelError};
pub use wire::{Action, REQUEST_MAX, Request, RequestError, Response, Stage, Status, VERSION, most_answer_bytes};
