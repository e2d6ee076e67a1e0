//! The one list behind `ps`, `sessions` and Now: everything that is hosted, across all instances of the user.

use ostler_api::client::{Client, ClientError};
use ostler_api::{ErrorKind, Hosted, HostedListParams, ListParams, SessionListParams, methods};

use super::Context;
use crate::output::CommandError;

/// Something that is hosted, and by which instance.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) instance: String,
    pub(super) hosted: Hosted,
}

impl Context {
    /// What every instance hosts, oldest first, and how many instances there are.
    pub(super) fn hosted(&self, params: &HostedListParams) -> Result<(Vec<Listed>, usize), CommandError> {
        let mut all = Vec::new();
        let mut reached = self.reach_all()?;
        for instance in &mut reached {
            let name = &instance.found.name;
            let hosted = hosted(&mut instance.client, params)?;
            all.extend(hosted.into_iter().map(|hosted| Listed { instance: name.clone(), hosted }));
        }
        all.sort_by_key(|listed| listed.hosted.began);
        Ok((all, reached.len()))
    }
}

/// What one instance hosts.
pub(super) fn hosted(client: &mut Client, params: &HostedListParams) -> Result<Vec<Hosted>, ClientError> {
    match client.call::<methods::HostedList>(params) {
        Ok(list) => Ok(list.hosted),
        Err(error) if is_unknown(&error) => older(client, params.all),
        Err(error) => Err(error),
    }
}

/// Of a daemon that was started before there was one list; some had no sessions either.
fn older(client: &mut Client, all: bool) -> Result<Vec<Hosted>, ClientError> {
    let processes = client.call::<methods::ProcessList>(&ListParams { all })?.processes;
    let sessions = match client.call::<methods::SessionList>(&SessionListParams { all }) {
        Ok(list) => list.sessions,
        Err(error) if is_unknown(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(processes.into_iter().map(Hosted::from).chain(sessions.into_iter().map(Hosted::from)).collect())
}

fn is_unknown(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(error) if error.kind() == ErrorKind::UnknownMethod)
}
