//! Whether the terminal has places to draw at. One that has none (`TERM=dumb`: an editor's shell, a teleprinter, a log) is
//! written to line by line, and never drawn on.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Names of terminals that nobody knows anything about.
const UNABLE: [&str; 3] = ["", "dumb", "unknown"];
/// Where entries are looked for, after what the environment names; as ncurses has it on the usual distributions.
const PLACES: [&str; 5] =
    ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo", "/usr/local/share/terminfo"];
/// The place of `cursor_address` among the strings of an entry, see term(5).
const CURSOR_ADDRESS: usize = 10;

/// Whether `TERM` names a terminal whose cursor can be put somewhere. A name that the machine knows nothing about is taken for
/// one that can: new terminals come with names that old machines have never heard of.
pub(crate) fn has_cursor() -> bool {
    let Some(term) = std::env::var_os("TERM") else { return false };
    if UNABLE.iter().any(|unable| term == *unable) {
        return false;
    }
    entry(&term).and_then(|bytes| addresses_cursor(&bytes)).unwrap_or(true)
}

fn entry(term: &OsStr) -> Option<Vec<u8>> {
    let name = term.to_str().filter(|name| !name.contains(['/', '\0']) && !name.starts_with('.'))?;
    let first = name.chars().next()?;
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".terminfo"));
    let given = std::env::var_os("TERMINFO").map(PathBuf::from);
    let several: Vec<PathBuf> =
        std::env::var_os("TERMINFO_DIRS").map(|dirs| std::env::split_paths(&dirs).collect()).unwrap_or_default();
    let places = given.into_iter().chain(home).chain(several).chain(PLACES.map(PathBuf::from));
    let named =
        |place: PathBuf| [place.join(first.to_string()).join(name), place.join(format!("{:x}/{name}", first as u32))];
    places.flat_map(named).find_map(|path| std::fs::read(path).ok())
}

/// What a compiled entry says; nothing if it is none.
fn addresses_cursor(entry: &[u8]) -> Option<bool> {
    let short = |at: usize| Some(i16::from_le_bytes([*entry.get(at)?, *entry.get(at + 1)?]));
    let count = |at: usize| short(at).and_then(|count| usize::try_from(count).ok());
    // Numbers are of two bytes, or of four in the newer format.
    let wide = match short(0)? {
        0o432 => 2,
        0o1036 => 4,
        _ => return None,
    };
    let (names, flags, numbers, strings) = (count(2)?, count(4)?, count(6)?, count(8)?);
    let begin = (12 + names + flags).next_multiple_of(2) + numbers * wide;
    Some(strings > CURSOR_ADDRESS && short(begin + 2 * CURSOR_ADDRESS)? >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with one flag, one number and these strings.
    fn made(magic: i16, wide: usize, strings: &[i16]) -> Vec<u8> {
        let name = b"odd\0";
        let head = [magic, 4, 1, 1, strings.len() as i16, 0];
        let mut entry: Vec<u8> = head.iter().flat_map(|short| short.to_le_bytes()).collect();
        entry.extend_from_slice(name);
        entry.push(1);
        entry.push(0);
        entry.extend(std::iter::repeat_n(0, wide));
        entry.extend(strings.iter().flat_map(|short| short.to_le_bytes()));
        entry
    }

    #[test]
    fn an_entry_says_whether_the_cursor_can_be_put_somewhere() {
        let (with, without) = ([0_i16; 11], [-1_i16; 11]);
        for (magic, wide) in [(0o432, 2), (0o1036, 4)] {
            assert_eq!(addresses_cursor(&made(magic, wide, &with)), Some(true));
            assert_eq!(addresses_cursor(&made(magic, wide, &without)), Some(false));
            assert_eq!(addresses_cursor(&made(magic, wide, &with[..5])), Some(false), "fewer strings");
        }
        assert_eq!(addresses_cursor(b"nothing of the kind"), None);
        assert_eq!(addresses_cursor(&made(0o432, 2, &with)[..20]), None, "cut short");
    }
}
