//! The user's own service manager, asked through its programs. There may be none: in a container, on another init system, or
//! for a user who came by `su`.

use std::process::Command;

use crate::output::{CommandError, visible};

/// Runs `systemctl --user`; what it prints.
pub(super) fn systemctl(args: &[&str]) -> Result<String, CommandError> {
    let run = Command::new("systemctl").arg("--user").args(args).output();
    let run = run.map_err(|error| CommandError::failed(format!("systemctl: {error}")))?;
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let said = said.lines().next().unwrap_or("failed").to_owned();
    Err(CommandError::failed(format!("systemctl --user {}: {}", args.join(" "), visible(&said))))
}

/// A manager that answers.
pub(super) fn is_there() -> bool {
    systemctl(&["show", "--property=Version"]).is_ok()
}

/// One property of a unit; empty where there is none.
pub(super) fn property(unit: &str, name: &str) -> String {
    let said = systemctl(&["show", unit, &format!("--property={name}"), "--value"]).unwrap_or_default();
    said.trim().to_owned()
}

/// The process that a unit's manager sees as the service.
pub(super) fn main_pid(unit: &str) -> Option<u32> {
    property(unit, "MainPID").parse().ok().filter(|pid| *pid != 0)
}

/// Whether the user's services run without a login; nobody knows where nobody answers.
pub(super) fn lingers() -> Option<bool> {
    let uid = rustix::process::geteuid().as_raw();
    let run = Command::new("loginctl").args(["show-user", &uid.to_string(), "--property=Linger", "--value"]).output();
    let run = run.ok().filter(|run| run.status.success())?;
    match String::from_utf8_lossy(&run.stdout).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
