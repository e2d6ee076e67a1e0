//! Who is connected: how many, for a daemon that leaves with its last client, and who they say they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_api::Timestamp;
use tokio::sync::watch;

/// A client that has said who it is.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    pub(crate) id: String,
    /// The process and its user, or the address, for people.
    pub(crate) label: String,
    pub(crate) transport: &'static str,
    pub(crate) since: Timestamp,
}

/// The count, and the guests among those counted.
pub(crate) struct Presence {
    state: Arc<State>,
}

struct State {
    /// How many connections there have been, and how many there are.
    counts: watch::Sender<(u64, usize)>,
    guests: Mutex<BTreeMap<u64, Guest>>,
}

/// One connection, for as long as it lasts.
pub(crate) struct Here {
    state: Arc<State>,
    number: u64,
}

impl Default for Presence {
    fn default() -> Self {
        Self { state: Arc::new(State { counts: watch::channel((0, 0)).0, guests: Mutex::default() }) }
    }
}

impl State {
    fn guests(&self) -> MutexGuard<'_, BTreeMap<u64, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    pub(crate) fn enter(&self) -> Here {
        let mut number = 0;
        self.state.counts.send_modify(|(ever, now)| {
            (*ever, *now) = (*ever + 1, *now + 1);
            number = *ever;
        });
        Here { state: Arc::clone(&self.state), number }
    }

    /// This connection is that guest's.
    pub(crate) fn introduce(&self, number: u64, guest: Guest) {
        self.state.guests().insert(number, guest);
    }

    pub(crate) fn guests(&self) -> Vec<Guest> {
        self.state.guests().values().cloned().collect()
    }

    pub(crate) async fn abandoned(&self, grace: Duration) {
        let mut counts = self.state.counts.subscribe();
        loop {
            let Ok(seen) = counts.wait_for(|(ever, now)| *ever > 0 && *now == 0).await.map(|seen| *seen) else {
                return;
            };
            // Whoever comes back in time, and be it for a moment, begins a new wait.
            match tokio::time::timeout(grace, counts.wait_for(|now| *now != seen)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

impl Here {
    /// Connections are numbered in the order of their coming.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.state.guests().remove(&self.number);
        self.state.counts.send_modify(|(_, now)| *now -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_has_left_before_somebody_came_and_coming_back_begins_a_new_wait() {
        let presence = Presence::default();
        let grace = Duration::from_secs(2);
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, presence.abandoned(Duration::ZERO)).await.is_err(), "nobody came");
        let first = presence.enter();
        assert!(tokio::time::timeout(soon, presence.abandoned(Duration::ZERO)).await.is_err(), "somebody is here");
        drop(first);
        let started = std::time::Instant::now();
        let back = async {
            tokio::time::sleep(soon).await;
            drop(presence.enter());
        };
        tokio::join!(presence.abandoned(grace), back);
        assert!(started.elapsed() >= grace + soon, "{:?}", started.elapsed());
    }

    #[test]
    fn a_guest_is_known_while_the_connection_lasts() {
        let presence = Presence::default();
        let here = presence.enter();
        let (id, label, since) = ("tui_1".into(), "unix:pid=1,uid=0".into(), Timestamp::from_micros(1));
        let guest = Guest { id, label, transport: "unix", since };
        presence.introduce(here.number(), guest);
        assert_eq!(presence.guests().len(), 1);
        drop(here);
        assert!(presence.guests().is_empty());
    }
}
