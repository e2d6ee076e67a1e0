//! How many there are of something, in words.

/// `1 entry`, `2 entries`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Entries of the audit.
pub(crate) fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(super::entries), ["0 entries", "1 entry", "2 entries"]);
    }
}
