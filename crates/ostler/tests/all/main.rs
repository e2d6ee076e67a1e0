//! The program as it is used. All tests are one program: each would be linked with the whole of ostler.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod architecture;
mod cli_approvals;
mod cli_attach;
mod cli_kit;
mod cli_life;
mod cli_logs;
mod cli_names;
mod cli_native;
mod cli_run;
mod cli_usage;
mod older_state;
mod windows;
mod windows_decisions;
mod windows_finish;
mod words;
mod words_screens;
mod words_source;
