//! Parent of every hosted child: holds its pipes, reaps its exit, outlives the daemon.
//!
//! # Theory of operation
//! The keeper is this same binary under the name `ostler-keeper`: one thread, one poll loop, no
//! client bytes. It alone forks hosted children and keeps a duplicate of every descriptor the
//! daemon pumps, so a daemon may die at any instruction and the next one goes on with the same
//! pipes. The two talk over a SEQPACKET socket: small JSON messages, descriptors beside them, and
//! argument vectors in sealed memory files. What a daemon missed it learns at adoption: the keeper
//! forgets a child only when its exit is acknowledged.
//!
//! The keeper must never block, never touch a disk on its own, and never hold a thing whose size a
//! client decides.

mod blob;
mod cgroup;
mod channel;
pub mod client;
mod custody;
pub mod procfs;
mod server;
pub mod shield;
mod spec;
#[allow(unsafe_code)]
mod sys;
mod wire;

pub use cgroup::{Custody, custody_of, group_of};
pub use client::{Keeper, Launched, connect, launch};
pub use custody::{COOKIE, Orphan, end_younger, find};
pub use server::run;
pub use spec::{
    Adopted, ChildIo, ConnectError, Event, GuardSpec, Hello, Import, Listed, Own, Pty, RequestError, Scope, Signalled,
    SpawnError, SpawnSpec, Spawned, StdioKind, Step, Stray, Upgrade,
};
pub use sys::{duplicate, give_terminal_back, heap, is_exclusive, peer_process, take_terminal, tame_allocator, trim};
pub use wire::{ENTRUSTED_MAX, HELD_MAX, KEY_MAX, META_MAX, NAME};
