//! `ostler web`: a link that makes a browser a device, once. It is printed and never handed to a program: everybody can read the
//! arguments of a program.

use std::process::ExitCode;

use clap::Args;

use super::Context;
use super::offer::{self, At, Wanted};
use crate::output::CommandError;

const HELP: &str = "\
Prints a link for your browser. It works once and for ten minutes; a browser on another machine is let in after you say \
yes here. Needs a terminal of your own. For --rights see: ostler help pair

Examples:
  ostler web
  ostler web --rights full";

/// Print a link that opens ostler in your browser
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Web {
    /// Name of the browser [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What it may do [default: answer]
    #[arg(long, value_name = "RIGHTS")]
    rights: Option<String>,
}

impl Web {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        offer::run(context, Wanted { at: At::Web, name: self.name, rights: self.rights.as_deref(), code: false })
    }
}
