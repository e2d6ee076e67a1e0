//! A directory: its files, and its git repository.
//!
//! Plain blocking functions with typed results and errors; whoever calls them chooses the thread and
//! words the errors. Nothing here knows a protocol, a session or a process of the engine.

pub mod beneath;
mod branch;
pub mod extract;
pub mod files;
pub mod git;
pub mod history;
pub mod index;
mod lexical;
mod path_error;
pub mod ready;
mod replace;
pub mod search;
mod small;
pub mod watch;

pub use branch::branch;
pub use lexical::clean;
pub use path_error::{Op, PathError};
pub use replace::{Durable, replace};
pub use small::read_small;
