//! What each tool does. Parameters are what a model wrote: everything in them is checked before it is used.

mod execute;
mod pending;
mod start;
mod status;
mod stop;
mod update_host;

pub(crate) use execute::{Execute, execute};
pub(crate) use pending::{Pending, pending};
pub(crate) use start::{StartServer, start};
pub(crate) use status::status;
pub(crate) use stop::stop;
pub(crate) use update_host::{UpdateHost, update_host};

use std::time::Duration;

use rmcp::schemars;
use serde::Deserialize;

use crate::hosts::{Hosts, HostsError, Registry};
use crate::wire::{Response, Status};

/// Pings and stops wait for no person.
const CONTROL_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct HostOnly {
    /// The host whose daemon is meant (omit for this machine's)
    #[serde(default)]
    pub(crate) host: Option<String>,
}

/// Changes the list of hosts without holding up other calls.
async fn change_hosts(registry: &Registry, change: impl FnOnce(&mut Hosts) + Send + 'static) -> Result<(), HostsError> {
    let registry = registry.clone();
    // A change that panicked has changed nothing.
    tokio::task::spawn_blocking(move || registry.change(change)).await.unwrap_or(Ok(()))
}

/// Notes that a daemon answered. That this cannot be written down is no reason to hide its answer.
async fn touch(registry: &Registry, name: &str, version: &str) {
    let (name, version) = (name.to_owned(), version.to_owned());
    if let Err(error) = change_hosts(registry, move |hosts| hosts.touch(&name, &version)).await {
        tracing::debug!("hosts: {error}");
    }
}

/// A daemon of before 1.1 knows no actions and refuses their empty pipeline; its answer still tells its version.
fn knows_no_actions(answer: &Response) -> bool {
    answer.status == Status::Error && answer.message().contains("pipeline must not be empty")
}
