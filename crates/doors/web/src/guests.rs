//! Who is connected: places for our own user, and others for everybody else, of whom no one can take all.

use std::net::{IpAddr, Ipv6Addr};

use ostler_door_rpc::{Slot, Slots};

/// Connections of our own user at once: a tunnel's daemon brings every phone of a house, and descriptors are for far more.
const OURS: usize = 1024;
/// Of those before anybody looks which program it is: more than a browser opens, and looking costs.
const UNSEEN: usize = 64;
/// Of programs that ostler hosts, or that hide: nobody at the port serves them.
const HOSTED: usize = 32;
/// Of devices that have shown who they are, who take no place of anybody's.
const DEVICES: usize = 1024;
/// Of everybody else together, who take no place of ours.
const OTHERS: usize = 256;
/// Of one of them.
const OF_ONE: usize = 64;

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Our own user, on this machine.
    Us,
    /// The same, before anybody looked which program it is.
    Unseen,
    /// The same, and it is hosted or hides.
    Hosted,
    /// A device that has shown who it is.
    Device,
    /// Another user of this machine.
    User(u32),
    /// Another machine.
    Host(IpAddr),
    /// Whoever could not be found out.
    Unknown,
}

impl Holder {
    /// Another machine; one that has an address of IPv6 has a whole network of them.
    pub(crate) fn host(address: IpAddr) -> Self {
        Self::Host(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            v4 => v4,
        })
    }
}

/// Counted for each, and under `None` for all that are not of this machine's user.
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
        let (most, of_all) = match holder {
            Holder::Us => (OURS, None),
            Holder::Unseen => (UNSEEN, None),
            Holder::Hosted => (HOSTED, None),
            Holder::Device => (DEVICES, None),
            Holder::User(_) | Holder::Host(_) | Holder::Unknown => (OF_ONE, Some(self.0.take(None, OTHERS)?)),
        };
        Some(Guest { _own: self.0.take(Some(holder), most)?, _of_all: of_all })
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
        assert_eq!(take(Holder::Hosted).len(), HOSTED);
        assert_eq!(take(Holder::Us).len(), OURS);
        let neighbours = (0..300u16).map(|last| Holder::host([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into()));
        drop(hosts);
        assert_eq!(neighbours.filter_map(|host| guests.admit(host)).collect::<Vec<_>>().len(), OF_ONE);
        drop(one);
        assert_eq!(take(Holder::Unknown).len(), OF_ONE);
    }
}
