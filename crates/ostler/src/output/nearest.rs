//! "Did you mean": the known word nearest to a mistyped one.

/// Farther than this is a guess, not a suggestion.
const NEAR: f64 = 0.75;

pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(typed, word), word))
        .filter(|(score, _)| *score > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_corrected_and_a_stranger_is_not() {
        assert_eq!(nearest("TREM", ["INT", "TERM", "KILL"]), Some("TERM"));
        assert_eq!(nearest("zebra", ["INT", "TERM", "KILL"]), None);
    }
}
