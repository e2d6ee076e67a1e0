//! Who is connected: places for our own user, and others for everybody else, of whom no one can take all.

use std::net::IpAddr;

use ostler_door_rpc::{Slot, Slots};

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

/// Counted for each, and under `None` for all but us.
#[derive(Clone, Default)]
pub(crate) struct Guests(Slots<Option<Holder>>);

/// A connection's place, until it is dropped.
pub(crate) struct Guest {
    _own: Slot<Option<Holder>>,
    _of_all: Option<Slot<Option<Holder>>>,
}

impl Guests {
    /// Gives a connection its place, unless those that `holder` may have are taken.
    pub(crate) fn admit(&self, holder: Holder) -> Option<Guest> {
        if holder == Holder::Us {
            return Some(Guest { _own: self.0.take(Some(holder), OURS)?, _of_all: None });
        }
        let of_all = self.0.take(None, OTHERS)?;
        Some(Guest { _own: self.0.take(Some(holder), OF_ONE)?, _of_all: Some(of_all) })
    }

    /// Resolves when the last has left.
    pub(crate) async fn all_gone(&self) {
        self.0.all_free().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_take_no_place_of_ours_and_none_of_them_takes_all() {
        let guests = Guests::default();
        let take = |holder| std::iter::from_fn(|| guests.admit(holder)).collect::<Vec<_>>();
        let one = take(Holder::User(7));
        assert_eq!(one.len(), OF_ONE);
        let hosts: Vec<_> = (1..=9).flat_map(|last| take(Holder::Host(IpAddr::from([192, 0, 2, last])))).collect();
        assert_eq!(one.len() + hosts.len(), OTHERS);
        assert_eq!(take(Holder::Us).len(), OURS);
        drop((one, hosts));
        assert_eq!(take(Holder::Unknown).len(), OF_ONE);
    }
}
