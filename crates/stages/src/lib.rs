//! Runs an approved command line, stage by stage, and tells what came of it.
//!
//! The daemon writes a [`Spec`] to a file and hosts a runner ([`run`]) that was told the file's hash; the runner starts
//! the stages (through sudo, where the approval says so) and writes a report to its stdout, which [`Report`] reads back.
//! The runner never starts a shell, never reads its terminal (sudo does), and never runs a file other than the one that
//! [`resolve`] found when the command was shown.

mod behind;
mod capture;
mod child;
mod failure;
mod frame;
mod kin;
mod launch;
pub mod lossy;
mod outcome;
mod program;
mod report;
mod resolve;
mod runner;
mod setenv;
mod sink;
mod spec;
mod sudo;
mod terminal;
mod told;
mod warning;

use std::path::Path;
use std::process::ExitCode;

pub use behind::{Behind, Changeable, behind};
pub use outcome::{Captured, FailKind, Outcome};
pub use report::{Report, copy_stderr, copy_stdout};
pub use resolve::{ResolveError, Resolved, resolve};
pub use spec::{Elevate, Seal, Spec, Stage};
pub use warning::{NAMED_MAX, Warning, warnings};

/// Where programs are looked for, whatever the environment says: the same on the prompt and at execution.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// 16 MiB: what is kept of each stream, exactly; clients of the protocol count on the figure.
pub const CAPTURE_MAX: u64 = 16 * 1024 * 1024;

/// A stage costs the runner four descriptors, and the usual limit is 1,024.
pub const STAGES_MAX: usize = 128;

/// Runs the spec in the file `spec_path`, whose SHA-256 was approved, and writes the report to stdout. Succeeds when the
/// report is whole and says that every stage ran.
pub fn run(spec_path: &Path, sha256_hex: &str) -> ExitCode {
    report(runner::load(spec_path, sha256_hex))
}

/// The same for a spec that is not approved yet: first waits for a line on stdin whose SHA-256 is `word_hex`. Without it
/// nothing is run, and nothing is said. A runner whose daemon (this pid) died is told by nobody, and leaves by itself.
pub fn run_when_told(spec_path: &Path, sha256_hex: &str, word_hex: &str, daemon: Option<u32>) -> ExitCode {
    let loaded = runner::load(spec_path, sha256_hex);
    match told::comes_in_time(std::io::stdin(), daemon) && told::waits_for(word_hex, std::io::stdin().lock()) {
        true => report(loaded),
        false => ExitCode::from(UNTOLD),
    }
}

/// How a runner ends that was never told to go, and did nothing.
pub const UNTOLD: u8 = 75;

fn report(loaded: Result<runner::Loaded, failure::Failure>) -> ExitCode {
    let Ok(mut sink) = sink::Sink::stdout() else { return ExitCode::FAILURE };
    let outcome = runner::outcome(loaded, &mut sink);
    let ran = matches!(outcome, Outcome::Done { .. });
    if sink.finish(&outcome).is_ok() && ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
