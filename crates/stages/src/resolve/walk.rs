//! Follows a path as the kernel does, noting on the way what the asking user could replace.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::groups;

/// What the kernel allows before it answers "too many levels of symbolic links".
const LINKS_MAX: usize = 40;

const STICKY: u32 = 0o1000;

/// Where a path leads.
pub(super) enum Lookup {
    File {
        canonical: PathBuf,
        file: Metadata,
    },
    /// This process may not look at it; root could.
    Hidden {
        canonical: PathBuf,
    },
    Nothing,
    Broken(io::Error),
}

/// One walk on behalf of one user.
pub(super) struct Walk {
    asker: u32,
    groups: Vec<u32>,
    /// The file itself, which is named before anything on the way to it.
    file: Option<PathBuf>,
    on_the_way: Option<PathBuf>,
}

impl Walk {
    pub(super) fn new(asker: u32) -> Self {
        Self { asker, groups: groups::of(asker), file: None, on_the_way: None }
    }

    #[cfg(test)]
    pub(super) fn add_group(&mut self, group: u32) {
        self.groups.push(group);
    }

    /// The first thing that the user could write or replace.
    pub(super) fn into_writable(self) -> Option<PathBuf> {
        self.file.or(self.on_the_way)
    }

    pub(super) fn follow(&mut self, path: &Path) -> Lookup {
        match self.walk(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::Nothing,
            Err(error) => Lookup::Broken(error),
        }
    }

    fn walk(&mut self, path: &Path) -> io::Result<Lookup> {
        let mut ahead = names(path);
        let mut here = PathBuf::from("/");
        let mut folder = std::fs::symlink_metadata(&here)?;
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                here.pop();
                folder = std::fs::symlink_metadata(&here)?;
                continue;
            }
            if !folder.is_dir() {
                return Err(rustix::io::Errno::NOTDIR.into());
            }
            let next = here.join(&name);
            let entry = match std::fs::symlink_metadata(&next) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.check_folder(&here, &folder, None);
                    return Ok(Lookup::Hidden { canonical: ahead.iter().fold(next, |path, name| path.join(name)) });
                }
                entry => entry?,
            };
            self.check_folder(&here, &folder, Some((&next, &entry)));
            if entry.is_symlink() {
                links += 1;
                if links > LINKS_MAX {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let target = std::fs::read_link(&next)?;
                if target.is_absolute() {
                    here = PathBuf::from("/");
                    folder = std::fs::symlink_metadata(&here)?;
                }
                for name in names(&target).into_iter().rev() {
                    ahead.push_front(name);
                }
            } else {
                here = next;
                folder = entry;
            }
        }
        if self.may_write(&here, &folder) {
            self.file = Some(here.clone());
        }
        Ok(Lookup::File { canonical: here, file: folder })
    }

    /// Who can write a directory can replace what is in it; in a sticky one, only what is his own.
    fn check_folder(&mut self, path: &Path, folder: &Metadata, entry: Option<(&Path, &Metadata)>) {
        if self.on_the_way.is_some() || !self.may_write(path, folder) {
            return;
        }
        if folder.mode() & STICKY == 0 || folder.uid() == self.asker {
            self.on_the_way = Some(path.to_owned());
        } else if let Some((path, _)) = entry.filter(|(_, entry)| entry.uid() == self.asker) {
            self.on_the_way = Some(path.to_owned());
        }
    }

    /// An owner can always give himself the right. Where an access list grants more than the three classes tell, its
    /// mask stands in the group's bits, and we believe the worst.
    fn may_write(&self, path: &Path, file: &Metadata) -> bool {
        if self.asker == 0 {
            return false;
        }
        let mode = file.mode();
        if file.uid() == self.asker {
            return true;
        }
        let by_group = mode & 0o020 != 0;
        if self.groups.contains(&file.gid()) {
            return by_group;
        }
        mode & 0o002 != 0 || (by_group && has_access_list(path))
    }
}

/// The names of a path, in order; `.` and empty ones mean nothing.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn has_access_list(path: &Path) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut none).is_ok_and(|length| length > 0)
}
