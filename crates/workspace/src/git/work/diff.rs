//! Differences, file by file, as git draws them. One run of git tells which files and how: what stands between two heads of a
//! patch is a file's, and no name can look like a head, because names are quoted there. What is too much is left out and said so.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::patch::{self, unquoted};
use super::path::checked;
use super::{GitError, RunError, WorkTree};

/// No program draws it in a form of its own, nothing runs in another repository, and no colours are in it.
pub(super) const PLAIN: [&str; 3] = ["--no-ext-diff", "--no-color", "--ignore-submodules=dirty"];
/// As every user's configuration leaves it.
const FORM: [&str; 6] =
    ["--src-prefix=a/", "--dst-prefix=b/", "--find-renames", "--submodule=short", "--unified=3", "--relative"];

/// 512 KiB: nobody reads more of one file.
pub const DIFF_FILE_MAX: usize = 512 << 10;
/// 3 MiB: with escapes still a message that a client can take.
pub const DIFF_MAX: usize = 3 << 20;
/// Files that are listed.
const FILES_MAX: usize = 5000;
/// New files that are drawn; of the rest, nobody reads more than the name.
const NEW_MAX: usize = 200;

/// What is compared with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffOf {
    /// The work tree with the index; new files too.
    Unstaged,
    /// The index with the last commit.
    Staged,
    /// A commit with the one before it.
    Commit(OsString),
    /// The work tree, staged or not, with a commit or a tree; new files too.
    Since(OsString),
    /// One commit with another, both by their hashes.
    Between(String, String),
}

/// The difference of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// From the root on.
    pub path: PathBuf,
    /// Where it was before.
    pub from: Option<PathBuf>,
    /// Git's letter: A, M, D, R, C, T or U; `?` for a file that git does not know.
    pub letter: u8,
    /// It is a submodule: the difference is that of its commits.
    pub submodule: bool,
    /// What changed in it.
    pub patch: Patch,
}

/// What changed in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    /// Lines, in git's own form.
    Text {
        /// With its head.
        text: Vec<u8>,
        /// Lines that came.
        added: u64,
        /// Lines that went.
        removed: u64,
    },
    /// It is no text.
    Binary,
    /// More than is given; so many bytes where that is known.
    Cut(Option<u64>),
}

/// Differences of several files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diffs {
    /// In git's order, new files last.
    pub files: Vec<FileDiff>,
    /// There are more files than are listed.
    pub cut: bool,
    /// Filters and drivers that were not run: without them, a file may look different.
    pub left_out: Vec<String>,
}

impl WorkTree {
    /// The difference of everything, or of one path and what is beneath it. What the user has make text of files does so.
    pub fn diff(&self, of: &DiffOf, path: Option<&Path>) -> Result<Diffs, GitError> {
        let mut diffs = self.drawn(of, path, !self.left_out.converters)?;
        diffs.left_out.extend(self.left_out.drivers.iter().cloned());
        Ok(diffs)
    }

    /// The same of what the files hold: its hunks can be staged.
    pub fn plain_diff(&self, of: &DiffOf, path: Option<&Path>) -> Result<Diffs, GitError> {
        self.drawn(of, path, false)
    }

    /// The whole lines at the beginning of a file's difference that is too much, up to so many bytes.
    pub fn beginning(&self, of: &DiffOf, path: &Path, most: usize) -> Result<Vec<u8>, GitError> {
        let files = self.whole_diff(of, Some(path), !self.left_out.converters)?.files;
        let mut text = match files.into_iter().find(|file| file.path == path) {
            Some(FileDiff { patch: Patch::Text { text, .. }, .. }) => text,
            Some(FileDiff { patch: Patch::Cut(_), letter: b'?', .. }) => patch::begun(self.root(), path, most),
            _ => Vec::new(),
        };
        text.truncate(whole_lines(&text, most));
        Ok(text)
    }

    fn drawn(&self, of: &DiffOf, path: Option<&Path>, converted: bool) -> Result<Diffs, GitError> {
        let mut diffs = self.whole_diff(of, path, converted)?;
        diffs.bound();
        Ok(diffs)
    }

    /// However much it is, as long as git can say it.
    fn whole_diff(&self, of: &DiffOf, path: Option<&Path>, converted: bool) -> Result<Diffs, GitError> {
        let convert = [if converted { "--textconv" } else { "--no-textconv" }];
        let path = path.map(checked).transpose()?;
        let (command, with_new) = self.command(of)?;
        let behind: Vec<OsString> =
            std::iter::once("--".into()).chain(path.map(|path| path.as_os_str().to_owned())).collect();
        let args = |form: &[&str]| {
            let form = PLAIN.iter().chain(&FORM).chain(&convert).chain(form).map(OsString::from);
            command.iter().cloned().chain(form).chain(behind.iter().cloned()).collect::<Vec<_>>()
        };
        let mut diffs = match self.look("diff", &args(&["--raw", "--abbrev=40", "--patch"])) {
            Ok(text) => read(&text),
            // More than anybody could want: the names alone.
            Err(GitError::Run(RunError::TooMuchOutput)) => read(&self.look("diff", &args(&["--raw", "--abbrev=40"]))?),
            Err(error) => return Err(error),
        };
        if with_new {
            self.add_new(&mut diffs, path)?;
        }
        diffs.left_out.clone_from(&self.left_out.filters);
        Ok(diffs)
    }

    /// The command that compares, and whether files that git does not know belong to it.
    fn command(&self, of: &DiffOf) -> Result<(Vec<OsString>, bool), GitError> {
        let words =
            |words: &[&str]| ["-c", "core.quotePath=false"].iter().chain(words).map(OsString::from).collect::<Vec<_>>();
        Ok(match of {
            DiffOf::Unstaged => (words(&["diff"]), true),
            DiffOf::Staged => (words(&["diff", "--cached"]), false),
            DiffOf::Commit(name) => {
                let commit = self.commit(name)?;
                // Against the first commit before it; the first of all against nothing.
                (words(&["diff-tree", "-r", "--root", "--no-commit-id", "-m", "--first-parent", &commit]), false)
            }
            DiffOf::Since(name) if *name == *self.nothing()? => (words(&["diff", &self.nothing()?]), true),
            DiffOf::Since(name) => (words(&["diff", &self.commit(name)?]), true),
            DiffOf::Between(old, new) => {
                let hash = |text: &str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !hash(old) || !hash(new) {
                    return Err(GitError::name("commit", OsStr::new(if hash(old) { new } else { old })));
                }
                (words(&["diff", old, new]), false)
            }
        })
    }

    /// Files that git does not know: their names are git's answer, their content is read beneath the root.
    fn add_new(&self, diffs: &mut Diffs, path: Option<&Path>) -> Result<(), GitError> {
        let args = ["ls-files", "--others", "--exclude-standard", "-z", "--"].map(OsString::from);
        let args: Vec<OsString> = args.into_iter().chain(path.map(|path| path.as_os_str().to_owned())).collect();
        let listed = self.look("ls-files", &args)?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        for (drawn, name) in names.enumerate() {
            if diffs.files.len() >= FILES_MAX {
                diffs.cut = true;
                break;
            }
            let path = super::path_of(name);
            // A repository in the repository ends with a slash.
            let patch = match drawn < NEW_MAX && !name.ends_with(b"/") {
                true => patch::of_new(self.root(), &path),
                false => Some(Patch::Cut(None)),
            };
            // Gone meanwhile: it is not new any more.
            let Some(patch) = patch else { continue };
            diffs.files.push(FileDiff { path, from: None, letter: b'?', submodule: false, patch });
        }
        Ok(())
    }
}

impl Diffs {
    /// Leaves out what is too much.
    fn bound(&mut self) {
        let mut room = DIFF_MAX;
        for file in &mut self.files {
            let Patch::Text { text, .. } = &file.patch else { continue };
            if text.len() > DIFF_FILE_MAX.min(room) {
                file.patch = Patch::Cut(Some(text.len() as u64));
            } else {
                room -= text.len();
            }
        }
        self.cut |= self.files.len() > FILES_MAX;
        self.files.truncate(FILES_MAX);
    }
}

/// Where the last whole line ends within so many bytes.
pub(super) fn whole_lines(text: &[u8], most: usize) -> usize {
    match text.get(..most) {
        Some(begun) => begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
        None => text.len(),
    }
}

/// How the head of a file in conflict begins.
const CONFLICT: &[u8] = b"diff --cc ";

/// A file as the raw lines tell it, and how its head looks in the patch.
struct Raw {
    file: FileDiff,
    head: Vec<u8>,
}

/// What `git diff --raw --patch` prints.
fn read(text: &[u8]) -> Diffs {
    let mut raws: Vec<Raw> = Vec::new();
    let mut rest = text;
    while let Some((line, behind)) = cut_line(rest).filter(|(line, _)| line.first() == Some(&b':')) {
        raws.extend(raw(line));
        rest = behind;
    }
    let mut at = None;
    let mut section: Vec<u8> = Vec::new();
    while let Some((line, behind)) = cut_line(rest) {
        if line.starts_with(b"diff --git ") || line.starts_with(CONFLICT) {
            close(&mut raws, at, &mut section);
            let from = at.unwrap_or(0);
            // A change of a file's kind has two heads that are the same.
            let found = raws.iter().enumerate().skip(from).find(|(_, raw)| raw.head == line);
            at = found.map(|(index, _)| index).or(at);
        }
        if at.is_some() {
            section.extend_from_slice(line);
            section.push(b'\n');
        }
        rest = behind;
    }
    close(&mut raws, at, &mut section);
    Diffs { files: raws.into_iter().map(|raw| raw.file).collect(), ..Diffs::default() }
}

fn close(raws: &mut [Raw], at: Option<usize>, section: &mut Vec<u8>) {
    let Some(raw) = at.and_then(|at| raws.get_mut(at)) else { return };
    let mut whole = match std::mem::replace(&mut raw.file.patch, Patch::Binary) {
        Patch::Text { text, .. } => text,
        Patch::Binary | Patch::Cut(_) => Vec::new(),
    };
    whole.append(section);
    raw.file.patch = patch::of_text(whole);
}

/// `:MODE MODE HASH HASH LETTER[SCORE]\tPATH[\tNEW PATH]`, paths quoted where they must be; a file in conflict is compared with
/// several, and has a colon, a mode and a hash for each.
fn raw(line: &[u8]) -> Option<Raw> {
    let sides = line.iter().take_while(|byte| **byte == b':').count();
    let mut fields = line.get(sides..)?.split(|byte| *byte == b'\t');
    let mut words = fields.next()?.split(|byte| *byte == b' ');
    let modes: Vec<&[u8]> = words.by_ref().take(sides + 1).collect();
    let letter = words.nth(sides + 1)?.first()?;
    let first = fields.next()?;
    let second = fields.next();
    let path = unquoted(second.unwrap_or(first));
    let (letter, head) = match sides {
        1 => {
            let (old, new) = (quoted_with(b"a/", first), quoted_with(b"b/", second.unwrap_or(first)));
            (*letter, [b"diff --git ", old.as_slice(), b" ", &new].concat())
        }
        _ => (b'U', [CONFLICT, first].concat()),
    };
    let submodule = modes.contains(&b"160000".as_slice());
    let (path, from) = (super::path_of(&path), second.map(|_| super::path_of(&unquoted(first))));
    Some(Raw { file: FileDiff { path, from, letter, submodule, patch: Patch::Cut(None) }, head })
}

/// A name as it stands in a raw line, with a prefix as it stands in a head.
fn quoted_with(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    match name.strip_prefix(b"\"") {
        Some(rest) => [b"\"", prefix, rest].concat(),
        None => [prefix, name].concat(),
    }
}

fn cut_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    Some((text.get(..end)?, text.get(end + 1..).unwrap_or_default()))
}
