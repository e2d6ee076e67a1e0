//! Which sessions have a stream attached at this moment: one each. Nothing here outlives its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A stream that is about to end gets this long before the next one takes its place.
const PATIENCE: Duration = Duration::from_secs(2);

/// Every seat that is taken.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    taken: Mutex<HashMap<String, u64>>,
    left: Notify,
    next: std::sync::atomic::AtomicU64,
}

/// A stream's seat; left when dropped.
pub(crate) struct Subscriber {
    subscribers: Arc<Subscribers>,
    session: String,
    number: u64,
}

impl Subscribers {
    fn taken(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a stream of this session is attached.
    pub(crate) fn is_taken(&self, session: &str) -> bool {
        self.taken().contains_key(session)
    }

    /// Takes the seat. A stream that sits there and does not leave loses it.
    pub(crate) async fn take(self: &Arc<Self>, session: &str) -> Subscriber {
        let free = async {
            loop {
                let left = self.left.notified();
                if !self.is_taken(session) {
                    return;
                }
                left.await;
            }
        };
        // Whoever was there sees that the seat is no longer its own.
        let _ = tokio::time::timeout(PATIENCE, free).await;
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.taken().insert(session.to_owned(), number);
        Subscriber { subscribers: Arc::clone(self), session: session.to_owned(), number }
    }
}

impl Subscriber {
    /// Whether nobody has taken it since.
    pub(crate) fn is_mine(&self) -> bool {
        self.subscribers.taken().get(&self.session) == Some(&self.number)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut taken = self.subscribers.taken();
        if taken.get(&self.session) == Some(&self.number) {
            taken.remove(&self.session);
        }
        drop(taken);
        self.subscribers.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_has_one_stream_and_the_newest_wins() {
        let subscribers = Arc::new(Subscribers::default());
        let first = subscribers.take("a").await;
        let other = subscribers.take("b").await;
        assert!(first.is_mine() && other.is_mine());
        let second = subscribers.take("a").await;
        assert!(!first.is_mine() && second.is_mine());
        drop(first);
        assert!(subscribers.is_taken("a") && second.is_mine());
        drop(second);
        assert!(!subscribers.is_taken("a"));
    }

    #[tokio::test]
    async fn a_stream_that_leaves_in_time_is_not_pushed() {
        let subscribers = Arc::new(Subscribers::default());
        let first = subscribers.take("a").await;
        let waiting = tokio::spawn({
            let subscribers = Arc::clone(&subscribers);
            async move { subscribers.take("a").await }
        });
        tokio::task::yield_now().await;
        assert!(first.is_mine());
        drop(first);
        assert!(waiting.await.unwrap().is_mine());
    }
}
