//! What was discarded, kept for a day: a folder for each time, readable by its owner alone, and the way back.
//!
//! A folder counts once its manifest is there, which is written last; what has none was never discarded.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{GitError, WorkTree};
use crate::beneath::{BeneathError, Expected, FileKind, Root, hash_of};

/// Most bytes that are kept of one call.
pub const KEEP_MAX: u64 = 64 << 20;
/// How long.
pub const KEEP_FOR: Duration = Duration::from_secs(24 * 3600);
/// The first field of a manifest.
const FORMAT: &[u8] = b"ostler-discarded 1";
/// The file that makes a folder count, and the index's lines.
const MANIFEST: &str = "manifest";
const INDEX: &str = "index";

/// Changes that were discarded and can be put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptChanges {
    /// Names them.
    pub id: String,
    /// The workspace that they are of.
    pub root: PathBuf,
    /// When they were discarded.
    pub time: SystemTime,
    /// The files.
    pub paths: Vec<PathBuf>,
    /// Bytes of them.
    pub bytes: u64,
}

/// What is to be kept.
pub(super) struct Keeping<'a> {
    pub(super) folder: &'a Path,
    pub(super) id: &'a str,
    pub(super) root: &'a Root,
    pub(super) paths: &'a [PathBuf],
    pub(super) index: Vec<u8>,
}

/// A file as it was: its permissions and the number of its copy, where it links to, or that it was deleted.
enum Was {
    File(u32, usize),
    Link,
    Deleted,
}

/// Copies everything, then says so.
pub(super) fn keep(keeping: &Keeping<'_>) -> Result<KeptChanges, GitError> {
    let size: u64 = keeping.paths.iter().filter_map(|path| keeping.root.lstat(path).ok()).map(|stat| stat.size).sum();
    if size > KEEP_MAX {
        return Err(GitError::TooMuchToKeep { size, limit: KEEP_MAX });
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| GitError::Keeping { path, source }
    };
    let folder = keeping.folder.join(keeping.id);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed(&folder))?;
    let mut manifest = vec![FORMAT.to_vec(), keeping.root.path().as_os_str().as_bytes().to_vec()];
    manifest.push(seconds(SystemTime::now()).to_string().into_bytes());
    let mut bytes = 0;
    for (number, path) in keeping.paths.iter().enumerate() {
        let was = copy(keeping.root, path, &folder.join(number.to_string()), number, KEEP_MAX - bytes)?;
        let (what, size) = match was {
            (Was::File(mode, number), size) => (format!("file {mode:o} {number}"), size),
            (Was::Link, size) => (format!("link 0 {number}"), size),
            (Was::Deleted, size) => ("deleted 0 0".to_owned(), size),
        };
        bytes += size;
        manifest.extend([what.into_bytes(), path.as_os_str().as_bytes().to_vec()]);
    }
    let written = write_new(&folder.join(INDEX), &keeping.index)
        .and_then(|()| write_new(&folder.join(MANIFEST), &manifest.join(&0)))
        .and_then(|()| File::open(&folder)?.sync_all());
    written.map_err(failed(&folder))?;
    read(&folder).map_err(failed(&folder))
}

/// A copy of one file.
fn copy(root: &Root, path: &Path, to: &Path, number: usize, room: u64) -> Result<(Was, u64), GitError> {
    let failed = |source| GitError::Keeping { path: to.to_owned(), source };
    let listed = match root.lstat(path) {
        Err(BeneathError::Missing(_)) => return Ok((Was::Deleted, 0)),
        // A folder of its path is a file by now: what git has there is gone.
        Err(BeneathError::NotAFolder(_)) => return Ok((Was::Deleted, 0)),
        listed => listed?,
    };
    if listed.kind == FileKind::Link {
        let target = root.link(path)?.unwrap_or_default();
        write_new(to, target.as_bytes()).map_err(failed)?;
        return Ok((Was::Link, target.len() as u64));
    }
    let (file, stat) = root.regular(path)?;
    let mut content = Vec::new();
    file.take(room + 1).read_to_end(&mut content).map_err(failed)?;
    let size = content.len() as u64;
    if size > room {
        return Err(GitError::TooMuchToKeep { size: KEEP_MAX + 1, limit: KEEP_MAX });
    }
    write_new(to, &content).map_err(failed)?;
    Ok((Was::File(stat.mode, number), size))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

impl KeptChanges {
    /// A name that nobody has had before, for changes that are about to be discarded: who notes it first finds them again.
    pub fn new_id(folder: &Path) -> Result<String, GitError> {
        id().map_err(|source| GitError::Keeping { path: folder.to_owned(), source })
    }

    /// What is kept in a folder, newest first; what is older than a day is deleted first.
    pub fn list(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            match read(&path) {
                Ok(kept) if !is_old(kept.time) => all.push(kept),
                // Without a manifest: being written, or left by a crash.
                Err(_) if !path.metadata().and_then(|meta| meta.modified()).is_ok_and(is_old) => {}
                _ => fs::remove_dir_all(&path)?,
            }
        }
        all.sort_by_key(|kept| std::cmp::Reverse(kept.time));
        Ok(all)
    }
}

fn is_old(time: SystemTime) -> bool {
    time.elapsed().is_ok_and(|age| age > KEEP_FOR)
}

fn read(folder: &Path) -> io::Result<KeptChanges> {
    let manifest = fs::read(folder.join(MANIFEST))?;
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "not a list of discarded files");
    let mut fields = manifest.split(|byte| *byte == 0);
    let (format, root, time) = (fields.next(), fields.next().ok_or_else(odd)?, fields.next().ok_or_else(odd)?);
    let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok()).ok_or_else(odd)?;
    if format != Some(FORMAT) {
        return Err(odd());
    }
    let fields: Vec<&[u8]> = fields.collect();
    let paths: Vec<PathBuf> =
        fields.chunks_exact(2).filter_map(|entry| entry.get(1)).map(|path| super::path_of(path)).collect();
    let sizes = (0..paths.len()).filter_map(|number| fs::metadata(folder.join(number.to_string())).ok());
    let bytes = sizes.map(|meta| meta.len()).sum();
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(KeptChanges {
        id,
        root: super::path_of(root),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(time),
        paths,
        bytes,
    })
}

impl WorkTree {
    /// Puts back what was discarded here. What was changed since then is not overwritten: nothing is put back then.
    pub fn restore_discarded(&self, folder: &Path, id: &str) -> Result<Vec<PathBuf>, GitError> {
        let missing = || GitError::Missing { what: "kept change", name: id.to_owned() };
        let kept = KeptChanges::list(folder).map_err(|source| GitError::Keeping { path: folder.to_owned(), source })?;
        let kept =
            kept.into_iter().find(|kept| kept.id == id && kept.root == self.root().path()).ok_or_else(missing)?;
        let folder = folder.join(id);
        let failed = |source| GitError::Keeping { path: folder.clone(), source };
        let manifest = fs::read(folder.join(MANIFEST)).map_err(failed)?;
        let fields: Vec<&[u8]> = manifest.split(|byte| *byte == 0).skip(3).collect();
        self.unchanged(&kept.paths)?;
        for (number, entry) in fields.chunks_exact(2).enumerate() {
            let &[was, path] = entry else { continue };
            let path = super::path_of(path);
            let content = || fs::read(folder.join(number.to_string())).map_err(failed);
            match String::from_utf8_lossy(was).split(' ').collect::<Vec<_>>().as_slice() {
                ["file", mode, _] => {
                    self.put_back(&path, &content()?, u32::from_str_radix(mode, 8).unwrap_or(0o644))?
                }
                ["link", ..] => {
                    gone(self.root().remove(&path))?;
                    self.root().put_link(&path, super::path_of(&content()?).as_os_str())?;
                }
                _ => gone(self.root().remove(&path))?,
            }
        }
        let index = fs::read(folder.join(INDEX)).map_err(failed)?;
        if !index.is_empty() {
            self.take_index_lines(index)?;
        }
        // Put back is not kept: the next change would be compared with it.
        let _ = fs::remove_dir_all(&folder);
        Ok(kept.paths)
    }

    /// Refuses where a file is not as the discarding left it: as git has it, or not there.
    fn unchanged(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let status = self.status(super::Untracked::All)?;
        let mut dirty =
            status.changed.iter().chain(&status.conflicted).map(|change| &change.path).chain(&status.untracked);
        match dirty.find(|dirty| paths.contains(dirty)) {
            Some(path) => Err(BeneathError::Changed(path.clone()).into()),
            None => Ok(()),
        }
    }

    fn put_back(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), GitError> {
        match self.root().lstat(path) {
            Err(BeneathError::Missing(_)) => {
                self.root().make_folders(path)?;
                self.root().put(path, content, Expected::Absent, Some(mode))?;
            }
            Ok(stat) if stat.kind == FileKind::Link => {
                self.root().remove(path)?;
                self.root().put(path, content, Expected::Absent, Some(mode))?;
            }
            Ok(_) => {
                let (file, _) = self.root().regular(path)?;
                let hash = hash_of(file).map_err(|source| GitError::Keeping { path: path.to_owned(), source })?;
                self.root().put(path, content, Expected::Hash(&hash), Some(mode))?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn gone(removed: Result<(), BeneathError>) -> Result<(), BeneathError> {
    match removed {
        Err(BeneathError::Missing(_)) => Ok(()),
        other => other,
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// `d` and 16 digits that nobody has drawn before.
fn id() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("d{:016x}", u64::from_ne_bytes(random)))
}
