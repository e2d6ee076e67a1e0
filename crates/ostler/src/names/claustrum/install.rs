//! `-install`: ensures the agent CLI.

use std::process::ExitCode;

use super::flags::Flags;

pub(crate) fn main(_flags: &Flags) -> ExitCode {
    ExitCode::SUCCESS
}
