//! Which names are ignored: by `.gitignore` and `.ignore` in their folder and above it, by what the repository and the user
//! exclude besides. Files of rules are hostile input: only regular ones are read, and no more than a bound.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

/// Git's rules.
pub(crate) const GITIGNORE: &str = ".gitignore";
/// Rules of search programs, which are stronger.
pub(crate) const IGNORE: [&str; 2] = [".rgignore", ".ignore"];
/// What git keeps for itself.
pub(crate) const GIT: &str = ".git";
/// A file of rules is read so far: thousands of rules.
const RULES_MAX: u64 = 256 << 10;

/// Rules of one folder, above those of the folders around it.
#[derive(Debug)]
pub(crate) struct Layer {
    around: Option<Arc<Layer>>,
    own: Option<Gitignore>,
    git: Option<Gitignore>,
    /// The top of a repository: rules of git above it do not count.
    top: bool,
}

/// What holds for a whole root.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    excludes: Vec<Gitignore>,
    /// The innermost layer around the root.
    pub(crate) around: Option<Arc<Layer>>,
}

impl Rules {
    /// Rules for a root: with the top of the repository around it, and the folder in which that keeps its own excludes.
    pub(crate) fn of(root: &Path, repository: Option<(&Path, &Path)>) -> Self {
        let mut rules = Self::default();
        let Some((top, common_dir)) = repository else { return rules };
        let files = [Some(common_dir.join("info/exclude")), gitconfig_excludes_path()];
        rules.excludes = files.into_iter().flatten().filter_map(|file| matcher(top, read_at(None, &file)?)).collect();
        let mut above: Vec<&Path> = root.ancestors().skip(1).take_while(|folder| folder.starts_with(top)).collect();
        above.reverse();
        for folder in above {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(open) = rustix::fs::open(folder, flags, Mode::empty()) else { continue };
            let names = [GITIGNORE].into_iter().chain(IGNORE).chain((folder == top).then_some(GIT));
            rules.around = Layer::of(open.as_fd(), folder, names.map(OsStr::new), rules.around.take());
        }
        rules
    }

    /// Whether a name is ignored; `path` is absolute.
    pub(crate) fn ignores(&self, layer: Option<&Layer>, path: &Path, is_folder: bool) -> bool {
        let judged = |found: Match<_>| match found {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        let layers = || std::iter::successors(layer, |layer| layer.around.as_deref());
        let own = layers().filter_map(|layer| layer.own.as_ref()).find_map(|own| judged(own.matched(path, is_folder)));
        own.or_else(|| {
            let mut within = true;
            let git = layers().take_while(|layer| std::mem::replace(&mut within, !layer.top));
            git.filter_map(|layer| layer.git.as_ref()).find_map(|git| judged(git.matched(path, is_folder)))
        })
        .or_else(|| self.excludes.iter().find_map(|rules| judged(rules.matched(path, is_folder))))
        .unwrap_or(false)
    }
}

impl Layer {
    /// The layer of an open folder in which these names were seen; the one around it where it has no rules.
    pub(crate) fn of<'a>(
        folder: BorrowedFd<'_>,
        path: &Path,
        names: impl IntoIterator<Item = &'a OsStr>,
        around: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let (mut own, mut git, mut top) = (Vec::new(), None, false);
        for name in names {
            match name {
                _ if name == GITIGNORE => {
                    git = read_at(Some(folder), Path::new(name)).and_then(|text| matcher(path, text))
                }
                _ if name == GIT => top = true,
                _ if IGNORE.iter().any(|own| name == *own) => {
                    own.extend(read_at(Some(folder), Path::new(name)).unwrap_or_default());
                    own.push(b'\n');
                }
                _ => {}
            }
        }
        let own = if own.is_empty() { None } else { matcher(path, own) };
        if own.is_none() && git.is_none() && !top {
            return around;
        }
        Some(Arc::new(Self { around, own, git, top }))
    }

    /// Whether rules are here that git does not know.
    pub(crate) fn has_own(&self) -> bool {
        self.own.is_some()
    }
}

/// Whether a name has to do with rules.
pub(crate) fn is_rules(name: &OsStr) -> bool {
    name == GITIGNORE || name == GIT || IGNORE.iter().any(|own| name == *own)
}

/// The rules in a text, for paths in and beneath a folder; nothing where it has none.
fn matcher(folder: &Path, text: Vec<u8>) -> Option<Gitignore> {
    let mut rules = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
        // A line that is no rule is none, as for git.
        let _ = rules.add_line(None, line);
    }
    rules.build().ok().filter(|rules| !rules.is_empty())
}

/// A regular file, as far as it is read; nothing is waited for.
fn read_at(folder: Option<BorrowedFd<'_>>, path: &Path) -> Option<Vec<u8>> {
    let (flags, cwd) = (OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, rustix::fs::CWD);
    let file = match folder {
        // As git does: rules in a work tree are no links.
        Some(folder) => openat(folder, path, flags | OFlags::NOFOLLOW, Mode::empty()),
        None => openat(cwd, path, flags, Mode::empty()),
    };
    let file = file.ok()?;
    let regular = fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let mut text = Vec::new();
    (regular && File::from(file).take(RULES_MAX).read_to_end(&mut text).is_ok()).then_some(text)
}

/// Whether rules of this text, in the folder of a path's first name, ignore the path. For fuzzing: rules are hostile.
pub fn ignored_by(text: &[u8], path: &Path, is_folder: bool) -> bool {
    let folder = PathBuf::from("/root");
    let layer = matcher(&folder, text.to_vec()).map(|git| Layer { around: None, own: None, git: Some(git), top: true });
    Rules::default().ignores(layer.as_ref(), &folder.join(path), is_folder)
}
