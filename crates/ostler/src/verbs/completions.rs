//! `ostler completions SHELL`: what makes the Tab key know the verbs and flags. `./install` puts it in place.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::output::CommandError;

/// The shells that we speak for; others would be untested.
pub(super) const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = "\
./install and the Debian package install them for you.

Examples:
  ostler completions bash > ~/.local/share/bash-completion/completions/ostler
  ostler completions zsh > ~/.zfunc/_ostler
  ostler completions fish > ~/.config/fish/completions/ostler.fish")]
pub(crate) struct Completions {
    /// bash, zsh or fish
    #[arg(value_parser = shell)]
    shell: Shell,
}

fn shell(text: &str) -> Result<Shell, String> {
    let found = SHELLS.into_iter().find(|shell| shell.to_string() == text);
    found.ok_or_else(|| "known shells: bash, zsh, fish".to_owned())
}

impl Completions {
    pub(super) fn run(self) -> Result<ExitCode, CommandError> {
        io::stdout().write_all(&script(self.shell))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The script for one shell.
pub(super) fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::cli::description(), "ostler", &mut text);
    text
}
