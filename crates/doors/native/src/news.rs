//! Waiting for news: a request that is answered when something changed, or when its time is over.

use std::time::Duration;

use tokio::sync::watch;

/// The longest a client waits for news in one request.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The newest revision, once it is newer than `after`. Nothing new in time is an answer too.
pub(crate) async fn newer_than(mut revision: watch::Receiver<u64>, after: u64, wait_ms: u64) -> u64 {
    let newer = revision.wait_for(|revision| *revision > after);
    drop(tokio::time::timeout(Duration::from_millis(wait_ms).min(WAIT_MAX), newer).await);
    *revision.borrow()
}
