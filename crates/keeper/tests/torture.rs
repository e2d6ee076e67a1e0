//! The keeper under conditions no daemon should meet, but will.
mod common;

fn main() -> std::process::ExitCode {
    common::main(&[])
}
