//! What a key means. One byte, no Enter: everything that is not a clear yes is a no.

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAnswer {
    Yes,
    /// Yes, and unprivileged commands need not ask again if that may be granted here.
    YesFromNowOn,
    No,
}

/// The meaning of `key` at a prompt. Root is never granted ahead of time.
pub(super) fn meaning(key: u8, privileged: bool) -> KeyAnswer {
    match (key, privileged) {
        (b'y' | b'Y', _) => KeyAnswer::Yes,
        (b'a' | b'A', false) => KeyAnswer::YesFromNowOn,
        _ => KeyAnswer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_approves_and_a_only_what_is_unprivileged() {
        for key in 0..=u8::MAX {
            for privileged in [false, true] {
                let expected = match key {
                    b'y' | b'Y' => KeyAnswer::Yes,
                    b'a' | b'A' if !privileged => KeyAnswer::YesFromNowOn,
                    _ => KeyAnswer::No,
                };
                assert_eq!(meaning(key, privileged), expected, "{key} {privileged}");
            }
        }
    }
}
