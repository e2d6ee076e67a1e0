//! `ostler api`: the OpenRPC document of the native door.

use std::process::ExitCode;

use clap::Args;

use super::Context;
use crate::output::CommandError;

/// Print the OpenRPC description of the API
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ostler api > ostler.openrpc.json")]
pub(crate) struct Api {}

impl Api {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let document = ostler_api::document(env!("CARGO_PKG_VERSION"));
        let text = serde_json::to_string_pretty(&document).map_err(std::io::Error::from)?;
        context.screen.line(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
