//! `ostler pair`: lets a phone or another machine in, by a code or a square to scan, with a person at a terminal who says yes.

use std::process::ExitCode;

use clap::Args;

use super::Context;
use super::offer::{self, At, Wanted};
use crate::output::CommandError;

const HELP: &str = "\
Shows a QR code and six digits, waits for the device, and asks you whether it is yours. The code works once and for ten \
minutes. Needs a terminal of your own.

Rights:
  watch    see everything
  answer   see, talk to agents, answer requests once [default]
  work     answer, and write files and use git
  full     everything, pairing other devices included
or any of view, prompt, answer_once, answer_lastingly, answer_privileged, loosen, write, type, admit with commas between.

Examples:
  ostler pair
  ostler pair --name phone --rights watch";

/// Pair a phone or another machine
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Pair {
    /// Name of the device [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What it may do
    #[arg(long, value_name = "RIGHTS")]
    rights: Option<String>,
}

impl Pair {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        offer::run(context, Wanted { at: At::Web, name: self.name, rights: self.rights.as_deref(), code: true })
    }
}
