//! "Did you mean": the known word nearest to a mistyped one.

/// Farther than this is a guess, not a suggestion.
const NEAR: f64 = 0.75;
/// Of two words that are as near, the one that is as long as what was typed.
const A_LETTER: f64 = 0.01;

pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (nearness(typed, word), word))
        .filter(|(score, _)| *score > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// Above 1 for a single slip: a letter too many, too few, changed, or two the wrong way round.
fn nearness(typed: &str, word: &str) -> f64 {
    let is_slip = word.len() > 1 && strsim::osa_distance(typed, word) <= 1;
    let longer = u32::try_from(typed.len().abs_diff(word.len())).unwrap_or(u32::MAX);
    f64::from(is_slip) + strsim::jaro_winkler(typed, word) - A_LETTER * f64::from(longer)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_corrected_and_a_stranger_is_not() {
        assert_eq!(nearest("TREM", ["INT", "TERM", "KILL"]), Some("TERM"));
        assert_eq!(nearest("zebra", ["INT", "TERM", "KILL"]), None);
    }

    #[test]
    fn one_slip_is_enough_for_a_short_word() {
        let flags = ["env", "key", "keep", "mode", "model", "md"];
        for (typed, meant) in [("evn", "env"), ("ky", "key"), ("kye", "key"), ("modle", "model"), ("dm", "md")] {
            assert_eq!(nearest(typed, flags), Some(meant), "{typed}");
        }
        assert_eq!(nearest("x", ["t", "f"]), None);
    }
}
