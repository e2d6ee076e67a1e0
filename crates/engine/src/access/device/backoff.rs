//! How fast codes may be tried. A code has six digits: who guesses waits longer with every wrong one, whatever address the
//! guesses come from. Who waits is not counted, so that nobody is locked out for longer by asking again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Wrong codes that cost nothing: typing errors.
const FREE: u32 = 5;
/// The longest pause of one address.
const PAUSE_MAX_MS: u64 = 300_000;
/// Wrong codes of all addresses together that cost nothing.
const FREE_TOGETHER: u32 = 50;
/// The longest pause of all: with it some 110 guesses fit into the life of a code, of a million that there are.
const PAUSE_TOGETHER_MAX_MS: u64 = 10_000;
/// After so long without a wrong code all is forgotten.
const FORGET_MS: u64 = 900_000;
/// Addresses that are counted one by one; more share one count.
const ADDRESSES_MAX: usize = 1024;

#[derive(Debug, Default, Clone, Copy)]
struct Tries {
    wrong: u32,
    last: u64,
}

impl Tries {
    fn pause(&self, free: u32, most: u64) -> u64 {
        match self.wrong.checked_sub(free) {
            None => 0,
            Some(more) => 1000u64.checked_shl(more.min(32)).unwrap_or(u64::MAX).min(most),
        }
    }

    fn left(&self, free: u32, most: u64, now: u64) -> u64 {
        (self.last + self.pause(free, most)).saturating_sub(now)
    }

    fn add(&mut self, now: u64) {
        *self = Self { wrong: if self.is_over(now) { 1 } else { self.wrong + 1 }, last: now };
    }

    fn is_over(&self, now: u64) -> bool {
        now >= self.last + FORGET_MS
    }
}

/// Who tried how often.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    each: HashMap<IpAddr, Tries>,
    /// Addresses for which there was no room.
    others: Tries,
    together: Tries,
}

impl Backoff {
    /// Whether this address may try a code now, else how long it has to wait.
    pub(super) fn may_try(&self, address: IpAddr, now: u64) -> Result<(), Duration> {
        let own = self.each.get(&network(address)).unwrap_or(&self.others);
        let own = if own.is_over(now) { 0 } else { own.left(FREE, PAUSE_MAX_MS, now) };
        let all = &self.together;
        let all = if all.is_over(now) { 0 } else { all.left(FREE_TOGETHER, PAUSE_TOGETHER_MAX_MS, now) };
        match own.max(all) {
            0 => Ok(()),
            left => Err(Duration::from_millis(left)),
        }
    }

    /// The code was wrong.
    pub(super) fn was_wrong(&mut self, address: IpAddr, now: u64) {
        self.together.add(now);
        let address = network(address);
        if self.each.len() >= ADDRESSES_MAX && !self.each.contains_key(&address) {
            self.each.retain(|_, tries| !tries.is_over(now));
        }
        match self.each.len() < ADDRESSES_MAX || self.each.contains_key(&address) {
            true => self.each.entry(address).or_default().add(now),
            false => self.others.add(now),
        }
    }

    /// The code was right.
    pub(super) fn was_right(&mut self, address: IpAddr) {
        self.each.remove(&network(address));
    }
}

/// Whoever has one address of IPv6 has a whole network of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// How many codes somebody can try in this time who tries as fast as it may, from so many addresses.
    fn guesses(addresses: u8, within: u64) -> u32 {
        let (mut backoff, mut guesses) = (Backoff::default(), 0);
        for now in (0..within).step_by(250) {
            for last in 0..addresses {
                if backoff.may_try(address(last), now).is_ok() {
                    backoff.was_wrong(address(last), now);
                    guesses += 1;
                }
            }
        }
        guesses
    }

    #[test]
    fn in_the_life_of_a_code_few_of_a_million_are_tried_from_one_address_and_from_many() {
        let life = 600_000;
        assert!(guesses(1, life) <= 16, "{}", guesses(1, life));
        assert!(guesses(200, life) <= 120, "{}", guesses(200, life));
    }

    #[test]
    fn typing_errors_cost_nothing_and_the_right_code_forgives_them() {
        let mut backoff = Backoff::default();
        for _ in 0..FREE {
            assert_eq!(backoff.may_try(address(1), 0), Ok(()));
            backoff.was_wrong(address(1), 0);
        }
        assert_eq!(backoff.may_try(address(1), 0), Err(Duration::from_secs(1)));
        assert_eq!(backoff.may_try(address(2), 0), Ok(()), "others do not wait");
        assert_eq!(backoff.may_try(address(1), 1000), Ok(()));
        backoff.was_right(address(1));
        assert_eq!(backoff.may_try(address(1), 0), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_the_table_is_bounded() {
        let mut backoff = Backoff::default();
        let v6 = |host: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) | host));
        (0..=u128::from(FREE)).for_each(|host| backoff.was_wrong(v6(host), 0));
        assert!(backoff.may_try(v6(99), 0).is_err());
        for n in 0..4 * ADDRESSES_MAX as u32 {
            backoff.was_wrong(IpAddr::from(n.to_be_bytes()), 0);
        }
        assert!(backoff.each.len() <= ADDRESSES_MAX);
    }

    proptest! {
        #[test]
        fn nobody_waits_for_ever(wrong in 0u32..500, at in 0u64..1_000_000) {
            let mut backoff = Backoff::default();
            (0..wrong).for_each(|_| backoff.was_wrong(address(1), at));
            if let Err(left) = backoff.may_try(address(1), at) {
                prop_assert!(left <= Duration::from_millis(PAUSE_MAX_MS));
                prop_assert_eq!(backoff.may_try(address(1), at + left.as_millis() as u64), Ok(()));
            }
        }
    }
}
