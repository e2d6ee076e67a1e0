//! `update_host`: what people and models know about a host, written down.

use rmcp::model::CallToolResult;
use rmcp::schemars;
use serde::Deserialize;

use crate::server::Settings;
use crate::wording::{done, failed};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct UpdateHost {
    /// The host
    host: String,
    /// What it is for, for example "CI server"
    #[serde(default)]
    description: Option<String>,
    /// Its operating system, for example "Debian 13"
    #[serde(default)]
    os: Option<String>,
}

pub(crate) async fn update_host(settings: &Settings, params: UpdateHost) -> CallToolResult {
    let UpdateHost { host, description, os } = params;
    let target = match settings.places.target(Some(&host)) {
        Ok(target) => target,
        Err(error) => return failed(format!("invalid host: {error}")),
    };
    let name = target.name().to_owned();
    let changed = super::change_hosts(&settings.registry, move |hosts| {
        let known = hosts.host(&name);
        known.description = description.unwrap_or_else(|| known.description.clone());
        known.os = os.unwrap_or_else(|| known.os.clone());
    });
    match changed.await {
        Ok(()) => done(format!("Updated host {host}")),
        Err(error) => failed(error),
    }
}
