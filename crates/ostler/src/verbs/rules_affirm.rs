//! Rules that are suspended since ostler was stopped: what to say where they are, and how each is shown before a person affirms it.

use ostler_api::client::{Client, ClientError};
use ostler_api::{Empty, RuleAffirmParams, RuleEffect, RuleInfo, methods};
use ostler_story::Pattern;
use serde::Deserialize;

use super::affirm::Suspended;
use super::rules::{place, what};
use crate::output::{Paint, ago, by_name};
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

impl Suspended for RuleInfo {
    const NOUN: &'static str = "rule";

    fn list(client: &mut Client) -> Result<Vec<Self>, ClientError> {
        let rules = client.call::<methods::RuleList>(&Empty {})?.rules;
        Ok(rules.into_iter().filter(|rule| rule.suspended).collect())
    }

    fn affirm(client: &mut Client, digests: Vec<String>) -> Result<Vec<String>, ClientError> {
        Ok(client.call::<methods::RuleAffirm>(&RuleAffirmParams { digests })?.names)
    }

    fn digest(&self) -> Option<String> {
        let pattern = Pattern::deserialize(&self.pattern).ok();
        let whole = matches!(pattern, Some(Pattern::Command { .. })) || self.content.is_some();
        whole.then(|| self.digest.clone())
    }

    /// Its title may be a lie; what it matches is not.
    fn show(&self) -> Vec<Row> {
        let pattern = Pattern::deserialize(&self.pattern).ok();
        let says = if self.effect == RuleEffect::Allow { "approves" } else { "denies" };
        let root = matches!(pattern, Some(Pattern::Command { privileged: true, .. }));
        let agent = matches!(pattern, Some(Pattern::Command { forward_agent: true, .. }));
        let right = [(root, " as root"), (agent, " with your ssh agent")];
        let right: String = right.iter().filter(|(so, _)| *so).map(|(_, text)| *text).collect();
        let ends = self.expires.map_or("never ends".to_owned(), |end| format!("ends {end}"));
        let mut rows = vec![
            Row::new(Paint::Head, &format!("{} {says}{right}, {}", self.name, place(&self.scope))),
            Row::new(Paint::Dim, &format!("made {} by {}, {ends}", ago(self.made), by_name(&self.made_by))),
        ];
        match (&pattern, &self.content) {
            (Some(Pattern::Command { .. }), _) => {
                rows.push(Row::new(Paint::Plain, &what(pattern.as_ref(), &self.title)))
            }
            (_, Some(content)) => rows.push(Row::new(Paint::Plain, content)),
            (_, None) => rows.push(Row::ours(
                Paint::Warn,
                format!(
                    "what it is about is not kept: it stays suspended. Remove it: ostler rules revoke {}",
                    self.name
                ),
            )),
        }
        rows
    }

    fn question(all: &[Self]) -> &'static str {
        if all.len() == 1 { "use this rule again? [y/N] " } else { "use these rules again? [y/N] " }
    }
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
            pattern: serde_json::from_str(pattern).unwrap(),
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
        let text = |rule: &RuleInfo| rule.show().into_iter().map(|row| row.text).collect::<Vec<_>>().join("\n");
        let shown = text(&rule(command, None));
        assert!(shown.contains("/bin/rm -rf") && shown.contains("as root") && !shown.contains("ls"), "{shown}");
        let tool = r#"{"about":"content","hash":"00"}"#;
        assert!(text(&rule(tool, Some("{\"tool\":\"Bash\"}"))).contains("Bash"));
        let digest = |pattern, content| Suspended::digest(&rule(pattern, content));
        assert_eq!(digest(tool, None), None, "not all of it can be shown");
        assert!(digest(command, None).is_some() && digest(tool, Some("x")).is_some());
    }

    #[test]
    fn nothing_is_said_where_nothing_is_suspended() {
        assert_eq!(hint(0), None);
        assert!(hint(2).is_some_and(|text| text.contains("2 rules") && text.contains("ostler rules affirm")));
    }
}
