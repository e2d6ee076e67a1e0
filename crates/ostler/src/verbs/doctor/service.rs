//! What the service manager will do to the daemon and its children: at logout, and when a unit restarts.

use std::path::Path;

use ostler_keeper::Custody;

use super::{Check, Context};
use crate::verbs::helper::output;

/// What a tree kill can rely on.
pub(super) fn custody(context: &Context) -> Check {
    match ostler_keeper::custody_of(running(context).unwrap_or_else(std::process::id)) {
        Custody::Groups(home) => Check::good(
            "children",
            format!("control groups below {}: `ostler kill` ends everything a process started", home.display()),
        ),
        Custody::Cookies(why) => Check::weak(
            "children",
            format!("no control groups ({why}): `ostler kill` may miss a process that hides from its parent"),
        ),
    }
}

/// The pid of a daemon that runs.
fn running(context: &Context) -> Option<u32> {
    context.living().unwrap_or_default().into_iter().find_map(|found| Some(found.record?.pid))
}

pub(super) fn checks(context: &Context) -> Vec<Check> {
    if !Path::new("/run/systemd/system").exists() {
        return vec![Check::absent(
            "service",
            "not used here; to start ostler with the machine: ostler service install",
        )];
    }
    let mut checks = vec![linger(), kill_mode(context)];
    checks.extend(match crate::verbs::service::told(context.instance_name()) {
        Some(Ok(text)) => Some(Check::good("service", text)),
        Some(Err(text)) => Some(Check::weak("service", text)),
        None => None,
    });
    checks
}

/// Without lingering, systemd removes the runtime folder and ends the user's services at the last logout.
fn linger() -> Check {
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return Check::good("linger", "not needed for root");
    }
    let property = output("loginctl", &["show-user", &uid.to_string(), "--property=Linger", "--value"]);
    match property.as_deref().map(str::trim) {
        Some("yes") => Check::good("linger", "on: ostler keeps running after logout"),
        Some(_) => {
            Check::weak("linger", "off: a user service ends at your last logout; turn it on: loginctl enable-linger")
        }
        None => Check::weak("linger", "loginctl does not answer; user services may end at logout"),
    }
}

/// A unit that kills its whole control group takes the keeper and every child with the daemon.
fn kill_mode(context: &Context) -> Check {
    let (pid, who) = match running(context) {
        Some(pid) => (pid, "ostler"),
        None => (std::process::id(), "this shell"),
    };
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let Some((unit, user)) = unit_of(&cgroup) else {
        return Check::good("KillMode", format!("{who} does not run in a service"));
    };
    let scope = if user { "--user" } else { "--system" };
    let mode = output("systemctl", &[scope, "show", &unit, "--property=KillMode", "--value"]);
    match mode.as_deref().map(str::trim) {
        Some("process" | "none") => Check::good("KillMode", format!("{unit} keeps processes running at a restart")),
        Some(mode) => Check::broken(
            "KillMode",
            format!(
                "{who} runs in {unit} with KillMode={mode}: restarting it kills every process; use: ostler service install"
            ),
        ),
        None => Check::weak("KillMode", format!("{who} runs in {unit}; systemctl does not answer")),
    }
}

/// The innermost service of a process, and whether it is one of the user's own manager.
fn unit_of(cgroup: &str) -> Option<(String, bool)> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let parts: Vec<&str> = path.split('/').collect();
    let unit = parts.iter().rev().find(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    // user@1000.service is the user's manager itself; a scope is a login session.
    if unit.ends_with(".scope") || unit.starts_with("user@") {
        return None;
    }
    Some(((*unit).to_owned(), parts.iter().any(|part| part.starts_with("user@"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surrounding_service_is_found_and_sessions_are_not_services() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/ostler.service\n";
        assert_eq!(unit_of(user), Some(("ostler.service".into(), true)));
        assert_eq!(unit_of("0::/system.slice/ssh.service\n"), Some(("ssh.service".into(), false)));
        assert_eq!(unit_of("0::/user.slice/user-1000.slice/session-3.scope\n"), None);
        assert_eq!(unit_of("0::/user.slice/user-1000.slice/user@1000.service/tmux.scope\n"), None);
        assert_eq!(unit_of("0::/\n"), None);
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_says_nothing() {
        assert_eq!(output("true", &[]).as_deref(), Some(""));
        assert_eq!(output("false", &[]), None);
        assert_eq!(output("no-such-program-anywhere", &[]), None);
    }
}
