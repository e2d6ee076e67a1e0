//! Keys as terminals send them.

use crate::config::DetachKey;

/// Where the key was pressed: as a control character, or in one of the two ways by which programs can ask terminals to
/// send every key in full.
pub(super) fn find_key(data: &[u8], key: DetachKey) -> Option<usize> {
    let letter = (key.byte() | 0x40).to_ascii_lowercase();
    let spellings = [vec![key.byte()], format!("\x1b[{letter};5u").into(), format!("\x1b[27;5;{letter}~").into()];
    spellings.iter().filter_map(|one| data.windows(one.len()).position(|part| part == one.as_slice())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detach_key_is_found_in_every_spelling() {
        let key = DetachKey::default();
        assert_eq!(find_key(b"ab\x1d", key), Some(2));
        assert_eq!(find_key(b"\x1b[93;5u", key), Some(0));
        assert_eq!(find_key(b"x\x1b[27;5;93~", key), Some(1));
        assert_eq!(find_key(b"plain ] and \x1b[93u", key), None);
        assert_eq!(find_key(b"\x1b[97;5u", DetachKey::parse("ctrl-a").unwrap()), Some(0));
    }
}
