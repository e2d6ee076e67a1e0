//! Takes a program's question whether its terminal knows the status protocol out of what ours is shown: the daemon answers
//! it, and two answers would be one too many. Reports pass.

const QUESTION: &[u8] = b"\x1b]7501;?";
const ENDS: [&[u8]; 2] = [b"\x07", b"\x1b\\"];

#[derive(Debug, Default)]
pub(crate) struct Unasked {
    /// What may be the beginning of one; shorter than a question.
    held: Vec<u8>,
}

impl Unasked {
    /// Appends what is to be shown of `bytes` to `out`.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = std::mem::take(&mut self.held);
        rest.extend_from_slice(bytes);
        let mut rest = rest.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
            let (plain, from) = rest.split_at(at);
            out.extend_from_slice(plain);
            match asked(from) {
                Asked::No => {
                    out.push(0x1b);
                    rest = from.get(1..).unwrap_or_default();
                }
                Asked::Yes(length) => rest = from.get(length..).unwrap_or_default(),
                Asked::Perhaps => {
                    self.held.extend_from_slice(from);
                    return;
                }
            }
        }
        out.extend_from_slice(rest);
    }

    /// What was held back, at the end.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}

enum Asked {
    Yes(usize),
    Perhaps,
    No,
}

fn asked(from: &[u8]) -> Asked {
    let whole = |end: &&[u8]| [QUESTION, end].concat();
    for question in ENDS.iter().map(whole) {
        if from.starts_with(&question) {
            return Asked::Yes(question.len());
        }
        if question.starts_with(from) {
            return Asked::Perhaps;
        }
    }
    Asked::No
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_question_is_left_out_wherever_a_frame_ends() {
        let bytes = b"a\x1b]7501;?\x07b\x1b]7501;?\x1b\\c\x1b]7501;state=working\x07\x1b\x1b]7501;?!\x1b[6n\x1b]7501;?";
        for size in 1..=bytes.len() {
            let (mut unasked, mut out) = (Unasked::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                unasked.feed(chunk, &mut out);
                assert!(unasked.held.len() < 10);
            }
            unasked.finish(&mut out);
            let shown = b"abc\x1b]7501;state=working\x07\x1b\x1b]7501;?!\x1b[6n\x1b]7501;?";
            assert_eq!(out, shown, "chunks of {size}");
        }
    }
}
