//! So many connections at once for each user, session or machine, so that one that wants many takes nobody else's. Who holds
//! none is not remembered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Everybody's slots; a cheap handle.
#[derive(Debug, Clone)]
pub struct Slots<K: Eq + Hash>(Arc<Taken<K>>);

#[derive(Debug)]
struct Taken<K> {
    counts: Mutex<HashMap<K, usize>>,
    all_free: Notify,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub struct Slot<K: Eq + Hash> {
    slots: Arc<Taken<K>>,
    whose: K,
}

impl<K: Eq + Hash> Default for Slots<K> {
    fn default() -> Self {
        Self(Arc::new(Taken { counts: Mutex::default(), all_free: Notify::new() }))
    }
}

impl<K: Eq + Hash + Clone> Slots<K> {
    /// A slot, unless this one holds `most` of them.
    pub fn take(&self, whose: K, most: usize) -> Option<Slot<K>> {
        let mut counts = self.0.counts();
        let count = counts.get(&whose).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        counts.insert(whose.clone(), count + 1);
        Some(Slot { slots: Arc::clone(&self.0), whose })
    }

    /// Resolves when nobody holds any.
    pub async fn all_free(&self) {
        loop {
            let free = self.0.all_free.notified();
            if self.0.counts().is_empty() {
                return;
            }
            free.await;
        }
    }
}

impl<K> Taken<K> {
    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        if let Some(count) = counts.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.whose);
            }
        }
        if counts.is_empty() {
            self.slots.all_free.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_has_its_own_and_all_are_free_when_the_last_is_gone() {
        let slots = Slots::default();
        let (first, second, other) = (slots.take(1, 2), slots.take(1, 2), slots.take(2, 2));
        assert!(first.is_some() && second.is_some() && other.is_some());
        assert!(slots.take(1, 2).is_none());
        drop(second);
        assert!(slots.take(1, 2).is_some());
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.all_free().await }
        });
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap();
    }
}
