//! What `git status --porcelain=v2 -z --branch` prints, read without a guess: fields are counted, names end with a NUL and may
//! be anything. What a newer git adds is passed over.

/// What is checked out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Branch {
    /// The commit; nothing before the first.
    pub commit: Option<String>,
    /// The branch; nothing where a commit is checked out.
    pub name: Option<Vec<u8>>,
    /// The branch that it follows.
    pub upstream: Option<Vec<u8>>,
    /// Commits that the other does not have, and that only the other has; nothing where the other is gone.
    pub ahead_behind: Option<(u64, u64)>,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<P> {
    /// From the top of the work tree on.
    pub path: P,
    /// Where it was before, if it was renamed or copied.
    pub from: Option<P>,
    /// Git's letter for the index; `.` for no change.
    pub index: u8,
    /// Git's letter for the work tree; `.` for no change.
    pub work: u8,
    /// It is a submodule.
    pub submodule: bool,
}

/// A status, as git prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Porcelain {
    /// What is checked out.
    pub branch: Branch,
    /// Tracked paths that differ from the last commit.
    pub changed: Vec<Change<Vec<u8>>>,
    /// Paths that are in conflict.
    pub conflicted: Vec<Change<Vec<u8>>>,
    /// Paths that git does not know; a folder of them ends with a slash.
    pub untracked: Vec<Vec<u8>>,
}

impl Porcelain {
    /// Reads it; `None` for what git does not print.
    pub fn read(text: &[u8]) -> Option<Self> {
        let mut status = Self::default();
        let mut records = text.split(|byte| *byte == 0);
        while let Some(record) = records.next() {
            match record {
                [] => {}
                [b'#', b' ', rest @ ..] => status.branch.take(rest),
                // `1 XY sub mH mI mW hH hI path`.
                [b'1', b' ', rest @ ..] => status.changed.push(change(rest, 7, None)?),
                // `2 XY sub mH mI mW hH hI Xscore path`, and the old path.
                [b'2', b' ', rest @ ..] => status.changed.push(change(rest, 8, Some(records.next()?))?),
                // `u XY sub m1 m2 m3 mW h1 h2 h3 path`.
                [b'u', b' ', rest @ ..] => status.conflicted.push(change(rest, 9, None)?),
                [b'?', b' ', path @ ..] => status.untracked.push(path.to_vec()),
                [b'!', b' ', ..] => {}
                _ => return None,
            }
        }
        Some(status)
    }
}

impl Branch {
    fn take(&mut self, header: &[u8]) {
        let Some(at) = header.iter().position(|byte| *byte == b' ') else { return };
        let (name, value) = header.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        match name {
            b"branch.oid" if value != b"(initial)" => self.commit = String::from_utf8(value.to_vec()).ok(),
            b"branch.head" if value != b"(detached)" => self.name = Some(value.to_vec()),
            b"branch.upstream" => self.upstream = Some(value.to_vec()),
            b"branch.ab" => self.ahead_behind = ahead_behind(value),
            _ => {}
        }
    }
}

fn ahead_behind(value: &[u8]) -> Option<(u64, u64)> {
    let (ahead, behind) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((ahead.strip_prefix('+')?.parse().ok()?, behind.strip_prefix('-')?.parse().ok()?))
}

/// A record behind its letter: so many fields, and the path, which may hold spaces.
fn change(rest: &[u8], fields: usize, from: Option<&[u8]>) -> Option<Change<Vec<u8>>> {
    let mut parts = rest.splitn(fields + 1, |byte| *byte == b' ');
    let (letters, submodule) = (parts.next()?, parts.next()?);
    let path = parts.nth(fields - 2)?;
    let &[index, work] = letters else { return None };
    if path.is_empty() {
        return None;
    }
    let submodule = submodule.first() == Some(&b'S');
    Some(Change { path: path.to_vec(), from: from.map(<[u8]>::to_vec), index, work, submodule })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_may_hold_anything_and_fields_are_counted() {
        let text = b"# branch.oid (initial)\0# branch.head a b\0# branch.ab +2 -1\0# stash 3\0\
            1 .M N... 100644 100644 100644 0 0 a b\nc\0\
            2 R. SC.. 100644 100644 100644 0 0 R100 to \xff\0from 1 .M\0\
            u UU N... 1 2 3 4 5 6 7 conf lict\0? ? x\0? dir/\0";
        let status = Porcelain::read(text).unwrap();
        assert_eq!((status.branch.commit, status.branch.ahead_behind), (None, Some((2, 1))));
        assert_eq!(status.branch.name.as_deref(), Some(b"a b".as_slice()));
        let paths: Vec<&[u8]> = status.changed.iter().map(|change| change.path.as_slice()).collect();
        assert_eq!(paths, [b"a b\nc".as_slice(), b"to \xff"]);
        assert_eq!(status.changed[1].from.as_deref(), Some(b"from 1 .M".as_slice()));
        assert!(status.changed[1].submodule && !status.changed[0].submodule);
        assert_eq!(status.conflicted[0].path, b"conf lict");
        assert_eq!(status.untracked, [b"? x".to_vec(), b"dir/".to_vec()]);
    }

    #[test]
    fn what_git_does_not_print_is_refused() {
        for text in ["x", "1 .M N...\0", "2 R. N... 1 2 3 4 5 R9 a", "1 MMM N... 1 2 3 4 5 a\0", "u UU"] {
            assert_eq!(Porcelain::read(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_input_is_a_panic(text in prop::collection::vec(prop_oneof![
            Just(b' '), Just(0_u8), Just(b'1'), Just(b'2'), Just(b'u'), Just(b'#'), any::<u8>()
        ], 0..300)) {
            let _ = Porcelain::read(&text);
        }
    }
}
