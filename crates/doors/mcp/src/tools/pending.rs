//! `pending`: what waits for a person. Reading is all that a model can do with it.

use rmcp::model::CallToolResult;
use rmcp::schemars;
use serde::Deserialize;

use crate::server::Settings;
use crate::wording::{done, failed};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct Pending {}

pub(crate) async fn pending(settings: &Settings, _params: Pending) -> CallToolResult {
    let Some(source) = settings.pending.clone() else { return failed("There is no list of pending decisions here.") };
    match tokio::task::spawn_blocking(move || source()).await {
        Ok(Ok(text)) => done(text),
        Ok(Err(message)) => failed(message),
        Err(_) => failed("The list of pending decisions could not be read."),
    }
}
