//! What a terminal program claims to be doing: folded from what it tells its terminal anyway, after that is in the journal.
//! A pure fold over bytes and times; [`follow`] reads the journal for it. A claim grants nothing, and everything in it is a
//! stranger's words.

mod follow;
mod osc;
mod signs;
mod status;

pub(super) use follow::{Claims, Following};
pub use status::{Doing, Need};

use osc::{End, Sequence, Splitter};
use signs::Signs;
use status::Records;

/// Characters of a text in a claim: one line of a list.
const TEXT_MAX: usize = 200;

/// What a program claims to be doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What.
    pub doing: Doing,
    /// Said in the program status protocol; else a guess from weaker signs.
    pub reported: bool,
    /// What the program calls itself.
    pub app: Option<String>,
    /// What it works at.
    pub title: Option<String>,
    /// What it has to say about it.
    pub message: Option<String>,
    /// How far it is, of 100.
    pub progress: Option<u8>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A program asks whether its terminal knows the program status protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Query {
    /// Where in its output the question ends.
    pub(super) after: u64,
    end: End,
}

impl Query {
    /// The same words, ended in the same way.
    pub(super) fn answer(self) -> &'static [u8] {
        match self.end {
            End::Bell => b"\x1b]7501;?\x07",
            End::St => b"\x1b]7501;?\x1b\\",
        }
    }
}

/// Everything that was told so far, summed up.
#[derive(Debug, Default)]
pub(super) struct Fold {
    splitter: Splitter,
    records: Records,
    signs: Signs,
}

impl Fold {
    /// Takes the piece of output that begins at `from`; gives back what was asked in it.
    pub(super) fn feed(&mut self, from: u64, bytes: &[u8], now_ms: u64) -> Vec<Query> {
        if from != self.splitter.offset() {
            self.splitter.skip_to(from);
        }
        let Self { splitter, records, signs } = self;
        let mut asked = Vec::new();
        splitter.feed(bytes, |told| match told {
            Sequence::Bell => signs.bell(now_ms),
            Sequence::Reset => {
                records.reset();
                signs.reset();
            }
            Sequence::Command { body, end, after } => {
                let (number, rest) = match body.iter().position(|byte| *byte == b';') {
                    Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..).unwrap_or_default()),
                    None => (body, &[][..]),
                };
                match number {
                    b"7501" if rest == b"?" => asked.push(Query { after, end }),
                    b"7501" => records.report(rest, now_ms),
                    b"0" | b"2" => signs.title(rest, now_ms),
                    b"9" => signs.nine(rest, now_ms),
                    b"99" => signs.kitty(rest, now_ms),
                    b"777" => signs.seven(rest, now_ms),
                    b"133" if signs.mark(rest, now_ms) => records.prompt(),
                    _ => {}
                }
            }
        });
        asked
    }

    /// What it comes to now.
    pub(super) fn claim(&self, now_ms: u64) -> Option<Claim> {
        if let Some((record, app)) = self.records.shown() {
            return Some(Claim {
                doing: record.doing,
                reported: true,
                app: app.map(brief),
                title: record.title.as_deref().map(brief),
                message: record.message.as_deref().map(brief),
                progress: record.progress,
                since_ms: record.time_ms,
            });
        }
        let seen = self.signs.seen(now_ms).filter(|_| !self.records.spoken)?;
        Some(Claim {
            doing: seen.doing,
            reported: false,
            app: None,
            title: None,
            message: seen.message.as_deref().map(brief),
            progress: seen.progress,
            since_ms: seen.since_ms,
        })
    }
}

fn brief(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claimed(bytes: &[u8]) -> Option<Doing> {
        let mut fold = Fold::default();
        fold.feed(0, bytes, 0);
        fold.claim(0).map(|claim| claim.doing)
    }

    #[test]
    fn a_question_is_heard_with_its_place_and_answered_as_it_was_asked() {
        let mut fold = Fold::default();
        assert_eq!(fold.feed(0, b"ab\x1b]7501", 0), []);
        let asked = fold.feed(8, b";?\x07x\x1b]7501;?\x1b\\", 0);
        let answers: Vec<(u64, &[u8])> = asked.iter().map(|query| (query.after, query.answer())).collect();
        assert_eq!(answers, [(11, &b"\x1b]7501;?\x07"[..]), (22, b"\x1b]7501;?\x1b\\")]);
        assert_eq!(fold.claim(0), None, "asking says nothing about what is done");
    }

    #[test]
    fn what_a_program_says_of_itself_goes_before_every_sign() {
        assert_eq!(claimed(b"\x1b]9;4;3\x07"), Some(Doing::Working));
        assert_eq!(claimed(b"\x1b]7501;state=done\x07\x1b]9;4;3\x07"), Some(Doing::Done));
        assert_eq!(claimed(b"\x1b]9;4;3\x07\x1b]7501;state=clear\x07"), None);
        // The next prompt of a shell may be another program's.
        assert_eq!(claimed(b"\x1b]7501;state=working\x07\x1b]133;A\x07\x1b]9;4;3\x07"), Some(Doing::Working));
    }

    #[test]
    fn a_full_reset_takes_everything_and_a_soft_one_nothing() {
        assert_eq!(claimed(b"\x1b]7501;state=done\x07\x1b[!p\x1b[?1049h\x1b[2J"), Some(Doing::Done));
        assert_eq!(claimed(b"\x1b]9;4;3\x07\x1b]7501;state=done\x07\x1bc"), None);
    }

    #[test]
    fn a_command_of_more_than_4096_bytes_is_no_report() {
        let long = |length: usize| {
            let mut bytes = b"\x1b]7501;state=done:id=".to_vec();
            bytes.resize(2 + length, b'x');
            bytes.push(7);
            bytes
        };
        assert_eq!((claimed(&long(4096)), claimed(&long(4097))), (Some(Doing::Done), None));
    }

    #[test]
    fn after_a_gap_a_half_command_is_forgotten() {
        let mut fold = Fold::default();
        fold.feed(0, b"\x1b]7501;state=wor", 0);
        fold.feed(100, b"king\x07\x1b]7501;state=idle\x07", 0);
        assert_eq!(fold.claim(0).map(|claim| claim.doing), Some(Doing::Idle));
    }

    #[test]
    fn texts_are_short() {
        let mut fold = Fold::default();
        fold.feed(0, format!("\x1b]7501;state=idle:app={}\x07", "é".repeat(1000)).as_bytes(), 0);
        assert_eq!(fold.claim(0).unwrap().app.unwrap().chars().count(), TEXT_MAX + 1);
    }

    const PARTS: &[&[u8]] = &[
        b"\x1b]7501;?\x07",
        b"\x1b]7501;?\x1b\\",
        b"\x1b]7501;state=working:id=a/b:app=x\x07",
        b"\x1b]7501;state=blocked:kind=question:title=aGk\x1b\\",
        b"\x1b]7501;state=clear:id=a\x07",
        b"\x1b]133;A\x07",
        b"\x1b]9;4;1;50\x07",
        b"\x1b]0;\xe2\xa0\x90 x\x07",
        b"\x1bc",
        b"\x07",
        b"text\r\n",
        b"\x1b[2J",
        b"\x1b]",
        b"\x1b",
    ];

    proptest! {
        #[test]
        fn wherever_frames_end_the_claim_and_the_questions_are_the_same(
            parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..12),
            sizes in proptest::collection::vec(1_usize..12, 1..6),
        ) {
            let bytes = parts.concat();
            let (mut whole, mut pieces) = (Fold::default(), Fold::default());
            let asked = whole.feed(0, &bytes, 5);
            let (mut at, mut asked_in_pieces, mut sizes) = (0, Vec::new(), sizes.iter().cycle());
            while at < bytes.len() {
                let end = (at + sizes.next().unwrap()).min(bytes.len());
                asked_in_pieces.extend(pieces.feed(at as u64, &bytes[at..end], 5));
                at = end;
            }
            prop_assert_eq!(asked, asked_in_pieces);
            prop_assert_eq!(whole.claim(9), pieces.claim(9));
        }

        #[test]
        fn nothing_makes_it_fall(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut fold = Fold::default();
            fold.feed(0, &bytes, 0);
            let _ = fold.claim(1);
        }
    }
}
