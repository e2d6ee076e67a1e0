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

impl Listed {
    /// Its name, if it has one: an agent's process is known by its session, which is what people named.
    pub(super) fn name(&self, all: &[Listed]) -> Option<String> {
        let session = self.hosted.part_of.as_ref().and_then(|whole| {
            let is_it = |one: &&Listed| one.instance == self.instance && one.hosted.id == *whole;
            all.iter().find(is_it).filter(|one| one.hosted.session.is_some())
        });
        match session.map(|one| &one.hosted) {
            Some(session) => Some(format!("agent of {}", session.name.as_ref().unwrap_or(&session.id))),
            None => self.hosted.name.clone(),
        }
    }
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
