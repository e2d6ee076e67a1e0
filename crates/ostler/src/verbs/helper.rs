//! Programs of this machine that a verb asks something, by the engine's one runner of short helpers: none holds a verb up.

use std::time::Duration;

use ostler_engine::Forker;
use ostler_engine::brief::{Brief, Ended};

/// A program that does not answer in this time is treated as not there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// A program that does something, such as starting a service, is waited for as long as a service manager waits.
const DONE_WITHIN: Duration = Duration::from_secs(90);

/// Who runs them: this process.
pub(super) fn forker() -> Forker {
    Forker::here()
}

/// What it prints, if it ends well and in time.
pub(super) fn output(program: &str, args: &[&str]) -> Option<String> {
    let mut brief = Brief::new(program, args, ANSWERS_WITHIN);
    brief.with_stderr = false;
    let ran = forker().run(&brief).ok().filter(|ran| ran.ended.well())?;
    String::from_utf8(ran.said).ok()
}

/// Has it do something. An error of the system's: it is not there, or cannot be run; else what it said instead of doing it.
pub(super) fn act(program: &str, args: &[&str], set: impl FnOnce(&mut Brief)) -> std::io::Result<Result<(), String>> {
    let mut brief = Brief::new(program, args, DONE_WITHIN);
    set(&mut brief);
    let ran = forker().run(&brief)?;
    Ok(match ran.ended {
        ended if ended.well() => Ok(()),
        Ended::TimedOut => Err(ran.ended.to_string()),
        _ => Err(String::from_utf8_lossy(&ran.said).trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_asked_and_what_it_says_instead_is_told() {
        assert_eq!(output("sh", &["-c", "echo yes; echo no >&2"]), Some("yes\n".into()));
        assert_eq!(output("sh", &["-c", "echo yes; exit 1"]), None);
        assert_eq!(output("no-such-program", &[]), None);
        assert_eq!(act("sh", &["-c", "echo why >&2; exit 3"], |_| {}).unwrap(), Err("why".into()));
        assert_eq!(act("sh", &["-c", "test $HERE = 1"], |brief| brief.set("HERE", "1")).unwrap(), Ok(()));
        assert!(act("no-such-program", &[], |_| {}).is_err());
    }
}
