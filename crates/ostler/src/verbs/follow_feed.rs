//! Waiting for the feed: whoever shows what there is asks for it again once the feed tells of a change.

use std::time::Duration;

use ostler_api::client::{Client, ClientError};
use ostler_api::{FeedFollowParams, FeedKind, Notification, methods};

/// Without news it is looked again after this long: what another instance does to this one is in no feed of its own.
const AGAIN: Duration = Duration::from_secs(25);

/// From now on; gives the number of the watch.
pub(super) fn follow(client: &mut Client, kinds: Vec<FeedKind>) -> Result<u64, ClientError> {
    let from_now = FeedFollowParams { after: None, kinds, session: None, workspace: None };
    Ok(client.call::<methods::FeedFollow>(&from_now)?.watch)
}

/// Waits for changes, and gives the kinds of all that have come; none if nothing came for long.
pub(super) fn changes(client: &mut Client) -> Result<Vec<FeedKind>, ClientError> {
    let (mut kinds, mut next) = (Vec::new(), client.next_notification_within(AGAIN)?);
    while let Some(told) = next {
        match told {
            Notification::FeedChanges(told) => kinds.extend(told.changes.iter().map(|change| change.kind)),
            // Nobody knows what is missing.
            Notification::FeedGap(_) => kinds.extend(FeedKind::ALL),
            Notification::FeedLost(lost) => return Err(ClientError::Garbled(lost.message)),
            _ => {}
        }
        next = client.arrived()?;
    }
    Ok(kinds)
}
