//! The keeper process.

/// Runs the keeper.
pub fn run() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
