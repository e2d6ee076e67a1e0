//! Framing and dispatcher: however a stream of bytes is cut into reads, the same lines come out of it, and no line
//! can do harm before its sender is known. Shared with `fuzz/`, so it uses nothing of this program.

use ostler_door_claustrum::fuzz_line;
use ostler_door_rpc::{LineBuffer, TooLong};

/// Small, so that inputs reach it.
const MAX: usize = 1000;

/// The first byte says how the rest is cut.
pub(crate) fn check(input: &[u8]) -> Result<(), String> {
    let Some((cut, bytes)) = input.split_first() else { return Ok(()) };
    let cut = usize::from(*cut).max(1);
    let expected = model(bytes);
    let found = feed(bytes, cut);
    if expected != found {
        return Err(format!("in reads of {cut} bytes: wanted {expected:?}, found {found:?}"));
    }
    for line in &found.0 {
        fuzz_line(line);
    }
    fuzz_line(bytes);
    Ok(())
}

/// Whole lines, and whether one was too long.
type Outcome = (Vec<Vec<u8>>, bool);

fn model(bytes: &[u8]) -> Outcome {
    let mut lines = Vec::new();
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        let whole = piece.strip_suffix(b"\n");
        if whole.unwrap_or(piece).len() > MAX {
            return (lines, true);
        }
        if let Some(line) = whole {
            lines.push(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
        }
    }
    (lines, false)
}

fn feed(bytes: &[u8], cut: usize) -> Outcome {
    let mut buffer = LineBuffer::new(MAX);
    let mut lines = Vec::new();
    for read in bytes.chunks(cut) {
        buffer.room().extend_from_slice(read);
        loop {
            match buffer.next_line() {
                Ok(Some(line)) => lines.push(line.to_vec()),
                Ok(None) => break,
                Err(TooLong) => return (lines, true),
            }
        }
    }
    (lines, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_says_what_a_line_is() {
        assert_eq!(model(b"a\r\n\nb\r\r\nc"), (vec![b"a".to_vec(), vec![], b"b\r".to_vec()], false));
        assert_eq!(model(&[b'x'; MAX + 1]), (vec![], true));
    }
}
