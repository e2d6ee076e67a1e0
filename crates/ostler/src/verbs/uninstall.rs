//! `ostler uninstall`: removes what ostler has put on this machine; what it has recorded only with `--purge`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Context;
use crate::output::{CommandError, Kind};

/// Remove links and sockets; with --purge also journals, records and settings
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is removed while an instance runs. The program itself is yours to delete; its path is printed.

Examples:
  ostler uninstall --dry-run
  ostler down --kill && ostler uninstall --purge")]
pub(crate) struct Uninstall {
    /// Also delete every journal, record and setting
    #[arg(long)]
    purge: bool,

    /// Say what would go, and keep it
    #[arg(long)]
    dry_run: bool,
}

impl Uninstall {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let paths = &context.paths;
        let running: Vec<String> = crate::instances::find(paths, None)?
            .into_iter()
            .filter(|found| found.alive || keeper_answers(&found.dir))
            .map(|found| found.name)
            .collect();
        if !running.is_empty() && !self.dry_run {
            let names = running.join(", ");
            return Err(CommandError::new(Kind::Refused, format!("still running or holding processes: {names}"))
                .hint("end them first: ostler up, then ostler down --kill"));
        }
        let mut doomed = super::link::known(paths);
        doomed.extend(sockets(paths.runtime_dir()));
        if self.purge {
            doomed.extend([paths.instances_dir(), paths.state_dir().join(super::link::REGISTER)]);
            doomed.push(paths.config_file().to_owned());
        }
        doomed.retain(|path| path.symlink_metadata().is_ok());
        if !self.dry_run {
            for path in &doomed {
                remove(path)?;
            }
            // A folder goes only with the last thing in it: somebody may keep other things there.
            for folder in [Some(paths.runtime_dir()), Some(paths.state_dir()), paths.config_file().parent()] {
                let _ = folder.map(std::fs::remove_dir);
            }
        }
        self.report(context, &doomed)
    }

    fn report(&self, context: &Context, doomed: &[PathBuf]) -> Result<ExitCode, CommandError> {
        let program = std::env::current_exe()?;
        if context.json() {
            context
                .screen
                .value(&serde_json::json!({"removed": doomed, "dry_run": self.dry_run, "program": program}))?;
            return Ok(ExitCode::SUCCESS);
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        for path in doomed {
            context.screen.line(&format!("{verb} {}", path.display()))?;
        }
        let state = context.paths.state_dir();
        if !self.purge && state.exists() {
            context.screen.line(&format!("kept {} (--purge removes it)", state.display()))?;
        }
        context.screen.line(&format!("the program itself: rm {}", program.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The doors' sockets, dead ones included.
fn sockets(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::FileTypeExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_socket = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    entries.filter(is_socket).map(|entry| entry.path()).collect()
}

fn remove(path: &Path) -> Result<(), CommandError> {
    let found = path.symlink_metadata()?;
    let done = if found.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    done.map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))
}

/// A keeper without a daemon still holds processes.
fn keeper_answers(dir: &Path) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let try_connect = || -> rustix::io::Result<()> {
        let folder =
            rustix::fs::open(dir, rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let short = format!("/proc/self/fd/{}/keeper.sock", std::os::fd::AsRawFd::as_raw_fd(&folder));
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(short)?)
    };
    try_connect().is_ok()
}
