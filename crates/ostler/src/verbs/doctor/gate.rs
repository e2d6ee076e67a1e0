//! Whether approvals mean something here: that nothing goes past them, and that their record holds.

use super::Check;
use crate::config::{Config, Forward};
use crate::daemon::forwarded;
use crate::output::entries;
use crate::verbs::audit::{Checked, check_all};
use crate::verbs::{Context, helper};

pub(super) fn checks(context: &Context) -> Vec<Check> {
    [Some(gate()), Some(audit(context)), terminal()].into_iter().flatten().collect()
}

/// What somebody should know who decides in this very terminal; nothing where there is none.
fn terminal() -> Option<Check> {
    if let Some(words) = crate::exclusive::pane() {
        let text = format!("{words}; decide in a terminal of its own");
        return Some(Check::weak("terminal", text));
    }
    crate::exclusive::own_place().ok()?;
    Some(match crate::exclusive::terminal_is_ours_alone(None) {
        Ok(hidden) if hidden.is_empty() => {
            Check::good("terminal", "no program that runs in ostler has this terminal open")
        }
        Ok(hidden) => {
            let who: Vec<String> = hidden.iter().map(|one| format!("pid {} ({})", one.pid, one.name)).collect();
            let who = crate::output::spelled(&who.join(", "));
            Check::weak("terminal", format!("these run in ostler and hide which files they have open: {who}"))
        }
        Err(who) => {
            Check::weak("terminal", format!("nothing is asked here: {}", crate::output::spelled(&who.to_string())))
        }
    })
}

fn gate() -> Check {
    let uid = rustix::process::getuid();
    if uid.is_root() {
        let text = "you are root: agents run as root too, without asking; run ostler as another user";
        return Check::weak("approvals", text);
    }
    match helper::output("sudo", &["-n", "true"]) {
        Some(_) => Check::weak(
            "approvals",
            format!(
                "`sudo -n true` works for uid {}: agents can become root without asking. Make sudo ask for a password (no NOPASSWD, or `sudo -k` now), or run ostler as another user",
                uid.as_raw()
            ),
        ),
        None => Check::good("approvals", "sudo asks for a password: agents have to ask you to run as root"),
    }
}

fn audit(context: &Context) -> Check {
    let checked = match check_all(context) {
        Ok(checked) => checked,
        Err(error) => return Check::broken("audit", error.message),
    };
    let broken: Vec<String> = checked
        .iter()
        .filter_map(|one| one.result.as_ref().err().map(|why| format!("{}: {why}", one.instance)))
        .collect();
    if !broken.is_empty() {
        return Check::broken("audit", broken.join("; "));
    }
    let forwards =
        Config::load(context.paths.config_file()).is_ok_and(|config| config.audit.forward != Forward::Nowhere);
    let behind = |one: &Checked| {
        let (all, _) = one.result.as_ref().ok()?;
        let sent = forwarded(&context.paths.instance_dir(&one.instance)).unwrap_or(0);
        let left = all.saturating_sub(sent);
        (forwards && left > 0).then(|| format!("{}: {} not sent to audit.forward yet", one.instance, entries(left)))
    };
    let pending: Vec<String> = checked.iter().filter_map(behind).collect();
    let count: u64 = checked.iter().filter_map(|one| one.result.as_ref().ok()).map(|(entries, _)| entries).sum();
    match (checked.is_empty(), pending.is_empty()) {
        (true, _) => Check::absent("audit", "no audit log yet"),
        (false, true) => Check::good("audit", format!("{} verified", entries(count))),
        (false, false) => Check::weak("audit", format!("{} verified; {}", entries(count), pending.join("; "))),
    }
}
