//! Where the demo lives: one private folder with its state, sockets, settings and scratch repository. Nothing outside it is
//! touched but the parents that had to be made for it, which are noted and go with it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::story;
use crate::output::{CommandError, Kind};
use crate::paths::{Paths, ensure_private_dir};
use crate::verbs::helper;

/// Tells our folder from anybody's; holds the parents that were made for it, deepest first.
const MARK: &str = "made-by-ostler-demo";

/// No other door is opened, and no place of another program taken.
fn settings() -> String {
    let closed = crate::daemon::door_names().map(|door| format!("{} = false\n", door.replace('-', "_")));
    std::iter::once("[doors]\n".to_owned()).chain(closed).collect()
}

/// Held while a demo runs or is removed: two of them would undo each other.
pub(super) struct Lock {
    _folder: OwnedFd,
}

/// Makes the folder with what it begins with.
pub(super) fn make(paths: &Paths) -> Result<Lock, CommandError> {
    let root = paths.state_dir();
    let missing = root.ancestors().skip(1).take_while(|parent| !parent.exists());
    let made: Vec<String> = missing.map(|parent| parent.display().to_string()).collect();
    ensure_private_dir(root)?;
    let lock = lock(root)?;
    fs::write(root.join(MARK), made.join("\n"))?;
    fs::write(paths.config_file(), settings())?;
    make_repository(&repository(paths))?;
    Ok(lock)
}

/// The repository that the sessions work in.
pub(super) fn repository(paths: &Paths) -> PathBuf {
    paths.state_dir().join("repository")
}

/// The folder, if there is one, for whoever takes it away.
pub(super) fn find(root: &Path) -> Result<Option<Lock>, CommandError> {
    let mut names = match fs::read_dir(root) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CommandError::failed(format!("{}: {error}", root.display()))),
    };
    // One that was left before it was marked is empty.
    if names.next().is_some() && !root.join(MARK).exists() {
        let message = format!("{} was not made by ostler demo", root.display());
        return Err(CommandError::new(Kind::Refused, message).hint("check what is in it, and move it"));
    }
    lock(root).map(Some)
}

/// Deletes everything; the mark goes last, so that a removal that was stopped is gone on with.
pub(super) fn delete(root: &Path) -> io::Result<()> {
    let made = fs::read_to_string(root.join(MARK)).unwrap_or_default();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() == MARK {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    match fs::remove_file(root.join(MARK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::remove_dir(root)?,
    }
    // Somebody else may have found a use for one of them: it stays then, and so do those around it.
    made.lines().map(Path::new).take_while(|parent| fs::remove_dir(parent).is_ok()).for_each(drop);
    Ok(())
}

fn lock(root: &Path) -> Result<Lock, CommandError> {
    let folder = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| CommandError::failed(format!("{}: {error}", root.display())))?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock { _folder: folder }),
        Err(_) => Err(CommandError::new(Kind::Refused, "another `ostler demo` is running")
            .hint("wait for it, or end it with Ctrl-C in its terminal")),
    }
}

fn make_repository(folder: &Path) -> Result<(), CommandError> {
    fs::create_dir(folder)?;
    fs::write(folder.join("README.md"), "A scratch repository, made by `ostler demo`.\n")?;
    fs::write(folder.join("NOTES.md"), "Notes of the demo.\n")?;
    fs::write(folder.join(story::FILE), story::TEXT)?;
    git(folder, &["init", "--quiet", "."])?;
    git(folder, &["add", "."])?;
    let author = ["-c", "user.name=ostler demo", "-c", "user.email=demo@localhost"];
    git(folder, &[&author[..], &["commit", "--quiet", "-m", "What the demo begins with"]].concat())
}

/// Git as it comes: nobody's settings, templates or hooks take part.
fn git(folder: &Path, args: &[&str]) -> Result<(), CommandError> {
    let ran = helper::act("git", args, |brief| {
        brief.env.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_"));
        brief.set("GIT_CONFIG_GLOBAL", "/dev/null");
        brief.set("GIT_CONFIG_NOSYSTEM", "1");
        brief.set("GIT_TEMPLATE_DIR", "");
        folder.clone_into(&mut brief.cwd);
    });
    let ran = ran.map_err(|error| {
        CommandError::failed(format!("git: {error}")).hint("the demo needs git; install it with your package manager")
    })?;
    ran.map_err(|said| CommandError::failed(format!("git {}: {said}", args.join(" "))))
}

/// Bytes that a process has written so far, as the kernel counts them; `None` where it does not say.
pub(super) fn written_by(pid: u32) -> Option<u64> {
    let io = io::read_to_string(File::open(format!("/proc/{pid}/io")).ok()?).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(root: &Path) -> Paths {
        Paths::in_folder(root)
    }

    #[test]
    fn what_was_made_goes_and_what_was_there_stays() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("there")).unwrap();
        let paths = paths(&home.path().join("there/new/newer/demo"));
        drop(make(&paths).unwrap());
        assert!(repository(&paths).join(".git").is_dir());
        let lock = find(paths.state_dir()).unwrap();
        assert!(lock.is_some());
        delete(paths.state_dir()).unwrap();
        assert!(home.path().join("there").exists() && !home.path().join("there/new").exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("letter"), "dear").unwrap();
        assert_eq!(find(home.path()).err().map(|error| error.kind), Some(Kind::Refused));
        assert!(find(&home.path().join("absent")).unwrap().is_none());
    }

    #[test]
    fn two_demos_do_not_run_at_once() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(&home.path().join("demo"));
        let _lock = make(&paths).unwrap();
        assert_eq!(find(paths.state_dir()).err().map(|error| error.kind), Some(Kind::Refused));
    }
}
