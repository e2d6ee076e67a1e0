//! How much of a text fits a line once it is written as JSON. Clients read lines up to a length of their own.

/// The most that one byte becomes: a control character.
const ESCAPED_MAX: usize = 6;

/// The bytes of a letter in JSON.
pub fn escaped(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        letter if letter < ' ' => ESCAPED_MAX,
        letter => letter.len_utf8(),
    }
}

/// How much of a text has at most so many bytes once it is written as JSON; at least one letter.
pub fn fitting(text: &str, max: usize) -> usize {
    if text.len() <= max / ESCAPED_MAX {
        return text.len();
    }
    let mut bytes = 0;
    let too_long = |(at, letter): &(usize, char)| {
        bytes += escaped(*letter);
        bytes > max && *at > 0
    };
    text.char_indices().find(too_long).map_or(text.len(), |(at, _)| at)
}

/// A text in pieces that fit a line each.
pub fn fitting_pieces(mut text: &str, max: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at_checked(fitting(text, max)).filter(|(piece, _)| !piece.is_empty())?;
        text = rest;
        Some(piece)
    })
}
