//! JSON-RPC 2.0 for every door: the [`Envelope`] in which a request comes, the [`Head`] of its answer, what is said instead of a
//! result, and what is said unasked. Ids go back byte for byte. Which codes and words there are, and what a method is, only a door knows.

mod envelope;
mod error;
mod head;
mod notification;

pub use envelope::{Envelope, NotAMessage, batch};
pub use error::RpcError;
pub use head::{Form, Head};
pub use notification::{notify, notify_of, request};
