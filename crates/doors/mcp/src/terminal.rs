//! Opening a terminal window for the person who decides.
//!
//! The program and its arguments are passed on as they are: no shell ever sees a host name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// In the order in which they are tried, with the option after which the rest of the line is the program.
const EMULATORS: [(&str, &str); 5] = [
    ("x-terminal-emulator", "-e"),
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("xterm", "-e"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum TerminalError {
    #[error(
        "no terminal emulator found (tried x-terminal-emulator, gnome-terminal, konsole, xfce4-terminal, xterm); \
         run sudo-proxy in a terminal yourself"
    )]
    None,
    #[error("spawn terminal: {0}")]
    Spawn(io::Error),
}

/// Opens a window that runs `program`, in a group of its own: it must outlive the model's client.
pub(crate) fn open(program: &[OsString]) -> Result<Child, TerminalError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (name, option) = find(&path).ok_or(TerminalError::None)?;
    tracing::debug!("terminal: {name} {option} {program:?}");
    Command::new(name)
        .arg(option)
        .args(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(TerminalError::Spawn)
}

fn find(path: &OsStr) -> Option<(&'static str, &'static str)> {
    let is_there = |name: &str| std::env::split_paths(path).any(|folder| is_program(&folder.join(name)));
    EMULATORS.into_iter().find(|(name, _)| is_there(name))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_emulator_that_can_run_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(find(path), None);
        for name in ["xterm", "xfce4-terminal", "gnome-terminal"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(find(path), None, "not executable");
        let allow = |name| {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
        };
        allow("xterm");
        assert_eq!(find(path), Some(("xterm", "-e")));
        allow("xfce4-terminal");
        assert_eq!(find(path), Some(("xfce4-terminal", "-x")));
        allow("gnome-terminal");
        assert_eq!(find(path), Some(("gnome-terminal", "--")));
    }
}
