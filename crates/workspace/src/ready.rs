//! `.ostler.toml`: how a new work tree of a repository is made ready. It is a file of the repository, so whoever writes there
//! writes it: here it is only read, and files are copied that it names. Whether it counts is for others to say.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::beneath::{BeneathError, Expected, Root, content_hash};

/// Where it is, from the top of a work tree on.
pub const READY_FILE: &str = ".ostler.toml";
/// Somebody reads all of it before they say yes.
const FILE_MAX: u64 = 16 << 10;
/// Files that are copied, and bytes of each: settings and keys, not build folders.
const COPIES_MAX: usize = 64;
const COPY_MAX: u64 = 1 << 20;
/// Ports of one work tree.
const PORTS_MAX: u16 = 100;

/// How a work tree is made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyFile {
    /// All of the file.
    pub text: String,
    /// Of these very bytes.
    pub hash: String,
    /// What it says.
    pub ready: Ready,
}

/// What such a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ready {
    /// A shell command, run once in the new work tree.
    pub setup: Option<String>,
    /// A shell command that runs what is worked on.
    pub run: Option<String>,
    /// Files that git ignores, copied from the repository's own folder.
    pub copy: Vec<PathBuf>,
    /// So many ports of its own.
    pub ports: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    worktree: Ready,
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] BeneathError),
    /// It says what nobody understands.
    #[error("{READY_FILE}: {0}")]
    Odd(String),
}

impl ReadyFile {
    /// The file of a work tree, if it has one.
    pub fn read(tree: &Root) -> Result<Option<Self>, ReadyError> {
        let (file, stat) = match tree.regular(Path::new(READY_FILE)) {
            Err(BeneathError::Missing(_)) => return Ok(None),
            found => found?,
        };
        if stat.size > FILE_MAX {
            return Err(ReadyError::Odd(format!("{} bytes; {FILE_MAX} is the limit", stat.size)));
        }
        let mut text = String::new();
        let read = file.take(FILE_MAX).read_to_string(&mut text);
        read.map_err(|error| ReadyError::Odd(error.to_string()))?;
        let ready = Ready::of(&text)?;
        Ok(Some(Self { hash: content_hash(text.as_bytes()), text, ready }))
    }
}

impl Ready {
    fn of(text: &str) -> Result<Self, ReadyError> {
        let tables: Tables = toml::from_str(text).map_err(|error| ReadyError::Odd(error.message().to_owned()))?;
        let ready = tables.worktree;
        let odd = |why: String| Err(ReadyError::Odd(why));
        if ready.ports > PORTS_MAX {
            return odd(format!("{} ports; {PORTS_MAX} is the limit", ready.ports));
        }
        if ready.copy.len() > COPIES_MAX {
            return odd(format!("{} files to copy; {COPIES_MAX} is the limit", ready.copy.len()));
        }
        let plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        match ready.copy.iter().find(|path| path.as_os_str().is_empty() || !plain(path)) {
            Some(path) => odd(format!("`{}` is no file in the repository's folder", path.display())),
            None => Ok(ready),
        }
    }

    /// Copies the files that it names from one folder to another, where they are not. Nothing outside of either is read or
    /// written. Gives what was copied, and what was not with the reason.
    pub fn copy_files(&self, from: &Root, to: &Root) -> (Vec<PathBuf>, Vec<String>) {
        let (mut copied, mut left) = (Vec::new(), Vec::new());
        for path in &self.copy {
            match copy(from, to, path) {
                Ok(()) => copied.push(path.clone()),
                Err(why) => left.push(why.to_string()),
            }
        }
        (copied, left)
    }
}

fn copy(from: &Root, to: &Root, path: &Path) -> Result<(), BeneathError> {
    let (file, stat) = from.regular(path)?;
    if stat.size > COPY_MAX {
        return Err(BeneathError::TooLarge { path: path.to_owned(), size: stat.size, limit: COPY_MAX });
    }
    let mut content = Vec::new();
    file.take(COPY_MAX)
        .read_to_end(&mut content)
        .map_err(|source| BeneathError::Io { path: path.to_owned(), source })?;
    to.make_folders(path)?;
    to.put(path, &content, Expected::Absent, Some(stat.mode & 0o777)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn root(path: &Path) -> Root {
        std::fs::create_dir_all(path).unwrap();
        Root::open(path).unwrap()
    }

    #[test]
    fn what_it_says_is_read_and_what_nobody_understands_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tree = root(dir.path());
        assert_eq!(ReadyFile::read(&tree).unwrap(), None);
        let text = "[worktree]\nsetup = 'make'\nrun = 'make run'\ncopy = ['.env', 'a/b']\nports = 3\n";
        std::fs::write(dir.path().join(READY_FILE), text).unwrap();
        let file = ReadyFile::read(&tree).unwrap().unwrap();
        assert_eq!((file.text.as_str(), file.hash.as_str()), (text, content_hash(text.as_bytes()).as_str()));
        assert_eq!((file.ready.setup.as_deref(), file.ready.ports, file.ready.copy.len()), (Some("make"), 3, 2));
        for odd in [
            "[worktree]\nsetpu = 'x'",
            "[other]",
            "[worktree]\nports = 101",
            "[worktree]\ncopy = ['../x']",
            "[worktree]\ncopy = ['/x']",
            "x",
        ] {
            std::fs::write(dir.path().join(READY_FILE), odd).unwrap();
            assert!(matches!(ReadyFile::read(&tree), Err(ReadyError::Odd(_))), "{odd}");
        }
        std::fs::write(dir.path().join(READY_FILE), " ".repeat(20_000)).unwrap();
        assert!(ReadyFile::read(&tree).unwrap_err().to_string().contains("20000 bytes"));
    }

    #[test]
    fn files_are_copied_with_their_mode_and_nothing_leads_out_or_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (root(&dir.path().join("from")), root(&dir.path().join("to")));
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("secret"), "outside").unwrap();
        std::fs::create_dir(at("from/sub")).unwrap();
        for (name, text) in
            [("from/.env", "KEY=1"), ("from/sub/x", "x"), ("from/there", "theirs"), ("to/there", "ours")]
        {
            std::fs::write(at(name), text).unwrap();
        }
        std::fs::set_permissions(at("from/.env"), std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("../secret", at("from/out")).unwrap();
        let names = [".env", "sub/x", "there", "out", "missing", ".git/hooks/x"];
        std::fs::create_dir_all(at("from/.git/hooks")).unwrap();
        std::fs::write(at("from/.git/hooks/x"), "x").unwrap();
        let ready = Ready { copy: names.iter().map(PathBuf::from).collect(), ..Ready::default() };
        let (copied, left) = ready.copy_files(&from, &to);
        assert_eq!(copied, [".env", "sub/x"].map(PathBuf::from));
        assert_eq!(left.len(), 4, "{left:?}");
        assert_eq!(std::fs::metadata(at("to/.env")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(at("to/there")).unwrap(), "ours");
        assert!(!at("to/out").exists() && !at("to/.git").exists());
    }
}
