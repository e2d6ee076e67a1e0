//! Who is connected: places for our own user, and others for everybody else, of whom no one can take all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of our own user at once: more than all heads of a user have, and fewer than descriptors.
const OURS: usize = 512;
/// Of everybody else together, who take no place of ours.
const OTHERS: usize = 256;
/// Of one of them.
const OF_ONE: usize = 64;

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Our own user, on this machine.
    Us,
    /// Another user of this machine.
    User(u32),
    /// Another machine.
    Host(IpAddr),
    /// Whoever could not be found out.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Guests {
    ours: Arc<Semaphore>,
    others: Arc<Semaphore>,
    each: Mutex<HashMap<Holder, usize>>,
}

/// A connection, for as long as it has its place.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Arc<Guests>,
    holder: Holder,
    _permit: OwnedSemaphorePermit,
}

impl Guests {
    pub(crate) fn new() -> Arc<Self> {
        let of = |size| Arc::new(Semaphore::new(size));
        Arc::new(Self { ours: of(OURS), others: of(OTHERS), each: Mutex::default() })
    }

    /// Gives a connection its place, unless those that `holder` may have are taken.
    pub(crate) fn admit(self: &Arc<Self>, holder: Holder) -> Option<Guest> {
        let pool = if holder == Holder::Us { &self.ours } else { &self.others };
        let permit = Arc::clone(pool).try_acquire_owned().ok()?;
        let mut each = self.each();
        let taken = each.entry(holder).or_default();
        if holder != Holder::Us && *taken >= OF_ONE {
            return None;
        }
        *taken += 1;
        Some(Guest { guests: Arc::clone(self), holder, _permit: permit })
    }

    /// Resolves when the last has left.
    pub(crate) async fn all_gone(&self) {
        for (pool, size) in [(&self.ours, OURS), (&self.others, OTHERS)] {
            // Nobody closes them.
            let _ = pool.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await;
        }
    }

    fn each(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut each = self.guests.each();
        if let Some(taken) = each.get_mut(&self.holder) {
            *taken -= 1;
            if *taken == 0 {
                each.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_take_no_place_of_ours_and_none_of_them_takes_all() {
        let guests = Guests::new();
        let take = |holder| std::iter::from_fn(|| guests.admit(holder)).collect::<Vec<_>>();
        let one = take(Holder::User(7));
        assert_eq!(one.len(), OF_ONE);
        let hosts: Vec<_> = (1..=9).flat_map(|last| take(Holder::Host(IpAddr::from([192, 0, 2, last])))).collect();
        assert_eq!(one.len() + hosts.len(), OTHERS);
        assert_eq!(take(Holder::Us).len(), OURS);
        drop((one, hosts));
        assert_eq!(take(Holder::Unknown).len(), OF_ONE);
        assert!(guests.each().is_empty(), "nobody is remembered who has left");
    }

    #[tokio::test]
    async fn all_are_gone_when_the_last_has_left() {
        let guests = Guests::new();
        let (ours, other) = (guests.admit(Holder::Us), guests.admit(Holder::Unknown));
        let waiting = tokio::spawn({
            let guests = Arc::clone(&guests);
            async move { guests.all_gone().await }
        });
        drop(ours);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap();
    }
}
