//! Lines of a file from a place on, or back from it, in bounded pieces: a line that is longer than anybody reads is passed over and
//! counted, and what is not ended by a line feed is not told yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// 16 MiB: more than the longest line of a real transcript, a picture in base64.
pub const LINE_MAX: usize = 16 << 20;
/// 128 KiB: where reading costs no more than copying.
const CHUNK: usize = 128 << 10;

/// A line without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It is longer than [`LINE_MAX`].
    TooLong,
}

/// Hears of every line: where it begins, where the next begins, and what it is; says whether to go on.
type Take<'a> = &'a mut dyn FnMut(u64, u64, Line<'_>) -> bool;

/// Reads on from `from`, the beginning of a line, and not beyond `to`. Where the first line begins that was not told.
pub(super) fn forward(file: &File, from: u64, to: u64, take: Take<'_>) -> io::Result<u64> {
    let (mut start, mut at) = (from, from);
    let mut line: Vec<u8> = Vec::new();
    let mut chunk = vec![0_u8; CHUNK];
    let mut over = false;
    while at < to {
        let want = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
        let count = file.read_at(chunk.get_mut(..want).unwrap_or_default(), at)?;
        if count == 0 {
            break;
        }
        at += count as u64;
        let mut rest = chunk.get(..count).unwrap_or_default();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (piece, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let next = at - rest.len() as u64;
            let whole = if line.is_empty() {
                piece
            } else {
                line.extend_from_slice(piece);
                &line
            };
            let told = if over || whole.len() > LINE_MAX { Line::TooLong } else { Line::Whole(whole) };
            let go_on = take(start, next, told);
            line.clear();
            (over, start) = (false, next);
            if !go_on {
                return Ok(start);
            }
        }
        over = over || line.len() + rest.len() > LINE_MAX;
        if over {
            line = Vec::new();
        } else {
            line.extend_from_slice(rest);
        }
    }
    Ok(start)
}

/// Reads back from `before`, the beginning of a line: the line that ends there comes first.
pub(super) fn backward(file: &File, before: u64, take: Take<'_>) -> io::Result<()> {
    // What was read and not told: it ends where the last told line begins.
    let mut held: Vec<u8> = Vec::new();
    let (mut end, mut low, mut over) = (before, before, false);
    let mut size = CHUNK / 2;
    while low > 0 {
        let want = size.min(usize::try_from(low).unwrap_or(size));
        let mut piece = vec![0_u8; want];
        low -= want as u64;
        file.read_exact_at(&mut piece, low)?;
        // Long lines are read in pieces that grow, so that joining them costs little.
        size = (size * 2).min(LINE_MAX / 4);
        piece.append(&mut held);
        held = piece;
        // The last byte is the line feed of the line that is looked for; one before it ends the line above.
        loop {
            let inner = held.len().saturating_sub(usize::from(!over));
            let Some(feed) = memchr::memrchr(b'\n', held.get(..inner).unwrap_or_default()) else { break };
            let start = low + feed as u64 + 1;
            let line = held.get(feed + 1..inner).unwrap_or_default();
            let told = if over || line.len() > LINE_MAX { Line::TooLong } else { Line::Whole(line) };
            if !take(start, end, told) {
                return Ok(());
            }
            held.truncate(feed + 1);
            (end, over, size) = (start, false, CHUNK / 2);
        }
        if held.len() > LINE_MAX + 1 {
            (held, over) = (Vec::new(), true);
        }
    }
    if end > 0 {
        let line = held.get(..held.len().saturating_sub(1)).unwrap_or_default();
        take(0, end, if over { Line::TooLong } else { Line::Whole(line) });
    }
    Ok(())
}

/// Where the last line that is ended ends.
pub(super) fn end(file: &File, size: u64) -> io::Result<u64> {
    let (mut high, mut chunk) = (size, vec![0_u8; CHUNK / 2]);
    while high > 0 {
        let want = usize::try_from(high).unwrap_or(chunk.len()).min(chunk.len());
        let piece = chunk.get_mut(..want).unwrap_or_default();
        let low = high - want as u64;
        file.read_exact_at(piece, low)?;
        if let Some(feed) = memchr::memrchr(b'\n', piece) {
            return Ok(low + feed as u64 + 1);
        }
        high = low;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    type Seen = Vec<(u64, u64, Option<Vec<u8>>)>;

    fn seen(line: Line<'_>) -> Option<Vec<u8>> {
        match line {
            Line::Whole(bytes) => Some(bytes.to_vec()),
            Line::TooLong => None,
        }
    }

    fn both(content: &[u8]) -> (Seen, Seen) {
        let file = file(content);
        let size = content.len() as u64;
        let (mut on, mut back) = (Vec::new(), Vec::new());
        let ended = forward(&file, 0, size, &mut |start, next, line| {
            on.push((start, next, seen(line)));
            true
        })
        .unwrap();
        assert_eq!(ended, end(&file, size).unwrap());
        backward(&file, ended, &mut |start, next, line| {
            back.push((start, next, seen(line)));
            true
        })
        .unwrap();
        back.reverse();
        (on, back)
    }

    #[test]
    fn both_ways_tell_the_same_lines() {
        for content in ["", "a", "\n", "\n\n", "a\n", "a\nbc\n\nd", "x\ny\n"] {
            let (on, back) = both(content.as_bytes());
            assert_eq!(on, back, "{content:?}");
            let want = content.matches('\n').count();
            assert_eq!(on.len(), want, "{content:?}: what is not ended is not told");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_both_ways() {
        let mut content = b"first\n".to_vec();
        content.extend(vec![b'x'; LINE_MAX + 10]);
        content.extend(b"\nlast\n");
        content.extend(vec![b'y'; 3 * LINE_MAX]);
        content.extend(b"\nend\n");
        let (on, back) = both(&content);
        assert_eq!(on, back);
        let told: Vec<bool> = on.iter().map(|(_, _, line)| line.is_some()).collect();
        assert_eq!(told, [true, false, true, false, true]);
    }

    #[test]
    fn lines_across_pieces_are_whole() {
        let long = vec![b'z'; CHUNK * 3 + 7];
        let content = [b"a\n".as_slice(), &long, b"\nb\n"].concat();
        let (on, back) = both(&content);
        assert_eq!(on, back);
        assert_eq!(on[1].2.as_deref(), Some(long.as_slice()));
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_bytes_are_both_ways_agree(content in proptest::collection::vec(0_u8..16, 0..4000)) {
            let (on, back) = both(&content);
            assert_eq!(on, back);
        }
    }
}
