//! The numbers of our requests: what each was for can be read from it.

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Initialize,
    Thread,
    Turn,
    Steer,
    Interrupt,
}

/// The first number that belongs to a turn; below it are the two that open the conversation.
const FIRST: u64 = 3;

impl For {
    /// The number of the `n`-th request (from 0) of this sort.
    pub(super) fn number(self, n: u64) -> u64 {
        match self {
            For::Initialize => 1,
            For::Thread => 2,
            For::Turn => FIRST + n * 3,
            For::Steer => FIRST + n * 3 + 1,
            For::Interrupt => FIRST + n * 3 + 2,
        }
    }

    /// What a number is for.
    pub(super) fn of(number: u64) -> Option<For> {
        Some(match (number, number % 3) {
            (0, _) => return None,
            (1, _) => For::Initialize,
            (2, _) => For::Thread,
            (_, 0) => For::Turn,
            (_, 1) => For::Steer,
            _ => For::Interrupt,
        })
    }
}

/// What has been sent: how many of each sort.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) initialize: bool,
    pub(super) thread: bool,
    pub(super) turns: u64,
    pub(super) steers: u64,
    pub(super) interrupts: u64,
}

impl Sent {
    /// A request with this number is in the ledger.
    pub(super) fn note(&mut self, number: &str) {
        let Ok(number) = number.parse::<u64>() else { return };
        let count = number.saturating_sub(FIRST) / 3 + 1;
        match For::of(number) {
            Some(For::Initialize) => self.initialize = true,
            Some(For::Thread) => self.thread = true,
            Some(For::Turn) => self.turns = self.turns.max(count),
            Some(For::Steer) => self.steers = self.steers.max(count),
            Some(For::Interrupt) => self.interrupts = self.interrupts.max(count),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_what_it_is_for() {
        for n in 0..50 {
            for what in [For::Turn, For::Steer, For::Interrupt] {
                assert_eq!(For::of(what.number(n)), Some(what));
                let mut sent = Sent::default();
                sent.note(&what.number(n).to_string());
                assert_eq!(sent.turns + sent.steers + sent.interrupts, n + 1);
            }
        }
        assert_eq!((For::of(1), For::of(2)), (Some(For::Initialize), Some(For::Thread)));
    }
}
