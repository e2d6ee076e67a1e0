//! Files behind the file that is shown: its interpreter, the script that an interpreter is given, and whatever else the
//! arguments and variables name. Whoever can write one of the first two decides what runs, as if it were the program. None of
//! them is held: when a command runs as root, root opens these paths again, and finds what is there then.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::resolve::{resolve, writable_by};

/// As much of a file as the kernel reads to find its interpreter.
const FIRST_LINE: u64 = 256;
/// An interpreter that is a script has one too; the kernel follows no more.
const DEPTH_MAX: usize = 5;
/// Shells: `-c`, alone or among others (`-ec`), is followed by text.
const SHELLS: [&str; 12] = ["sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "su"];
/// Others that run the file that they are given. Digits and dots may follow these names.
const RUNS_A_FILE: [&str; 34] = [
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "lua",
    "luajit",
    "php",
    "tclsh",
    "wish",
    "expect",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "make",
    "gmake",
    "rscript",
    "java",
    "guile",
    "env",
    "nice",
    "nohup",
    "setsid",
    "timeout",
    "stdbuf",
    "ionice",
    "xargs",
    "chroot",
    "sudo",
    "systemd-run",
];

/// A file that the asking user can change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changeable {
    /// The file, as it was named.
    #[serde(with = "crate::lossy")]
    pub file: PathBuf,
    /// What the user can write: the file, or something on the way to it.
    #[serde(with = "crate::lossy")]
    pub place: PathBuf,
}

/// What lies behind a command, as far as the asking user can change it. Nothing for root, who needs no trick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// Interpreters and scripts: they decide what runs.
    pub code: Vec<Changeable>,
    /// Other files that the arguments and variables name.
    pub named: Vec<Changeable>,
}

/// Looks behind a command whose program is `program`. Commands run in `/`.
pub fn behind<'a>(
    program: &Path,
    argv: &'a [String],
    variables: impl Iterator<Item = &'a String>,
    asker: u32,
) -> Behind {
    let mut found = Behind::default();
    interpreters(program, asker, DEPTH_MAX, &mut found.code);
    let args = argv.get(1..).unwrap_or_default();
    if let Some(interpreter) = runs_a_file(program)
        && let Some(script) = script(args, interpreter)
    {
        add(&script, asker, &mut found.code);
        interpreters(&script, asker, DEPTH_MAX, &mut found.code);
    }
    let values = args.iter().map(|arg| match arg.split_once('=') {
        Some((_, value)) if !arg.starts_with('/') => value,
        _ => arg.as_str(),
    });
    for path in values.chain(variables.map(String::as_str)).filter(|text| text.contains('/')).map(place) {
        if found.code.iter().all(|known| known.file != path) {
            add(&path, asker, &mut found.named);
        }
    }
    found
}

/// Where a path leads for a command, which runs in `/`.
fn place(text: &str) -> PathBuf {
    Path::new("/").join(text)
}

fn add(path: &Path, asker: u32, to: &mut Vec<Changeable>) {
    if let Some(place) = writable_by(path, asker)
        && to.iter().all(|known| known.file != path)
    {
        to.push(Changeable { file: path.to_owned(), place });
    }
}

/// Which of those programs this is, by its name or by that of the file behind it.
fn runs_a_file(program: &Path) -> Option<&'static str> {
    let follow = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    [program, follow.as_path()].iter().filter_map(|path| path.file_name()?.to_str()).find_map(|name| {
        let name = name.to_ascii_lowercase();
        let name = name.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
        SHELLS.into_iter().chain(RUNS_A_FILE).find(|known| *known == name)
    })
}

/// Whether what follows is text to run, which is shown, and no file.
fn is_inline(arg: &str, interpreter: &str) -> bool {
    match interpreter {
        shell if SHELLS.contains(&shell) => arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c'),
        "python" | "pypy" => matches!(arg, "-c" | "-m"),
        "perl" | "ruby" | "node" | "nodejs" | "bun" | "lua" | "luajit" | "guile" => matches!(arg, "-e" | "-E" | "-c"),
        "php" => arg == "-r",
        _ => false,
    }
}

/// The first argument that is a file: options may have values of their own, which are none.
fn script(args: &[String], interpreter: &str) -> Option<PathBuf> {
    let before = args.iter().take_while(|arg| !is_inline(arg, interpreter));
    before.filter(|arg| !arg.starts_with('-') && !arg.is_empty()).map(|arg| place(arg)).find(|path| path.exists())
}

/// The interpreters of a script, and those of them that are scripts too.
fn interpreters(program: &Path, asker: u32, depth: usize, to: &mut Vec<Changeable>) {
    let Some(line) = first_line(program).filter(|_| depth > 0) else { return };
    let mut words = line.split_ascii_whitespace();
    let Some(interpreter) = words.next().map(place) else { return };
    add(&interpreter, asker, to);
    interpreters(&interpreter, asker, depth - 1, to);
    if interpreter.file_name().is_some_and(|name| name == "env") {
        // `env -S NAME=value program`
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
        if let Some(found) = name.and_then(|name| resolve(name, asker).ok()) {
            add(&found.path, asker, to);
            interpreters(&found.path, asker, depth - 1, to);
        }
    }
}

/// What stands behind `#!`.
fn first_line(path: &Path) -> Option<String> {
    // A path may have become something that waits for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Nobody on any machine that runs this.
    const ASKER: u32 = 3_999_999;

    /// A folder of root's (or ours), with a file in it that everybody may write.
    fn written(name: &str, text: &str, mode: u32) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let text = path.to_str().unwrap().to_owned();
        (dir, text)
    }

    fn look(argv: &[&str], variables: &[&str]) -> (Vec<String>, Vec<String>) {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        let variables: Vec<String> = variables.iter().map(|&word| word.to_owned()).collect();
        let program = resolve(&argv[0], ASKER).unwrap().path;
        let found = behind(&program, &argv, variables.iter(), ASKER);
        let names = |all: Vec<Changeable>| all.into_iter().map(|one| one.file.display().to_string()).collect();
        (names(found.code), names(found.named))
    }

    #[test]
    fn the_interpreter_of_a_script_counts_however_it_is_named() {
        let (_one, interpreter) = written("interpreter", "#!/bin/sh\n", 0o777);
        let (_two, script) = written("script", &format!("#!{interpreter} -x\necho\n"), 0o755);
        assert_eq!(look(&[&script], &[]).0, [interpreter.as_str()]);
        let (_three, by_env) = written("by-env", &format!("#!/usr/bin/env -S A=b {interpreter}\n"), 0o755);
        assert_eq!(look(&[&by_env], &[]).0, [interpreter.as_str()]);
        let (_four, plain) = written("plain", "#!/bin/sh\n", 0o755);
        assert_eq!(look(&[&plain], &[]), (vec![], vec![]));
    }

    #[test]
    fn a_script_that_is_given_to_an_interpreter_counts() {
        let (_dir, script) = written("script", "echo\n", 0o666);
        for argv in [&["sh", &script][..], &["sh", "-e", &script], &["timeout", "5", &script], &["env", "A=b", &script]]
        {
            assert_eq!(look(argv, &[]), (vec![script.clone()], vec![]), "{argv:?}");
        }
        // Shown as it is, and text, not a file.
        for argv in
            [&["sh", "-c", "true", &script][..], &["bash", "-ec", "true", &script], &["perl", "-e", "1", &script]]
        {
            assert_eq!(look(argv, &[]), (vec![], vec![script.clone()]), "{argv:?}");
        }
        let (_other, fixed) = written("fixed", "echo\n", 0o644);
        assert_eq!(look(&["sh", &fixed], &[]), (vec![], vec![]));
    }

    #[test]
    fn what_arguments_and_variables_name_is_marked() {
        let (_dir, data) = written("data", "", 0o666);
        assert_eq!(look(&["cat", &data], &[]), (vec![], vec![data.clone()]));
        assert_eq!(look(&["dd", &format!("if={data}")], &[]), (vec![], vec![data.clone()]));
        assert_eq!(look(&["true"], &[&data]), (vec![], vec![data.clone()]));
        assert_eq!(look(&["cat", "/etc/passwd"], &["/root"]), (vec![], vec![]));
    }
}
