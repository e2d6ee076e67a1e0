//! The folder of CLI versions: one file each, named after the version.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ostler_engine::Forker;
use rustix::fs::FlockOperation;

use super::{path_error, unpack};

/// Everybody on the machine may run it.
const PROGRAM_MODE: u32 = 0o755;
/// A CLI that takes longer to tell its version is of no use.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// The place of one version in the folder.
pub(super) struct Stock {
    dir: PathBuf,
    path: PathBuf,
    half_made: PathBuf,
}

impl Stock {
    /// A version is a file name and nothing else: it must not lead out of the folder.
    pub(super) fn open(dir: &str, version: &str) -> Result<Self, String> {
        let is_name =
            matches!(Path::new(version).components().next(), Some(Component::Normal(name)) if name == version);
        if !is_name || version.contains('\0') {
            return Err(format!("invalid cli version {version:?}: it must be a single path component"));
        }
        let dir: PathBuf = Path::new(dir).components().filter(|part| *part != Component::CurDir).collect();
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let path = if dir == Path::new(".") { PathBuf::from(version) } else { dir.join(version) };
        let half_made = dir.join(format!("{version}.tmp"));
        Ok(Self { dir, path, half_made })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the program is, or will be.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder and keeps others from installing into it meanwhile. Where folders cannot be locked, the rename
    /// at the end still leaves a whole file.
    pub(super) fn lock(&self) -> Result<File, String> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&self.dir);
        made.map_err(|error| path_error("mkdir", &self.dir, &error))?;
        let dir = File::open(&self.dir).map_err(|error| path_error("open", &self.dir, &error))?;
        let _ = rustix::fs::flock(&dir, FlockOperation::LockExclusive);
        Ok(dir)
    }

    /// The version is there and answers.
    pub(super) fn is_runnable(&self) -> bool {
        self.path.is_file() && Forker::here().runs(&rooted(&self.path), "--version", ANSWERS_WITHIN)
    }

    /// Unpacks the program, tries it, and only then gives it its name.
    pub(super) fn install(&self, blob: &File) -> Result<(), String> {
        let result = self.make(blob).and_then(|()| {
            if !Forker::here().runs(&rooted(&self.half_made), "--version", ANSWERS_WITHIN) {
                return Err(format!("installed cli at {} is not runnable", self.path.display()));
            }
            fs::rename(&self.half_made, &self.path).map_err(|error| path_error("rename", &self.half_made, &error))
        });
        if result.is_err() {
            let _ = fs::remove_file(&self.half_made);
        }
        result
    }

    fn make(&self, blob: &File) -> Result<(), String> {
        let failed = |error: io::Error| path_error("open", &self.half_made, &error);
        // What an interrupted run left, or somebody put there: never written through.
        let _ = fs::remove_file(&self.half_made);
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&self.half_made).map_err(failed)?;
        unpack::unpack(blob, &mut file)?;
        file.set_permissions(fs::Permissions::from_mode(PROGRAM_MODE)).map_err(failed)?;
        file.sync_all().map_err(|error| path_error("sync", &self.half_made, &error))
    }
}

/// A bare name would be looked up in PATH.
fn rooted(path: &Path) -> PathBuf {
    Path::new(".").join(path)
}
