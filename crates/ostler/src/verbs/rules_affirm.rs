//! `ostler rules affirm`: shows every suspended rule, whole, and takes one key on the person's own terminal. What was not
//! on the screen is not affirmed: each rule is named by the hash of all of it.

use std::process::ExitCode;

use ostler_api::{Empty, RuleAffirmParams, RuleEffect, RuleInfo, methods};
use ostler_engine::approval::Pattern;

use super::Context;
use super::approvals::{Tty, with_instance};
use super::confirmed::confirmed;
use super::connect::Reached;
use super::rules::what;
use crate::output::{CommandError, Kind, Paint, ago};
use crate::request::Row;

/// What to say where rules are suspended, in one line.
pub(super) fn hint(count: u64) -> Option<String> {
    let why = "because ostler was stopped; until you confirm";
    match count {
        0 => None,
        1 => Some(format!("1 rule is suspended {why} it, it does nothing: ostler rules affirm")),
        many => Some(format!("{many} rules are suspended {why} them, they do nothing: ostler rules affirm")),
    }
}

pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    let tty = ostler_engine::access::own_place().ok().and_then(|_| Tty::deciding().ok());
    let mut affirmed = Vec::new();
    let mut found = false;
    for mut reached in context.reach_all_deciding()? {
        let rules = reached.client.call::<methods::RuleList>(&Empty {})?.rules;
        let rules: Vec<RuleInfo> = rules.into_iter().filter(|rule| rule.suspended).collect();
        if rules.is_empty() {
            continue;
        }
        found = true;
        let Some(tty) = &tty else { return Err(refusal(&mut reached)) };
        tty.alone(&reached.client)?;
        if !is_yes(context, tty, &mut reached, &rules)? {
            return Err(CommandError::failed("nothing was affirmed")
                .hint("remove a rule that is not yours: ostler rules revoke NAME"));
        }
        let digests = rules.iter().filter(|rule| can_be(rule)).map(|rule| rule.digest.clone()).collect();
        let names = reached.client.call::<methods::RuleAffirm>(&RuleAffirmParams { digests })?.names;
        affirmed.extend(names.into_iter().map(|name| (reached.found.name.clone(), name)));
    }
    if context.json() {
        let rows =
            affirmed.iter().map(|(instance, name)| with_instance(instance, &serde_json::json!({"affirmed": name})));
        context.screen.value(&rows.collect::<Vec<_>>())?;
    } else if found {
        for (_, name) in affirmed {
            context.screen.line(&format!("{name} affirmed"))?;
        }
    } else {
        context.screen.note("no rule is suspended");
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried; nothing is named.
fn refusal(reached: &mut Reached) -> CommandError {
    match reached.client.call::<methods::RuleAffirm>(&RuleAffirmParams { digests: Vec::new() }) {
        Err(error) => error.into(),
        Ok(_) => CommandError::new(Kind::Refused, "affirming needs a terminal"),
    }
}

/// Whether all of it can be shown.
fn can_be(rule: &RuleInfo) -> bool {
    let pattern = serde_json::from_str::<Pattern>(&rule.pattern).ok();
    matches!(pattern, Some(Pattern::Command { .. })) || rule.content.is_some()
}

fn is_yes(context: &Context, tty: &Tty, reached: &mut Reached, rules: &[RuleInfo]) -> Result<bool, CommandError> {
    let mut rows = vec![Row::ours(
        Paint::Plain,
        format!("Rules of `{}` that nothing vouches for since ostler was stopped. Are they yours?", reached.found.name),
    )];
    rules.iter().for_each(|rule| rows.extend(show(rule)));
    rows.push(Row::ours(Paint::Plain, ""));
    let question = if rules.len() == 1 { "use this rule again? [y/N] " } else { "use these rules again? [y/N] " };
    confirmed(&context.screen, tty, &rows, question, || {
        reached.client.call::<methods::InstanceStatus>(&Empty {})?;
        Ok(true)
    })
}

/// A rule, whole. Its title may be a lie; what it matches is not.
fn show(rule: &RuleInfo) -> Vec<Row> {
    let pattern = serde_json::from_str::<Pattern>(&rule.pattern).ok();
    let says = if rule.effect == RuleEffect::Allow { "approves" } else { "denies" };
    let root = matches!(pattern, Some(Pattern::Command { privileged: true, .. }));
    let agent = matches!(pattern, Some(Pattern::Command { forward_agent: true, .. }));
    let right = [(root, " as root"), (agent, " with your ssh agent")];
    let right: String = right.iter().filter(|(so, _)| *so).map(|(_, text)| *text).collect();
    let ends = rule.expires.map_or("never ends".to_owned(), |end| format!("ends {end}"));
    let mut rows = vec![
        Row::ours(Paint::Plain, ""),
        Row::new(Paint::Head, &format!("{} {says}{right}, in {}", rule.name, rule.scope)),
        Row::new(Paint::Dim, &format!("made {} by {}, {ends}", ago(rule.made), rule.made_by)),
    ];
    match (&pattern, &rule.content) {
        (Some(Pattern::Command { .. }), _) => rows.push(Row::new(Paint::Plain, &what(pattern.as_ref(), &rule.title))),
        (_, Some(content)) => rows.push(Row::new(Paint::Plain, content)),
        (_, None) => rows.push(Row::ours(
            Paint::Warn,
            format!("what it is about is not kept: it stays suspended. Remove it: ostler rules revoke {}", rule.name),
        )),
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, content: Option<&str>) -> RuleInfo {
        RuleInfo {
            name: "r1".into(),
            effect: RuleEffect::Allow,
            scope: "host".into(),
            title: "ls".into(),
            pattern: pattern.into(),
            made: ostler_api::Timestamp::from_micros(0),
            made_by: ostler_story::By::Terminal { uid: 1000, pid: None, tty: "/dev/pts/1".into() },
            expires: None,
            suspended: true,
            digest: "d".into(),
            content: content.map(str::to_owned),
        }
    }

    #[test]
    fn a_rule_is_shown_by_what_it_matches_and_not_by_what_it_is_called() {
        let command = r#"{"about":"command","stages":[[{"is":"/bin/rm"},{"is":"-rf"}]],"privileged":true}"#;
        let text = |rule: &RuleInfo| show(rule).into_iter().map(|row| row.text).collect::<Vec<_>>().join("\n");
        let shown = text(&rule(command, None));
        assert!(shown.contains("/bin/rm -rf") && shown.contains("as root") && !shown.contains("ls"), "{shown}");
        let tool = r#"{"about":"content","hash":"00"}"#;
        assert!(text(&rule(tool, Some("{\"tool\":\"Bash\"}"))).contains("Bash"));
        assert!(!can_be(&rule(tool, None)) && can_be(&rule(command, None)) && can_be(&rule(tool, Some("x"))));
    }

    #[test]
    fn nothing_is_said_where_nothing_is_suspended() {
        assert_eq!(hint(0), None);
        assert!(hint(2).is_some_and(|text| text.contains("2 rules") && text.contains("ostler rules affirm")));
    }
}
