//! What one client may have under way on threads, however many connections it has. The pool is everybody's: a client from
//! elsewhere must not hold all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Threads that the requests of one client may hold: whoever asks much of a disk that takes its time waits alone, and leaves
/// threads to the others. The pool has 512.
pub(crate) const THREADS: usize = 16;
/// Searches at once: each takes all the processors that it can get.
const SEARCHES: usize = 2;
/// Connections that count as one client's: more than a person has windows, and each may hold a message of the longest kind.
const CONNECTIONS: usize = 16;

/// The share of one client.
#[derive(Debug)]
pub struct Share {
    pub(crate) threads: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self { threads: of(THREADS), searches: of(SEARCHES), connections: of(CONNECTIONS) }
    }
}

impl Share {
    /// A place for one more connection, where there are places.
    pub fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Waits until the client searches in fewer places than it may, and takes one.
    pub async fn search(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.searches).acquire_owned().await.ok()
    }
}

/// The shares of clients that have several connections, by what they are called.
#[derive(Debug, Default)]
pub struct Shares(Mutex<HashMap<String, Weak<Share>>>);

impl Shares {
    /// The share of this client, for as long as a connection of it, or what one left under way, holds it.
    pub fn of(&self, client: &str) -> Arc<Share> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(client).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share::default());
        shares.insert(client.to_owned(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_has_one_share_whatever_its_connections_and_nothing_is_kept_of_who_left() {
        let shares = Shares::default();
        let (one, two, other) = (shares.of("phone"), shares.of("phone"), shares.of("desk"));
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
        let held = (one.search().await, two.search().await);
        assert_eq!(one.searches.available_permits(), 0);
        assert_eq!(other.searches.available_permits(), SEARCHES);
        let entered: Vec<_> = std::iter::from_fn(|| one.enter()).collect();
        assert!(entered.len() == CONNECTIONS && two.enter().is_none() && other.enter().is_some());
        drop((held, entered, one, two, other));
        shares.of("next");
        assert_eq!(shares.0.lock().unwrap().len(), 1);
    }
}
