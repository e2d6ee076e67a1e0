//! The PATH that a login shell would give: a daemon started over SSH has a bare one, and tools live where profiles say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::brief::{Brief, Ended, Forker, Ran};
use crate::lookup::executable;

/// Marks the one line that holds the answer among whatever profiles print.
const SENTINEL: &str = "___OSTLER_LOGIN_PATH___";
/// Long enough for slow profiles; a hung one must not hold the shell for ever.
const DEADLINE: Duration = Duration::from_secs(10);
/// Profiles print banners, not books.
const MAX_OUTPUT: usize = 1 << 20;

/// What asking the login shell brought.
#[derive(Debug, PartialEq, Eq)]
pub enum LoginPath {
    /// The shell's PATH.
    Found(OsString),
    /// The shell ran, its output held no answer.
    Missing,
    /// The shell could not be run, or failed; the text says how.
    Failed(String),
}

/// Asks `shell` (interactive and login, so that every profile is read) for its PATH. Blocks.
pub fn login_path(forker: &Forker, shell: &OsStr, variables: &[(OsString, OsString)]) -> LoginPath {
    let print = format!(r#"/bin/sh -c 'printf "%s%s\n" {SENTINEL} "$PATH"'"#);
    let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str()).unwrap_or_default();
    let Ok(program) = executable(shell, path) else {
        return LoginPath::Failed(format!("{} is not in PATH", shell.display()));
    };
    let mut brief = Brief::new(program, &["-l", "-i", "-c", &print], DEADLINE);
    brief.env = variables.to_vec();
    brief.set("DISABLE_AUTO_UPDATE", "true");
    brief.set("ZSH_DISABLE_COMPFIX", "true");
    brief.with_stderr = false;
    brief.max = MAX_OUTPUT;
    let Ran { ended, said } = match forker.run(&brief) {
        Ok(ran) => ran,
        Err(error) => return LoginPath::Failed(error.to_string()),
    };
    match (answer(&said), ended) {
        (Some(path), _) => LoginPath::Found(path),
        (None, Ended::TimedOut) => LoginPath::Failed(format!("no answer within {} s", DEADLINE.as_secs())),
        (None, ended) if ended.well() => LoginPath::Missing,
        (None, ended) => LoginPath::Failed(ended.to_string()),
    }
}

fn answer(output: &[u8]) -> Option<OsString> {
    output
        .split(|byte| *byte == b'\n')
        .find_map(|line| {
            let at = line.windows(SENTINEL.len()).position(|window| window == SENTINEL.as_bytes())?;
            line.get(at + SENTINEL.len()..)
        })
        .filter(|path| !path.is_empty())
        .map(|path| OsStr::from_bytes(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_marked_line_wins_among_noise() {
        let output = format!("hello\nnoise {SENTINEL}/a:/b\n{SENTINEL}/c\n");
        assert_eq!(answer(output.as_bytes()), Some("/a:/b".into()));
        assert_eq!(answer(b"nothing here\n"), None);
    }

    #[test]
    fn a_missing_shell_is_told_apart_from_a_silent_one() {
        let ask = |shell: &str| login_path(&Forker::here(), shell.as_ref(), &[]);
        assert!(matches!(ask("/no/such/shell"), LoginPath::Failed(_)));
        assert!(matches!(ask("/bin/true"), LoginPath::Missing));
        assert_eq!(ask("/bin/false"), LoginPath::Failed("exit status: 1".into()));
    }
}
