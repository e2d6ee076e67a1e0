//! A real runner. The tests are the runner that they test: a hosted program needs a main of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod plain;
mod sudo;

use std::process::ExitCode;

fn main() -> ExitCode {
    common::main(&[plain::tests(), sudo::tests()].concat())
}
