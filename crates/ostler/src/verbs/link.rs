//! `ostler link DIR`: links under the names ostler can stand in for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Context;
use crate::names;
use crate::output::{CommandError, Kind};
use crate::paths::Paths;

/// The file that remembers which links were made, so that `uninstall` finds them.
pub(super) const REGISTER: &str = "links";

const USE_ANOTHER: &str = "use a folder you can write to: ostler link ~/.local/bin";

/// Install the names of other programs ostler can act as
#[derive(Debug, Args)]
#[command(after_help = "Existing files are never replaced.\n\nExample:\n  ostler link ~/.local/bin")]
#[command(override_usage = "ostler link [OPTIONS] <DIR|--list>")]
pub(crate) struct Link {
    /// The folder
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,

    /// Only print the names
    #[arg(long, conflicts_with = "dir")]
    list: bool,
}

impl Link {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let Some(dir) = self.dir else {
            let names: Vec<_> = names::names().collect();
            match context.json() {
                true => context.screen.value(&names)?,
                false => context.screen.line(&names.join("\n"))?,
            }
            return Ok(ExitCode::SUCCESS);
        };
        let program = std::env::current_exe()?;
        let dir = std::fs::create_dir_all(&dir).and_then(|()| std::fs::canonicalize(&dir)).map_err(|error| {
            CommandError::failed(format!("cannot create the folder {}: {error}", dir.display())).hint(USE_ANOTHER)
        })?;
        let links: Vec<PathBuf> = names::names().map(|name| dir.join(name)).collect();
        // Look at all of them before touching one.
        for link in &links {
            if link.symlink_metadata().is_ok() && !is_ours(link) {
                return Err(CommandError::new(
                    Kind::Refused,
                    format!("{} exists and was not created by ostler", link.display()),
                )
                .hint("move it, or use another folder"));
            }
        }
        for link in &links {
            let there = link.symlink_metadata().is_ok();
            let cleared = if there { std::fs::remove_file(link) } else { Ok(()) };
            cleared.and_then(|()| std::os::unix::fs::symlink(&program, link)).map_err(|error| {
                CommandError::failed(format!("cannot create {}: {error}", link.display())).hint(USE_ANOTHER)
            })?;
        }
        remember(&context.paths, &links)?;
        if context.json() {
            context.screen.value(&serde_json::json!({ "program": program, "links": links }))?;
            return Ok(ExitCode::SUCCESS);
        }
        for link in &links {
            context.screen.line(&format!("{} -> {}", link.display(), program.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A symbolic link to a program called ostler, also one that has moved since.
pub(super) fn is_ours(link: &Path) -> bool {
    std::fs::read_link(link).is_ok_and(|target| target.file_name().is_some_and(|name| name == "ostler"))
}

/// Every link ever made that is still there and still ours.
pub(super) fn known(paths: &Paths) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(paths.state_dir().join(REGISTER)).unwrap_or_default();
    text.lines().map(PathBuf::from).filter(|link| is_ours(link)).collect()
}

fn remember(paths: &Paths, links: &[PathBuf]) -> Result<(), CommandError> {
    crate::paths::ensure_private_dir(paths.state_dir())?;
    let mut all = known(paths);
    all.extend_from_slice(links);
    all.sort();
    all.dedup();
    let text: String = all.iter().map(|link| format!("{}\n", link.display())).collect();
    Ok(std::fs::write(paths.state_dir().join(REGISTER), text)?)
}
