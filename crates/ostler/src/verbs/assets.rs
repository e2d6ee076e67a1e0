//! `ostler assets DIR`: completions and manual pages, made from the description of the command line and laid out as below
//! a prefix. For `./install` and packages: the program has them in itself, so that it can be installed without its source.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{Context, completions};
use crate::output::CommandError;

/// Write completions and manual pages below a folder
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ostler assets ~/.local")]
pub(crate) struct Assets {
    /// A prefix, such as ~/.local
    dir: PathBuf,
}

impl Assets {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let share = self.dir.join("share");
        for shell in completions::SHELLS {
            write(context, &share.join(place(shell)), &completions::script(shell))?;
        }
        let mut command = crate::cli::description();
        command.build();
        pages(context, &command, "ostler", &share.join("man/man1"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where a shell looks below a prefix.
fn place(shell: clap_complete::Shell) -> &'static str {
    match shell {
        clap_complete::Shell::Zsh => "zsh/site-functions/_ostler",
        clap_complete::Shell::Fish => "fish/vendor_completions.d/ostler.fish",
        _ => "bash-completion/completions/ostler",
    }
}

/// A page for a command, and one for each of its own: `ostler-service-install.1`.
fn pages(context: &Context, command: &clap::Command, name: &str, dir: &Path) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    write(context, &dir.join(format!("{name}.1")), &text)?;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && below.get_name() != "assets") {
        pages(context, below, &format!("{name}-{}", below.get_name()), dir)?;
    }
    Ok(())
}

/// Writes one file and says so.
fn write(context: &Context, path: &Path, text: &[u8]) -> Result<(), CommandError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    Ok(context.screen.line(&path.display().to_string())?)
}
