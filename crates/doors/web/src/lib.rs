//! What HTTP and WebSocket doors share: one listener that looks at every connection before it may say anything, the rules by
//! which a request is let in, bounds on everything that a client can make grow, and an end that breaks nobody off.
//!
//! This crate knows no protocol beyond HTTP and WebSocket: what a request means is its door's, and what a token is worth
//! the engine's. It never trusts an address: loopback is not a user, and a browser is a program of our user that does what
//! any page tells it.

mod answer;
mod body;
mod exposure;
mod fetched;
mod guard;
mod guests;
mod listener;
mod pages;
mod peer;
mod response_body;
mod sock_diag;
mod tls;
mod tokens;
pub mod websocket;

pub use answer::answer;
pub use axum::Router;
pub use body::{BodyError, BodyLimits, read_body};
pub use exposure::{Admitted, Allowed, Exposure, ExternalUrl, NotAnOrigin};
pub use fetched::{Fetch, fetched};
pub use guard::{Refused, admit, bearer};
pub use listener::{Arrived, Web, listen};
pub use pages::Pages;
pub use peer::Peer;
pub use response_body::{Gone, Meter, ResponseBody};
pub use tls::Tls;
pub use tokens::Tokens;
