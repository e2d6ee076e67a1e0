//! Letters that stand for a path: the better they fit its parts, the higher it ranks. Of all ways in which the letters lie in a
//! path the best one counts: at the beginnings of names and words, in a row, in the last name rather than in its folders.

/// Letters of a query that count; the rest of a longer one is left out.
const LETTERS_MAX: usize = 64;
/// Of a longer path only the end is looked at.
const PATH_MAX: usize = 1024;

/// A letter that fits.
const FITS: i32 = 16;
/// It follows the one before it.
const ROW: i32 = 12;
/// It begins a name, or a word in a name.
const NAME: i32 = 12;
const WORD: i32 = 8;
/// It lies in the last name.
const LAST: i32 = 3;
/// Each letter that is left out in between.
const GAP: i32 = 1;
/// No way to lie.
const NEVER: i32 = i32::MIN / 2;
/// The worst that a way can come to is far above that.
const EVER: i32 = NEVER / 2;

/// A query, ready to be held against many paths.
pub(super) struct Fuzzy {
    words: Vec<Vec<char>>,
    sensitive: bool,
    letters: u64,
    path: Vec<(char, i32)>,
}

impl Fuzzy {
    /// Words that all must fit; small letters fit capitals too.
    pub(super) fn new(query: &str) -> Self {
        let sensitive = query.chars().any(char::is_uppercase);
        let words = query.split_whitespace().map(|word| word.chars().take(LETTERS_MAX).collect()).collect();
        let letters = if query.is_ascii() { letters(query.trim().as_bytes()) } else { 0 };
        Self { words, sensitive, letters, path: Vec::new() }
    }

    /// How well a path fits; nothing where it does not. `known` are its letters.
    pub(super) fn score(&mut self, path: &[u8], known: u64) -> Option<u32> {
        if self.letters & !known != 0 {
            return None;
        }
        let path = path.get(path.len().saturating_sub(PATH_MAX)..).unwrap_or(path);
        let ascii = path.is_ascii();
        // Most paths have the letters and not in their order: weighing them is left out.
        if ascii && !self.words.iter().all(|word| lie_in_order(word, path, self.sensitive)) {
            return None;
        }
        let last = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        let (mut before, sensitive) = ('/', self.sensitive);
        let mut weigh = |at: usize, letter: char| {
            let begins = match before {
                '/' => NAME,
                '_' | '-' | '.' | ' ' => WORD,
                before if before.is_lowercase() && letter.is_uppercase() => WORD,
                _ => 0,
            };
            before = letter;
            let letter = if sensitive { letter } else { lower(letter) };
            (letter, begins + if at >= last { LAST } else { 0 })
        };
        self.path.clear();
        if ascii {
            self.path.extend(path.iter().enumerate().map(|(at, byte)| weigh(at, char::from(*byte))));
        } else {
            let text = String::from_utf8_lossy(path);
            self.path.extend(text.char_indices().map(|(at, letter)| weigh(at, letter)));
        }
        let scores = self.words.iter().map(|word| best(word, &self.path));
        let sum = scores.sum::<Option<i32>>()?;
        Some(u32::try_from(sum.max(0)).unwrap_or(0))
    }
}

/// As most letters have one small one.
fn lower(letter: char) -> char {
    letter.to_lowercase().next().unwrap_or(letter)
}

/// Whether letters lie in a path of ASCII at all, in their order.
fn lie_in_order(word: &[char], path: &[u8], sensitive: bool) -> bool {
    let mut path = path.iter().map(|byte| char::from(if sensitive { *byte } else { byte.to_ascii_lowercase() }));
    word.iter().all(|letter| path.any(|other| other == *letter))
}

/// The best way in which letters lie in a path, in their order.
fn best(word: &[char], path: &[(char, i32)]) -> Option<i32> {
    // For each letter: the best with it at the place before this one, and with it anywhere before, less what was left out since.
    let (mut here, mut before) = ([NEVER; LETTERS_MAX], [NEVER; LETTERS_MAX]);
    let mut found = NEVER;
    for (letter, weight) in path {
        // From the last to the first: each is told what the one before it was at the place before.
        for at in (0..word.len()).rev() {
            let row = at.checked_sub(1).and_then(|at| here.get(at)).map_or(NEVER, |score| score + ROW);
            let apart = at.checked_sub(1).and_then(|at| before.get(at)).copied().unwrap_or(0);
            let fits = word.get(at) == Some(letter);
            let score = if fits && row.max(apart) > EVER { row.max(apart) + FITS + weight } else { NEVER };
            if let (Some(here), Some(before)) = (here.get_mut(at), before.get_mut(at)) {
                *before = (*before).max(*here) - GAP;
                *here = score;
            }
            if at + 1 == word.len() {
                found = found.max(score);
            }
        }
    }
    (found > EVER).then_some(found)
}

/// Which letters and digits a text has, as bits; capitals count as small ones.
pub(super) fn letters(text: &[u8]) -> u64 {
    let bit = |byte: &u8| match byte.to_ascii_lowercase() {
        letter @ b'a'..=b'z' => 1_u64 << (letter - b'a'),
        digit @ b'0'..=b'9' => 1 << (26 + digit - b'0'),
        b'/' => 1 << 36,
        b'.' => 1 << 37,
        b'_' => 1 << 38,
        b'-' => 1 << 39,
        _ => 0,
    };
    // What is no ASCII may have a small letter that is: such a path is always looked at.
    if text.is_ascii() { text.iter().fold(0, |letters, byte| letters | bit(byte)) } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn score(query: &str, path: &str) -> Option<u32> {
        Fuzzy::new(query).score(path.as_bytes(), letters(path.as_bytes()))
    }

    #[test]
    fn letters_in_their_order_are_enough_and_parts_of_a_path_weigh_more() {
        assert!(score("utl", "src/utils.js").is_some() && score("ult", "src/utils.js").is_none());
        let better = [
            ("main", "src/main.rs", "src/domain/xyz.rs"),
            ("main", "src/main.rs", "src/m/a/i/n/x.rs"),
            ("ft", "src/file_tree.rs", "src/left.rs"),
            ("ft", "src/FileTree.rs", "src/left.rs"),
            ("test", "src/test.rs", "test/other/src.rs"),
            ("watchmod", "crates/workspace/src/watch/mod.rs", "crates/watch_it/src/model.rs"),
        ];
        for (query, good, bad) in better {
            assert!(
                score(query, good) > score(query, bad),
                "{query}: {:?} {:?}",
                score(query, good),
                score(query, bad)
            );
        }
        assert!(score("Main", "src/main.rs").is_none(), "a capital means a capital");
        assert!(score("Main", "src/Main.rs").is_some() && score("main", "src/Main.rs").is_some());
        assert!(score("rs main", "src/main.rs").is_some() && score("main zzz", "src/main.rs").is_none());
        assert!(score("grü", "GRÜSSE.txt").is_some() && score("gru", "grüße.txt").is_none());
    }

    proptest! {
        /// A path fits exactly when the letters are in it in their order, whatever they weigh.
        #[test]
        fn whatever_lies_in_a_path_in_its_order_is_found_and_nothing_else(word in "[ab/_c]{1,6}", path in "[abc/_.]{0,40}") {
            let mut rest = path.chars();
            let there = word.chars().all(|letter| rest.any(|other| other == letter));
            prop_assert_eq!(score(&word, &path).is_some(), there);
        }
    }
}
