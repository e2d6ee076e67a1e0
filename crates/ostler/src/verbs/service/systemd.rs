//! The user's own service manager, asked through its programs. There may be none: in a container, on another init system, or
//! for a user who came by `su`.

use crate::output::{CommandError, visible};
use crate::verbs::helper;

/// Runs `systemctl --user`.
pub(super) fn systemctl(args: &[&str]) -> Result<(), CommandError> {
    let run = helper::act("systemctl", &[&["--user"], args].concat(), |_| {});
    let run = run.map_err(|error| CommandError::failed(format!("systemctl: {error}")))?;
    run.map_err(|said| {
        let said = said.lines().next().unwrap_or("failed");
        CommandError::failed(format!("systemctl --user {}: {}", args.join(" "), visible(said)))
    })
}

/// A manager that answers.
pub(super) fn is_there() -> bool {
    helper::output("systemctl", &["--user", "show", "--property=Version"]).is_some()
}

/// One property of a unit; empty where there is none.
pub(super) fn property(unit: &str, name: &str) -> String {
    let said = helper::output("systemctl", &["--user", "show", unit, &format!("--property={name}"), "--value"]);
    said.unwrap_or_default().trim().to_owned()
}

/// The process that a unit's manager sees as the service.
pub(super) fn main_pid(unit: &str) -> Option<u32> {
    property(unit, "MainPID").parse().ok().filter(|pid| *pid != 0)
}

/// Whether the user's services run without a login; nobody knows where nobody answers.
pub(super) fn lingers() -> Option<bool> {
    let uid = rustix::process::geteuid().as_raw();
    let said = helper::output("loginctl", &["show-user", &uid.to_string(), "--property=Linger", "--value"])?;
    match said.trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
