//! What the macros do in an armed build. Never fails: a hook that cannot be honoured is passed by.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Looks for hooks in `dir` instead of `OSTLER_HOOKS`; only before the first hook was passed.
pub fn use_directory(dir: &Path) {
    DIRECTORY.get_or_init(|| Some(dir.to_owned()));
}

fn directory() -> Option<&'static Path> {
    DIRECTORY.get_or_init(|| std::env::var_os("OSTLER_HOOKS").map(PathBuf::from)).as_deref()
}

/// Reports the hit and waits, if there is a FIFO of that name.
pub fn pause(name: &str) {
    let Some(dir) = directory() else { return };
    let fifo = dir.join(name);
    if !fifo.metadata().is_ok_and(|meta| meta.file_type().is_fifo()) {
        return;
    }
    let hits = OpenOptions::new().append(true).create(true).open(dir.join(format!("{name}.hit")));
    if let Ok(mut hits) = hits {
        // One write: a line is either there or not.
        let _ = hits.write_all(format!("{}\n", std::process::id()).as_bytes());
    }
    if let Ok(mut fifo) = File::open(&fifo) {
        let _ = fifo.read(&mut [0; 1]);
    }
}

/// The errno written in `<name>.fault`, if there is such a file.
pub fn answer(name: &str) -> Option<i32> {
    let text = std::fs::read_to_string(directory()?.join(format!("{name}.fault"))).ok()?;
    text.trim().parse().ok()
}
