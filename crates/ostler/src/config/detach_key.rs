//! The key that leaves an attached terminal.

/// A control character, shown as `Ctrl-X`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DetachKey(u8);

impl DetachKey {
    /// `ctrl-]`, `Ctrl-A`, `^P`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let name = ["ctrl-", "ctrl+", "c-", "^"].iter().find_map(|prefix| lower.strip_prefix(prefix));
        match name.map(str::as_bytes) {
            Some([key @ (b'a'..=b'z' | b'@' | b'[' | b'\\' | b']' | b'^' | b'_')]) => Ok(Self(key & 0x1f)),
            _ => Err("expected ctrl- and a letter or one of @ [ \\ ] ^ _".to_owned()),
        }
    }

    pub(crate) const fn byte(self) -> u8 {
        self.0
    }
}

impl Default for DetachKey {
    /// Ctrl-]: what telnet uses, and hardly any full-screen program.
    fn default() -> Self {
        Self(0x1d)
    }
}

impl std::fmt::Display for DetachKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ctrl-{}", char::from(self.0 | 0x40))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_people_write_them() {
        for (text, byte, shown) in
            [("ctrl-]", 0x1d, "Ctrl-]"), ("Ctrl+A", 1, "Ctrl-A"), ("^p", 16, "Ctrl-P"), ("c-\\", 0x1c, "Ctrl-\\")]
        {
            let key = DetachKey::parse(text).unwrap();
            assert_eq!((key.byte(), key.to_string().as_str()), (byte, shown));
        }
        for bad in ["", "]", "ctrl-", "ctrl-ab", "ctrl-é", "alt-x"] {
            assert!(DetachKey::parse(bad).is_err(), "{bad}");
        }
    }
}
