//! What a person has to know of the files of a stage before they say yes to it: whether they are still there, still those that
//! were asked for, and whether the one who asks could change them. Looks at the files; decides nothing.

use std::path::{Path, PathBuf};

use crate::{Seal, behind, resolve};

/// Files that are named one by one; more than that, nobody reads.
pub const NAMED_MAX: usize = 8;

/// Something to warn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No program of that name.
    NotFound,
    /// The one who asks decides what the file that it runs does.
    Replaceable {
        /// The file.
        file: PathBuf,
        /// What they can write: the file, or something on the way to it.
        place: PathBuf,
        /// It is the program itself, not an interpreter or a script behind it.
        is_program: bool,
    },
    /// The one who asks can change a file that is named.
    Changeable(PathBuf),
    /// And so many more.
    MoreChangeable(usize),
    /// The program was there when it was asked for.
    Gone(PathBuf),
    /// The program is another one since.
    Changed(PathBuf),
}

impl Warning {
    /// In words. `number` is the stage's, from 1; `user` is who asks; paths are written as `path` writes them.
    pub fn words(&self, number: usize, user: &str, path: impl Fn(&Path) -> String) -> String {
        let said = match self {
            Self::NotFound => "command not found, nothing would run".to_owned(),
            Self::Replaceable { file, place, is_program } => {
                let runs = if *is_program { "" } else { ", which it runs" };
                format!("{user}, who asks, can replace {}{runs} (can write to {})", path(file), path(place))
            }
            Self::Changeable(file) => format!("{user}, who asks, can change {}", path(file)),
            Self::MoreChangeable(more) => format!("{user}, who asks, can change {more} more of these files"),
            Self::Gone(file) => format!("{} no longer exists", path(file)),
            Self::Changed(file) => format!("{} changed after the request was made", path(file)),
        };
        format!("stage {number}: {said}")
    }
}

/// What is to be said of a stage. Only of what runs as root it matters what lies behind its program.
pub fn warnings<'a>(
    program: Option<&Path>,
    seal: Option<&Seal>,
    argv: &'a [String],
    variables: impl Iterator<Item = &'a String>,
    asker: u32,
    as_root: bool,
) -> Vec<Warning> {
    let Some(program) = program.filter(|path| path.is_absolute()) else { return vec![Warning::NotFound] };
    let mut found = Vec::new();
    if as_root {
        let behind = behind(program, argv, variables, asker);
        found.extend(behind.code.into_iter().map(|code| Warning::Replaceable {
            file: code.file,
            place: code.place,
            is_program: false,
        }));
        let more = behind.named.len().saturating_sub(NAMED_MAX);
        found.extend(behind.named.into_iter().take(NAMED_MAX).map(|named| Warning::Changeable(named.file)));
        found.extend((more > 0).then_some(Warning::MoreChangeable(more)));
    }
    let Ok(there) = resolve(&program.to_string_lossy(), asker) else {
        found.push(Warning::Gone(program.to_owned()));
        return found;
    };
    if seal.is_some() && there.seal.is_some() && seal != there.seal.as_ref() {
        found.push(Warning::Changed(program.to_owned()));
    }
    found.extend(there.writable_by_asker.map(|place| Warning::Replaceable {
        file: program.to_owned(),
        place,
        is_program: true,
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(program: Option<&str>, argv: &[&str], as_root: bool) -> Vec<String> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let found = warnings(program.map(Path::new), None, &argv, std::iter::empty(), 7, as_root);
        found.iter().map(|warning| warning.words(1, "ann", |path| path.display().to_string())).collect()
    }

    #[test]
    fn what_is_not_there_is_said_to_be() {
        assert_eq!(said(None, &["x"], true), ["stage 1: command not found, nothing would run"]);
        assert_eq!(said(Some("x"), &["x"], true), ["stage 1: command not found, nothing would run"]);
        assert_eq!(said(Some("/nowhere/x"), &["x"], true), ["stage 1: /nowhere/x no longer exists"]);
        assert!(said(Some("/bin/ls"), &["ls"], true).is_empty());
    }

    #[test]
    fn a_script_of_the_one_who_asks_is_named_if_it_would_run_as_root() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::set_permissions(tree.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let script = tree.path().join("x.sh").display().to_string();
        std::fs::write(&script, "true").unwrap();
        let found = said(Some("/bin/sh"), &["sh", &script], true);
        assert!(
            found.len() == 1 && found[0].contains("ann, who asks, can replace") && found[0].contains("x.sh"),
            "{found:?}"
        );
        assert!(said(Some("/bin/sh"), &["sh", &script], false).is_empty());
    }
}
