//! Which sessions have a stream attached at this moment: one each. Nothing here outlives its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A stream that is about to end gets this long before the next one takes its place.
const PATIENCE: Duration = Duration::from_secs(2);

/// Every seat that is taken.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    taken: Mutex<HashMap<String, u64>>,
    left: Notify,
    next: std::sync::atomic::AtomicU64,
}

/// A stream's seat; left when dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    session: String,
    number: u64,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a stream of this session is attached.
    pub(crate) fn is_taken(&self, session: &str) -> bool {
        self.taken().contains_key(session)
    }

    /// Takes the seat. A stream that sits there and does not leave loses it.
    pub(crate) async fn take(self: &Arc<Self>, session: &str) -> Seat {
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
        Seat { seats: Arc::clone(self), session: session.to_owned(), number }
    }
}

impl Seat {
    /// Whether nobody has taken it since.
    pub(crate) fn is_mine(&self) -> bool {
        self.seats.taken().get(&self.session) == Some(&self.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if taken.get(&self.session) == Some(&self.number) {
            taken.remove(&self.session);
        }
        drop(taken);
        self.seats.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_has_one_stream_and_the_newest_wins() {
        let seats = Arc::new(Seats::default());
        let first = seats.take("a").await;
        let other = seats.take("b").await;
        assert!(first.is_mine() && other.is_mine());
        let second = seats.take("a").await;
        assert!(!first.is_mine() && second.is_mine());
        drop(first);
        assert!(seats.is_taken("a") && second.is_mine());
        drop(second);
        assert!(!seats.is_taken("a"));
    }

    #[tokio::test]
    async fn a_stream_that_leaves_in_time_is_not_pushed() {
        let seats = Arc::new(Seats::default());
        let first = seats.take("a").await;
        let waiting = tokio::spawn({
            let seats = Arc::clone(&seats);
            async move { seats.take("a").await }
        });
        tokio::task::yield_now().await;
        assert!(first.is_mine());
        drop(first);
        assert!(waiting.await.unwrap().is_mine());
    }
}
