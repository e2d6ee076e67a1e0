//! `ostler as NAME ...`: behaves exactly like the program of that name. A call with a known name never comes this far:
//! what follows the name is not ours to parse. This is for help and mistakes.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::names;

/// Act as cdev, claustrum, codecast, sudo-proxy or zeroclaw
#[derive(Debug, Args)]
#[command(after_help = "Everything after NAME is passed to that program.\n\nExample:\n  ostler as claustrum -version")]
pub(crate) struct As {
    /// The program to act as
    #[arg(value_parser = PossibleValuesParser::new(names::names()))]
    name: String,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl As {
    pub(super) fn run(self) -> ExitCode {
        names::run(&self.name, self.args)
    }
}
