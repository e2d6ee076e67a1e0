//! `ostler uninstall`: removes what ostler has put on this machine; what it has recorded only with `--purge`. Work that an
//! agent has left in a work tree is never removed unasked.

mod trees;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Context;
use crate::instances::{FoundInstance, flag, is_stale, keeper_holds};
use crate::output::{CommandError, Kind, visible};
use crate::paths::Paths;

/// Remove what ostler created; with --purge also all data
#[derive(Debug, Args)]
#[command(after_help = "\
Stop ostler first. --purge also removes the worktrees of sessions, unless one has uncommitted work: then nothing is \
removed. What is left is named: the program itself, branches that still have commits, and folders of programs that ostler \
stood in for.

Examples:
  ostler uninstall --dry-run
  ostler down --kill && ostler uninstall --purge")]
pub(crate) struct Uninstall {
    /// Also delete all output, sessions, records and settings
    #[arg(long)]
    purge: bool,

    /// With --purge: also worktrees with uncommitted work
    #[arg(long, requires = "purge")]
    force: bool,

    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Uninstall {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let paths = &context.paths;
        let instances = crate::instances::find(paths, None)?;
        if !self.dry_run {
            refuse_while_running(&instances)?;
            if let Some(unit) = super::service::installed(context.instance_name()) {
                let message = format!("a service would start it again: {}", unit.display());
                return Err(CommandError::new(Kind::Refused, message).hint("first: ostler service uninstall"));
            }
            refuse_with_a_demo(paths)?;
        }
        let trees = if self.purge { trees::find(&instances) } else { Vec::new() };
        let unsaved: Vec<&trees::Tree> = trees.iter().filter(|tree| tree.unsaved.is_some()).collect();
        if !unsaved.is_empty() && !self.force && !self.dry_run {
            let named: String = unsaved.iter().map(|tree| format!("\n  {}", visible(&tree.told()))).collect();
            return Err(CommandError::new(
                Kind::Refused,
                format!("worktrees of sessions contain uncommitted work:{named}"),
            )
            .hint("commit or move it first; to delete it anyway: ostler uninstall --purge --force"));
        }
        let mut doomed = super::link::known(paths);
        doomed.extend(sockets(paths, &instances));
        if self.purge {
            doomed.extend([paths.instances_dir(), paths.state_dir().join(super::link::REGISTER)]);
            doomed.push(paths.config_file().to_owned());
        }
        doomed.retain(|path| path.symlink_metadata().is_ok());
        let mut left = of_others();
        if !self.dry_run {
            for tree in &trees {
                if let Some(branch) = tree.remove(self.force)? {
                    left.push(format!("branch {branch}, with its commits"));
                }
            }
            for path in &doomed {
                remove(path)?;
            }
            // A folder goes only with the last thing in it: somebody may keep other things there.
            for folder in [Some(paths.runtime_dir()), Some(paths.state_dir()), paths.config_file().parent()] {
                let _ = folder.map(std::fs::remove_dir);
            }
        }
        self.report(context, &trees, &doomed, &left)
    }

    fn report(
        &self,
        context: &Context,
        trees: &[trees::Tree],
        doomed: &[PathBuf],
        left: &[String],
    ) -> Result<ExitCode, CommandError> {
        let program = std::env::current_exe()?;
        if context.json() {
            let removed: Vec<&PathBuf> = trees.iter().map(|tree| &tree.path).chain(doomed).collect();
            let held: Vec<&PathBuf> =
                trees.iter().filter(|tree| tree.unsaved.is_some()).map(|tree| &tree.path).collect();
            context.screen.value(&serde_json::json!({
                "removed": removed, "with_unsaved_work": held, "dry_run": self.dry_run, "left": left, "program": program,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        for tree in trees {
            let line = match tree.unsaved {
                Some(_) if self.dry_run && !self.force => format!("would stop because of {}", tree.told()),
                _ => format!("{verb} {}", tree.told()),
            };
            context.screen.line(&visible(&line))?;
        }
        for path in doomed {
            context.screen.line(&format!("{verb} {}", path.display()))?;
        }
        let state = context.paths.state_dir();
        if !self.purge && state.exists() {
            context.screen.line(&format!("kept {} (delete it with --purge)", state.display()))?;
        }
        for one in left {
            context.screen.line(&visible(&format!("left {one}")))?;
        }
        context.screen.line(&format!("to remove the program: rm {}", program.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// An instance that lives, or whose keeper holds something, must be ended by its own daemon.
fn refuse_while_running(instances: &[FoundInstance]) -> Result<(), CommandError> {
    let (alive, rest): (Vec<&FoundInstance>, Vec<&FoundInstance>) = instances.iter().partition(|found| found.alive);
    let held: Vec<&FoundInstance> = rest.into_iter().filter(|found| keeper_holds(&found.dir)).collect();
    let names = |of: &[&FoundInstance]| of.iter().map(|found| found.name.clone()).collect::<Vec<_>>().join(", ");
    let message = match (alive.is_empty(), held.is_empty()) {
        (true, true) => return Ok(()),
        (false, true) => format!("still running: {}", names(&alive)),
        (true, false) => format!("stopped, with processes still running: {}", names(&held)),
        (false, false) => {
            format!("still running: {}; stopped, with processes: {}", names(&alive), names(&held))
        }
    };
    let ways = alive.iter().chain(&held).map(|found| format!("ostler down --kill{}", flag(&found.name)));
    let ways: Vec<String> = ways.collect();
    Err(CommandError::new(Kind::Refused, message).hint(format!("first: {}", ways.join(" && "))))
}

/// Folders in which ostler stood in for other programs; those may be there too, so nothing in them is touched.
fn of_others() -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let told = |name: &str| format!("{}: {name} itself may use it", home.join(format!(".{name}")).display());
    ["codecast", "zeroclaw"].into_iter().filter(|name| home.join(format!(".{name}")).exists()).map(told).collect()
}

/// A demo lives in a folder of its own, and goes in its own way.
fn refuse_with_a_demo(paths: &Paths) -> Result<(), CommandError> {
    match paths.of_demo().state_dir().exists() {
        true => Err(CommandError::new(Kind::Refused, "the demo is still there").hint("first: ostler demo --remove")),
        false => Ok(()),
    }
}

/// The doors' sockets, dead ones included. The folder may hold those of other programs too. Of those elsewhere, the ones that
/// a killed daemon has left, unless somebody listens there again.
fn sockets(paths: &Paths, instances: &[FoundInstance]) -> Vec<PathBuf> {
    use std::os::unix::fs::FileTypeExt;
    let named = instances.iter().flat_map(|FoundInstance { name, .. }| {
        let doors = crate::daemon::door_names().map(|door| paths.door_socket(name, door));
        std::iter::once(paths.native_socket(name)).chain(doors)
    });
    let doors = instances.iter().filter_map(|found| found.record.as_ref()).flat_map(|record| &record.doors);
    let left = doors.map(|door| PathBuf::from(&door.address)).filter(|path| path.is_absolute() && is_stale(path));
    let mut all: Vec<PathBuf> = named.chain(left).collect();
    all.sort();
    all.dedup();
    all.retain(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()));
    all
}

fn remove(path: &Path) -> Result<(), CommandError> {
    let found = path.symlink_metadata()?;
    let done = if found.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    done.map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))
}
