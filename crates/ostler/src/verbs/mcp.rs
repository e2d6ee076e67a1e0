//! `ostler mcp`: the MCP server for a model's client to start. It asks and lists; only a person decides.

use std::process::ExitCode;

use clap::Args;
use ostler_door_mcp::{Identity, Places, Registry, Settings};

use super::Context;
use crate::names::sudo_proxy_mcp;
use crate::output::CommandError;

const HELP: &str = "\
A model's client starts it and speaks MCP on its stdin and stdout. Commands go to sudo-proxy, where a person decides them.

Examples:
  claude mcp add sudo -- ostler mcp
  ostler mcp --socket /run/user/1000/sudo-proxy.sock";

/// Serve a model over MCP: commands that a person decides
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Mcp {
    /// The daemon to ask, instead of $XDG_RUNTIME_DIR/sudo-proxy.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

impl Mcp {
    pub(super) fn run(self, _context: &Context) -> Result<ExitCode, CommandError> {
        let places = Places::from_env();
        let settings = Settings {
            identity: Identity { name: "ostler", client: "ostler-mcp", version: env!("CARGO_PKG_VERSION") },
            places: match self.socket {
                Some(socket) => places.with_local_socket(socket),
                None => places,
            },
            registry: Registry::from_env(),
            daemon: sudo_proxy_mcp::daemon(),
            pending: None,
        };
        sudo_proxy_mcp::serve(settings).map_err(|error| CommandError::failed(format!("{error:#}")))?;
        Ok(ExitCode::SUCCESS)
    }
}
