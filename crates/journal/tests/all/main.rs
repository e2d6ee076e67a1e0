//! Journals on real pipes, disks and file systems. All tests are one program, which is compiled and linked once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod crash;
mod disk;
mod events;
mod events_disk;
mod events_power;
mod full;
mod idle;
mod output;
mod power;
mod quiet;
mod stall;
mod stdin;
mod terminal;
