//! Generation ids: one per started process, never reused, short enough to type.

use std::io;

/// Lower-case base 32 without the letters that people confuse.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 60 bits: a billion processes share one id with a chance below one in two.
const LETTERS: usize = 12;

/// A fresh process id, `p` and twelve letters.
pub(crate) fn process() -> io::Result<String> {
    fresh('p')
}

/// A fresh key of a short helper.
pub(crate) fn helper() -> io::Result<String> {
    fresh('h')
}

/// Whether a keeper's key is that of a short helper.
pub(crate) fn is_helper(key: &str) -> bool {
    key.starts_with('h')
}

/// A fresh id of a request.
pub(crate) fn approval() -> io::Result<String> {
    fresh('a')
}

/// A fresh id of a session.
pub(crate) fn session() -> io::Result<String> {
    fresh('s')
}

/// A fresh id of a paired device.
pub(crate) fn device() -> io::Result<String> {
    fresh('d')
}

/// A fresh id of a pairing that is under way.
pub(crate) fn offer() -> io::Result<String> {
    fresh('o')
}

/// A fresh UUID of version 4, from the kernel.
pub fn uuid() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim_end().to_owned())
}

/// A fresh name of a rule.
pub(crate) fn rule() -> io::Result<String> {
    fresh('r')
}

/// Whether this is how a session or a process of some instance is called.
pub(crate) fn is_hosts(text: &str) -> bool {
    let letters = text.strip_prefix(['p', 's']).unwrap_or_default().as_bytes();
    letters.len() == LETTERS && letters.iter().all(|letter| ALPHABET.contains(letter))
}

fn fresh(first: char) -> io::Result<String> {
    let mut random = [0u8; LETTERS];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let letters = random.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 31)).copied()).map(char::from);
    Ok(std::iter::once(first).chain(letters).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_short_and_differ() {
        let (a, b) = (super::process().unwrap(), super::process().unwrap());
        assert_eq!(a.len(), 13);
        assert!(a.starts_with('p'));
        assert_ne!(a, b);
        assert!(super::is_hosts(&a) && super::is_hosts(&super::session().unwrap()));
        assert!(
            !super::is_hosts(&super::rule().unwrap()) && !super::is_hosts("s") && !super::is_hosts("Pfix-the-build")
        );
    }
}
