//! The little of `/proc/PID` that tells one process from another. Reads into a buffer on the stack:
//! the poll loop may ask for `stat` of its own child; `environ` can block and is for helpers only.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::spec::Exit;
use crate::sys;

/// What `/proc/PID/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The short name.
    pub name: String,
    /// One letter.
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// The device of its controlling terminal; 0 without one.
    pub terminal: i32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
    exit_code: i32,
}

impl Stat {
    /// A sleeping process, for tests.
    #[cfg(test)]
    pub(crate) fn fake(parent: u32, group: u32) -> Stat {
        Stat { name: "fake".into(), state: b'S', parent, group, session: 0, terminal: 0, start_ticks: 1, exit_code: 0 }
    }

    /// It is dead and only waits to be reaped.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// How a zombie ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.is_zombie().then(|| sys::exit_of(self.exit_code))
    }
}

/// Reads the state of one process.
pub fn stat(pid: u32) -> Result<Stat, Errno> {
    let path = format!("/proc/{pid}/stat");
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Fifty-two numbers of at most twenty digits.
    let mut buffer = [0; 1200];
    let length = rustix::io::read(&file, &mut buffer)?;
    parse(buffer.get(..length).unwrap_or_default()).ok_or(Errno::ILSEQ)
}

/// The name is in parentheses and may itself contain parentheses and spaces.
fn parse(line: &[u8]) -> Option<Stat> {
    let line = String::from_utf8_lossy(line);
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // The field after the name is the third of the documented fifty-two.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        name: name.to_owned(),
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        terminal: field(7)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        exit_code: field(52).and_then(|code| code.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let mut line = String::from("42 (a) b (c) S 7 8 9");
        for number in 7..=52 {
            line.push_str(&format!(" {number}"));
        }
        let stat = parse(line.as_bytes()).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!((stat.parent, stat.group, stat.session), (7, 8, 9));
        assert_eq!((stat.start_ticks, stat.exit_code), (22, 52));
    }

    #[test]
    fn our_own_state_is_readable() {
        let stat = stat(std::process::id()).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(!stat.is_zombie());
    }
}
