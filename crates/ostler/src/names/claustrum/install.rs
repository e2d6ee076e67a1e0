//! `-install`: makes sure that one version of the agent CLI is on this machine, and prints what is there.
//!
//! Always ends well: what went wrong stands in the printed facts. Nothing that was not verified and did not run once gets
//! its final name.

mod download;
mod facts;
mod prune;
mod stock;
mod unpack;

use std::io::{self, Write};
use std::process::ExitCode;

use super::flags::Flags;
use facts::Facts;
use stock::Stock;

/// The mode as a program: prints the facts on standard output.
pub(crate) fn main(flags: &Flags) -> ExitCode {
    run(flags, &super::version(), &mut io::stdout().lock());
    ExitCode::SUCCESS
}

fn run(flags: &Flags, server_version: &str, out: &mut dyn Write) {
    let mut facts = Facts::new(server_version);
    if !flags.cli_dir.is_empty() && !flags.cli_version.is_empty() {
        match Stock::open(&flags.cli_dir, &flags.cli_version) {
            Ok(stock) => {
                facts.cli_path = stock.path().to_string_lossy().into_owned();
                match ensure(&stock, flags) {
                    Ok(was_present) => facts.cli_was_present = was_present,
                    Err(error) => facts.cli_error = error,
                }
                prune::prune(&stock, flags.cli_keep);
            }
            Err(error) => facts.cli_error = error,
        }
    }
    // Whoever closed our output does not want to know.
    let _ = out.write_all(&facts.line()).and_then(|()| out.flush());
}

/// True when the version was there already.
fn ensure(stock: &Stock, flags: &Flags) -> Result<bool, String> {
    let _lock = stock.lock()?;
    if stock.is_runnable() {
        return Ok(true);
    }
    if !flags.cli_zst.is_empty() {
        let blob = unpack::open(&flags.cli_zst)?;
        if !flags.cli_checksum.is_empty() {
            unpack::verify(&blob, &flags.cli_checksum)?;
        }
        stock.install(&blob)?;
        // It was uploaded for this alone; one that cannot be removed does no harm.
        let _ = std::fs::remove_file(&flags.cli_zst);
    } else if !flags.cli_url.is_empty() {
        let blob = download::fetch(&flags.cli_url, stock.dir()).map_err(|error| format!("download failed: {error}"))?;
        unpack::verify(&blob, &flags.cli_checksum)?;
        stock.install(&blob)?;
    } else {
        return Err(format!("cli {} missing and no --cli-url or --cli-zst provided", flags.cli_version));
    }
    Ok(false)
}

/// `open PATH: no such file or directory`.
fn path_error(call: &str, path: &std::path::Path, error: &io::Error) -> String {
    format!("{call} {}: {}", path.display(), ostler_door_claustrum::errno_text(error))
}

#[cfg(test)]
mod tests;
