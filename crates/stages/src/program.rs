//! The file of a stage, held open from the comparison with its seal to its execution, so that what was compared is what
//! is executed.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::failure::Failure;
use crate::outcome::FailKind;
use crate::spec::{Seal, Stage};

/// A program that is the one that was shown.
pub(crate) struct Program {
    file: OwnedFd,
    script: bool,
}

impl Program {
    /// Opens the program of a stage and compares it. `None` for a file that was hidden from us when it was shown: only
    /// root, behind sudo, can look at it.
    pub(crate) fn open(stage: &Stage) -> Result<Option<Self>, Failure> {
        let name = stage.program.display();
        let file = match open(&stage.program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::ACCESS) if stage.seal.is_none() => return Ok(None),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return Err(Failure::new(FailKind::NotFound, format!("{name} is not there any more")));
            }
            Err(error) => return Err(Failure::new(FailKind::NotExecutable, format!("{name}: {error}"))),
        };
        let file = File::from(file);
        let now = file.metadata().map_err(|error| Failure::system("looking at a program", error))?;
        check(stage, &now)?;
        let file = OwnedFd::from(file);
        let script = match beginning(&file).as_deref() {
            Some([b'#', b'!', ..]) => true,
            Some([0x7f, b'E', b'L', b'F']) | None => false,
            // Execution would fail, and then the C library and sudo both try a shell.
            Some(_) => return Err(Failure::new(FailKind::NotExecutable, format!("{name}: Exec format error"))),
        };
        Ok(Some(Self { file, script }))
    }

    /// Whether this user can execute it at all, asked before anything else of the pipeline begins.
    pub(crate) fn check_executable(&self, stage: &Stage) -> Result<(), Failure> {
        access(self.path(), Access::EXEC_OK)
            .map_err(|error| Failure::new(FailKind::NotExecutable, format!("{}: {error}", stage.program.display())))
    }

    /// A path that means this very file, here and in a child.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// The interpreter of a script opens the path again, so its child must inherit the descriptor; no other may.
    pub(crate) fn shared<T>(&self, spawn: impl FnOnce() -> T) -> Result<T, Failure> {
        let mark = |flags| fcntl_setfd(&self.file, flags).map_err(|error| Failure::system("sharing a script", error));
        if self.script {
            mark(FdFlags::empty())?;
        }
        let spawned = spawn();
        if self.script {
            mark(FdFlags::CLOEXEC)?;
        }
        Ok(spawned)
    }
}

fn check(stage: &Stage, now: &Metadata) -> Result<(), Failure> {
    let name = stage.program.display();
    if stage.seal.is_some_and(|seal| seal != Seal::of(now)) {
        let message = format!("{name} has changed since it was shown; ask again");
        return Err(Failure::new(FailKind::Changed, message));
    }
    if !now.is_file() {
        return Err(Failure::new(FailKind::NotExecutable, format!("{name} is not a file")));
    }
    Ok(())
}

/// The first bytes; `None` if this user may execute it but not read it.
fn beginning(file: &OwnedFd) -> Option<Vec<u8>> {
    let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let mut bytes = Vec::new();
    readable.take(4).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
