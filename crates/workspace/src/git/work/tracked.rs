//! What git has, what it ignores, and which files decide that besides those of the work tree.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{GitError, WorkTree, path_of};
use crate::watch::GitPlace;

/// Settings that name files by which git judges paths.
const NAMING_FILES: &str = r"^core\.(excludesfile|attributesfile)$";
/// Where the user's and the system's settings are, if they are: a file that is made there counts at once.
const USUAL: [(&str, &str); 5] = [
    ("HOME", ".gitconfig"),
    ("HOME", ".config/git/config"),
    ("HOME", ".config/git/ignore"),
    ("HOME", ".config/git/attributes"),
    ("", "/etc/gitconfig"),
];
/// Files of rules of a folder.
const RULES: [&str; 2] = [".gitignore", ".gitattributes"];

impl WorkTree {
    /// Where git keeps it.
    pub fn place(&self) -> GitPlace {
        let (top, git_dir, common_dir) = (self.top.clone(), self.git_dir.clone(), self.common_dir.clone());
        GitPlace { top, git_dir, common_dir }
    }

    /// Every path beneath the root that git has.
    pub fn tracked(&self) -> Result<Vec<PathBuf>, GitError> {
        Ok(paths(&self.look("ls-files", &["ls-files", "-z", "--cached", "--"])?).map(path_of).collect())
    }

    /// How many names are ignored, a folder with all that is in it as one.
    pub fn ignored(&self) -> Result<u64, GitError> {
        let args = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"];
        Ok(paths(&self.look("ls-files", &args)?).count() as u64)
    }

    /// Whether git has something although its name is ignored.
    pub fn has_ignored(&self) -> Result<bool, GitError> {
        let args = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--"];
        Ok(!self.look("ls-files", &args)?.is_empty())
    }

    /// Files outside of the root, and of what git keeps of this repository, that decide what git says of it.
    pub fn settings_files(&self) -> Result<Vec<PathBuf>, GitError> {
        let mut files: Vec<PathBuf> = Vec::new();
        let variable = |name: &str| self.looks.env.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        for (name, file) in USUAL {
            let folder = if name.is_empty() { Some(OsStr::new("/")) } else { variable(name).map(AsRef::as_ref) };
            files.extend(folder.map(|folder| Path::new(folder).join(file)));
        }
        let other = variable("XDG_CONFIG_HOME").map(|folder| Path::new(folder).join("git"));
        files.extend(other.into_iter().flat_map(|git| ["config", "ignore", "attributes"].map(|file| git.join(file))));
        let above = self.root.path().ancestors().skip(1).take_while(|folder| folder.starts_with(&self.top));
        files.extend(above.flat_map(|folder| RULES.map(|file| folder.join(file))));
        let origins = self.look("config", &["config", "--list", "--show-origin", "-z", "--name-only"])?;
        files.extend(paths(&origins).filter_map(|origin| origin.strip_prefix(b"file:")).map(path_of));
        let named = self.asks(&["config", "-z", "--type=path", "--get-regexp", NAMING_FILES])?.unwrap_or_default();
        let value = |setting: &[u8]| setting.splitn(2, |byte| *byte == b'\n').nth(1).map(path_of);
        files.extend(paths(&named).filter_map(value));
        files.retain(|file| file.is_absolute());
        files.sort();
        files.dedup();
        Ok(files)
    }
}

fn paths(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == 0).filter(|path| !path.is_empty())
}
