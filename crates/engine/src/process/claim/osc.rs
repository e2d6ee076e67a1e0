//! Finds in a terminal program's output what terminals are told besides what they draw: operating system commands, the
//! bell, a full reset. Everything else is passed over at the speed of a search for two bytes.

use memchr::memchr2;

/// The longest command that is looked at. What is longer is passed over to its end.
pub(super) const COMMAND_MAX: usize = 4096;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
/// Both abort whatever has begun.
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// How a command ended; an answer ends in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Bell,
    St,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sequence<'a> {
    /// What stands between `ESC ]` and its end, and the offset in the output after that end.
    Command { body: &'a [u8], end: End, after: u64 },
    /// The bell, outside of any command.
    Bell,
    /// `ESC c`.
    Reset,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Command,
    /// ESC inside a command.
    CommandEscape,
    /// A string for somebody else: device control, privacy, application.
    Other,
    OtherEscape,
}

/// Goes on where the last piece of output ended, wherever that was.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    state: State,
    body: Vec<u8>,
    too_long: bool,
    /// Where the next byte stands in all that was written.
    offset: u64,
}

impl Splitter {
    /// Goes on at another place: what was begun is not known to go on there.
    pub(super) fn skip_to(&mut self, offset: u64) {
        *self = Self { offset, ..Self::default() };
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn feed(&mut self, bytes: &[u8], mut told: impl FnMut(Sequence<'_>)) {
        let mut rest = bytes;
        loop {
            let plain = match self.state {
                State::Ground => memchr2(ESC, BEL, rest),
                State::Command | State::Other => rest.iter().position(|byte| matches!(*byte, ESC | BEL | CAN | SUB)),
                State::Escape | State::CommandEscape | State::OtherEscape => Some(0),
            };
            let (passed, after) = rest.split_at(plain.unwrap_or(rest.len()));
            self.offset += passed.len() as u64;
            if self.state == State::Command {
                self.keep(passed);
            }
            let Some((&byte, after)) = after.split_first() else { return };
            self.offset += 1;
            self.step(byte, &mut told);
            rest = after;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.body.len() + bytes.len() <= COMMAND_MAX {
            self.body.extend_from_slice(bytes);
        } else {
            self.too_long = true;
        }
    }

    fn step(&mut self, byte: u8, told: &mut impl FnMut(Sequence<'_>)) {
        self.state = match (self.state, byte) {
            (_, CAN | SUB) => State::Ground,
            (State::Command, BEL) => self.end(End::Bell, told),
            (State::CommandEscape, b'\\') => self.end(End::St, told),
            (State::Command, _) => State::CommandEscape,
            (State::Other, BEL) | (State::OtherEscape, b'\\') => State::Ground,
            (State::Other, _) => State::OtherEscape,
            (State::Ground | State::Escape, BEL) => {
                told(Sequence::Bell);
                self.state
            }
            (_, ESC) => State::Escape,
            // Any other sequence ends a string without its terminator.
            (State::Escape | State::CommandEscape | State::OtherEscape, byte) => match byte {
                b']' => {
                    self.body.clear();
                    self.too_long = false;
                    State::Command
                }
                b'P' | b'X' | b'^' | b'_' => State::Other,
                b'c' => {
                    told(Sequence::Reset);
                    State::Ground
                }
                // Terminals obey these in the middle of a sequence.
                0..0x20 => State::Escape,
                _ => State::Ground,
            },
            (State::Ground, _) => State::Ground,
        };
    }

    fn end(&mut self, end: End, told: &mut impl FnMut(Sequence<'_>)) -> State {
        if !self.too_long {
            told(Sequence::Command { body: &self.body, end, after: self.offset });
        }
        State::Ground
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(bytes: &[u8], sizes: &[usize]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let (mut found, mut rest, mut sizes) = (Vec::new(), bytes, sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
            splitter.feed(piece, |told| {
                found.push(match told {
                    Sequence::Command { body, end, after } => format!("{} {end:?} {after}", body.escape_ascii()),
                    other => format!("{other:?}"),
                })
            });
            rest = after;
        }
        assert_eq!(splitter.offset(), bytes.len() as u64);
        found
    }

    #[test]
    fn commands_bells_and_resets_are_found_and_a_sequence_ends_a_string_before_its_time() {
        let bytes =
            b"a\x1b[1m\x1b]0;t\x07\x07\x1bPq\x1b]0;no\x07x\x1b\\\x1b]9;hi\x1b\\\x1bc\x1b]lost\x1b[m\x1b]2;cut\x18\x07";
        let found = split(bytes, &[bytes.len()]);
        assert_eq!(found, ["0;t Bell 11", "Bell", "0;no Bell 22", "9;hi St 33", "Reset", "Bell"]);
    }

    #[test]
    fn a_command_that_never_ends_costs_bounded_memory() {
        let mut splitter = Splitter::default();
        splitter.feed(b"\x1b]0;", |_| panic!());
        for _ in 0..1000 {
            splitter.feed(&[b'x'; 1000], |told| panic!("{told:?}"));
        }
        assert!(splitter.body.capacity() <= 2 * COMMAND_MAX);
        splitter.feed(b"\x07", |told| panic!("{told:?}"));
        let mut rang = 0;
        splitter.feed(b"\x07", |told| rang += u32::from(told == Sequence::Bell));
        assert_eq!(rang, 1);
    }

    proptest! {
        #[test]
        fn wherever_the_pieces_end_the_same_is_found(
            bytes in proptest::collection::vec(
                prop_oneof![Just(0x1b_u8), Just(7), Just(b']'), Just(b'\\'), Just(b'c'), Just(b'P'), Just(0x18), any::<u8>()],
                1..200,
            ),
            sizes in proptest::collection::vec(1_usize..9, 1..8),
        ) {
            prop_assert_eq!(split(&bytes, &sizes), split(&bytes, &[bytes.len()]));
        }
    }
}
