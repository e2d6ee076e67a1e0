//! A record of the audit in one line for people. What a client said is quoted by the caller, who makes it safe to show.

use ostler_api::Timestamp;
use ostler_engine::access::device::Device;
use ostler_engine::approval::{Asker, Effect, Outcome, Record, Rule, RuleScope};
use ostler_story::{Decision, Json, Pattern};
use serde::Deserialize;

use crate::output::{Paint, by_name, entries, user};

/// The kind of record in a word, its colour, and what it says. Records of a newer version are shown as they are.
pub(super) fn tell(record: &Json) -> (&'static str, Paint, String) {
    match Record::deserialize(record) {
        Ok(record) => say(record),
        Err(_) => ("?", Paint::Warn, record.as_str().map_or_else(|| record.to_string(), str::to_owned)),
    }
}

fn say(record: Record) -> (&'static str, Paint, String) {
    match record {
        Record::Opened { pid, .. } => ("opened", Paint::Dim, format!("ostler was started, pid {pid}")),
        Record::Asked { title, privileged, asker, reason, .. } => {
            let right = if privileged { "as root: " } else { "" };
            let reason = if reason.is_empty() { String::new() } else { format!(", {reason:?}") };
            ("asked", Paint::Head, format!("{right}{title}  ({}{reason})", who(&asker)))
        }
        Record::Refused { asker, title, why } => ("refused", Paint::Warn, format!("{title}: {why} ({})", who(&asker))),
        Record::Shown { surface, .. } => ("shown", Paint::Dim, format!("first on {surface}")),
        Record::Decided { decision, by, .. } => decided(&decision, &by_name(&by)),
        Record::Attempted { who, why } => ("attempted", Paint::Bad, format!("{who}: not allowed: {why}")),
        Record::Access { process, all, by } => {
            let what = if all { "everything" } else { "only its own session" };
            ("access", Paint::Head, format!("{process} may reach {what} (by {})", by_name(&by)))
        }
        Record::Expired => ("expired", Paint::Warn, "not answered in time".into()),
        Record::Withdrawn { why } => ("withdrawn", Paint::Warn, why),
        Record::Applied { process } => {
            let how =
                process.map_or("the agent was told".to_owned(), |process| format!("process {process} was started"));
            ("applied", Paint::Good, how)
        }
        Record::Failed { why } => ("failed", Paint::Bad, why),
        Record::Finished { outcome } => ("finished", Paint::Plain, ended(&outcome)),
        Record::Rebooted => ("unknown", Paint::Warn, "the machine restarted after approval".into()),
        Record::Reattached => ("reattached", Paint::Dim, "the requester came back after a restart".into()),
        Record::RuleAdded { rule } => {
            let says = if rule.effect == Effect::Allow { "yes" } else { "no" };
            let place = match &rule.scope {
                RuleScope::Session { session } => format!("in session {session}"),
                RuleScope::Workspace { path } => format!("in {path}"),
                RuleScope::Host => "everywhere".into(),
            };
            let right = match rule.pattern {
                Pattern::Command { privileged: true, .. } => "as root: ",
                _ => "",
            };
            let until = rule.expires_at.map(|end| format!(" until {}", Timestamp::from_millis(end)));
            let Rule { name, title, made_by, .. } = rule;
            let until = until.unwrap_or_default();
            (
                "rule",
                Paint::Head,
                format!("{name} says {says} {place}{until} to {right}{title} (by {})", by_name(&made_by)),
            )
        }
        Record::Suspended => ("suspended", Paint::Warn, "ostler was stopped: confirm what counted before".into()),
        Record::Affirmed { rules, by } => {
            ("affirmed", Paint::Head, format!("rules {} by {}", rules.join(", "), by_name(&by)))
        }
        Record::Quarantined { entries: count } => {
            ("foreign", Paint::Bad, format!("written by another program: {}; see --verify", entries(count)))
        }
        Record::Lost { entries: count } => ("lost", Paint::Bad, format!("the log was gone, with {}", entries(count))),
        Record::KeeperLost { closed } => {
            let more = if closed { "; nobody can decide until a password proves who they are" } else { "" };
            ("keeper", Paint::Warn, format!("was killed and replaced{more}"))
        }
        Record::Proved { by } => ("proved", Paint::Head, format!("by password: {}", by_name(&by))),
        Record::Checkpoint { .. } => ("checkpoint", Paint::Dim, String::new()),
        Record::RuleRevoked { name, by } => ("revoked", Paint::Head, format!("rule {name} by {}", by_name(&by))),
        Record::SettingConfirmed { setting, value, by } => {
            ("confirmed", Paint::Head, format!("{setting} = {value} by {}", by_name(&by)))
        }
        Record::DevicePaired { device, address, .. } => {
            let Device { name, rights, key, by, .. } = device;
            let how = if key.is_some() { "with a key" } else { "with tokens" };
            ("paired", Paint::Head, format!("device {name} at {address}, rights {rights}, {how} (by {})", by_name(&by)))
        }
        Record::DeviceRenewed { device, address, .. } => {
            ("renewed", Paint::Dim, format!("tokens of {device} at {address}"))
        }
        Record::DeviceSeen { device, address } => ("seen", Paint::Dim, format!("device {device} at {address}")),
        Record::DeviceSubscribed { device, endpoint: Some(endpoint) } => {
            ("subscribed", Paint::Plain, format!("device {device} to notices at {endpoint}"))
        }
        Record::DeviceSubscribed { device, endpoint: None } => {
            ("unsubscribed", Paint::Dim, format!("device {device} from notices"))
        }
        Record::DeviceRevoked { name, why, by, .. } => {
            ("revoked", Paint::Warn, format!("device {name}: {why} (by {})", by_name(&by)))
        }
        Record::DevicesAffirmed { devices, by } => {
            ("affirmed", Paint::Head, format!("devices {} by {}", devices.join(", "), by_name(&by)))
        }
        Record::SettingLapsed { setting } => ("lapsed", Paint::Dim, format!("{setting} is back at its default")),
    }
}

fn decided(decision: &Decision, by: &str) -> (&'static str, Paint, String) {
    let paint = if decision.is_yes() { Paint::Good } else { Paint::Bad };
    let more = match decision {
        Decision::Deny { message, .. } if !message.is_empty() => format!(": {message}"),
        _ => String::new(),
    };
    ("decided", paint, format!("{} by {by}{more}", decision.word()))
}

fn who(asker: &Asker) -> String {
    let session = match &asker.verified_session {
        Some(host) => format!(", {}", crate::request::hosted(host)),
        None if asker.claimed_session.is_empty() => String::new(),
        None => format!(", claims session {:?}", asker.claimed_session),
    };
    let pid = asker.pid.map_or(String::new(), |pid| format!(" pid {pid}"));
    let door = if asker.door == "native" { String::new() } else { format!(" through {}", asker.door) };
    format!("{}{pid}{door}{session}", user(asker.uid))
}

fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran { exit_codes, stdout, .. } => {
            let codes: Vec<String> = exit_codes.iter().map(ToString::to_string).collect();
            format!("exit {}, {} bytes of output", codes.join(" | "), stdout.length)
        }
        Outcome::Broke { why } => why.clone(),
        Outcome::NobodySaw => "exit code unknown".into(),
        Outcome::Delivered => "delivered".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_newer_version_is_shown_as_it_is() {
        assert_eq!(tell(&serde_json::json!({"what": "sung"})).2, r#"{"what":"sung"}"#);
    }

    #[test]
    fn an_automatic_yes_names_its_rule() {
        let by = serde_json::json!({"from": "rule", "name": "r1"});
        let record = serde_json::json!({"what": "decided", "decision": {"verdict": "once"}, "content": "x", "by": by});
        assert_eq!(tell(&record), ("decided", Paint::Good, "approved by rule r1".into()));
    }
}
