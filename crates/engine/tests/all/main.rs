//! Processes and sessions. The tests are the keeper, the daemon and the echo agent that they test: a program that
//! re-executes itself needs its own main.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod processes;
mod sessions;
mod stable;

use std::process::ExitCode;

fn main() -> ExitCode {
    stable::main(&[processes::tests(), sessions::tests()].concat())
}
