//! The PATH that a login shell would give: a daemon started over SSH has a bare one, and tools live where profiles say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;

/// Marks the one line that holds the answer among whatever profiles print.
const SENTINEL: &str = "___OSTLER_LOGIN_PATH___";
/// Long enough for slow profiles; a hung one must not hold the shell for ever.
const DEADLINE: Duration = Duration::from_secs(10);
/// Profiles print banners, not books.
const MAX_OUTPUT: u64 = 1 << 20;

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

/// Asks `shell` (interactive and login, so that every profile is read) for its PATH.
pub async fn login_path(shell: &OsStr, variables: &[(OsString, OsString)]) -> LoginPath {
    let print = format!(r#"/bin/sh -c 'printf "%s%s\n" {SENTINEL} "$PATH"'"#);
    let child = tokio::process::Command::new(shell)
        .args(["-l", "-i", "-c", &print])
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .env("DISABLE_AUTO_UPDATE", "true")
        .env("ZSH_DISABLE_COMPFIX", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return LoginPath::Failed(error.to_string()),
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut output = Vec::new();
    let read = async {
        if let Some(stdout) = child.stdout.take() {
            // A read error ends the output early: what arrived still counts.
            let _ = stdout.take(MAX_OUTPUT).read_to_end(&mut output).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(DEADLINE, read).await;
    if ended.is_err()
        && let Some(group) = group
    {
        // Gone already is as good as killed.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = child.wait().await;
    }
    if let Some(path) = answer(&output) {
        return LoginPath::Found(path);
    }
    match ended {
        Ok(Ok(status)) if status.success() => LoginPath::Missing,
        Ok(Ok(status)) => LoginPath::Failed(status.to_string()),
        Ok(Err(error)) => LoginPath::Failed(error.to_string()),
        Err(_) => LoginPath::Failed(format!("no answer within {} s", DEADLINE.as_secs())),
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

    #[tokio::test]
    async fn a_missing_shell_is_told_apart_from_a_silent_one() {
        assert!(matches!(login_path("/no/such/shell".as_ref(), &[]).await, LoginPath::Failed(_)));
        assert!(matches!(login_path("/bin/true".as_ref(), &[]).await, LoginPath::Missing));
    }
}
