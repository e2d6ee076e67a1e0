//! What a key means. One byte, no Enter: everything that is not a clear yes is a no.

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    /// Yes, and unprivileged commands need not ask again if that may be granted here.
    YesFromNowOn,
    No,
}

/// The meaning of `key` at a prompt. Root is never granted ahead of time.
pub(super) fn meaning(key: u8, privileged: bool) -> Said {
    match (key, privileged) {
        (b'y' | b'Y', _) => Said::Yes,
        (b'a' | b'A', false) => Said::YesFromNowOn,
        _ => Said::No,
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
                    b'y' | b'Y' => Said::Yes,
                    b'a' | b'A' if !privileged => Said::YesFromNowOn,
                    _ => Said::No,
                };
                assert_eq!(meaning(key, privileged), expected, "{key} {privileged}");
            }
        }
    }
}
