//! Standing answers. A rule matches whole argument vectors, never a prefix: each argument exactly, or by a pattern that is
//! anchored at both ends and never reaches into the next argument. There are none until somebody makes one.

use ostler_story::{ArgPattern, Pattern};
use serde::{Deserialize, Serialize};

use crate::id;

use super::{Approval, Ask, AskKind, By, CommandContent, content_hash};

/// More rules than a person keeps in mind, and quick to try one by one.
pub(super) const RULES_MAX: usize = 1024;

/// What a rule answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// Where a rule holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub enum RuleScope {
    /// For one session: the verified one where the asker is hosted here, else the one it claims to be.
    Session {
        /// Which one.
        session: String,
    },
    /// For one folder.
    Workspace {
        /// Which one.
        path: String,
    },
    /// Everywhere on this machine.
    Host,
}

/// A rule to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    /// What it answers.
    pub effect: Effect,
    /// Where it holds.
    pub scope: RuleScope,
    /// What it is about.
    pub pattern: Pattern,
    /// One line for people.
    pub title: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: Option<u64>,
}

/// A standing answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// `r` and twelve letters.
    pub name: String,
    /// What it answers.
    pub effect: Effect,
    /// Where it holds.
    pub scope: RuleScope,
    /// What it is about.
    pub pattern: Pattern,
    /// One line for people.
    pub title: String,
    /// When it was made, in milliseconds since 1970.
    pub made_at: u64,
    /// When it ends, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Who made it.
    pub made_by: By,
}

impl Rule {
    /// Whether it answers this request at this time.
    pub(super) fn answers(&self, ask: &Ask, now_ms: u64) -> bool {
        self.expires_at.is_none_or(|end| now_ms < end) && self.scope.holds(ask) && matches(&self.pattern, ask)
    }
}

impl RuleScope {
    fn holds(&self, ask: &Ask) -> bool {
        match self {
            // A claim counts for a word; that somebody is a session, or a process, of ours is not claimed but seen.
            Self::Session { session } => {
                session_of(ask) == session && (ask.asker.verified_session.is_some() || !id::is_hosts(session))
            }
            Self::Workspace { path } => ask.workspace.as_ref() == Some(path),
            Self::Host => true,
        }
    }
}

/// The session a rule for "this session" is about.
pub(super) fn session_of(ask: &Ask) -> &str {
    ask.asker.verified_session.as_deref().unwrap_or(&ask.asker.claimed_session)
}

/// What stands for exactly this request, whatever file its commands resolve to later.
pub(super) fn exactly(approval: &Approval) -> Pattern {
    match CommandContent::parse(&approval.ask.content).filter(|_| approval.ask.kind == AskKind::Command) {
        Some(command) => Pattern::Command {
            stages: command
                .stages
                .iter()
                .map(|stage| {
                    let rest = stage.argv.iter().skip(1).cloned();
                    std::iter::once(stage.program.display().to_string()).chain(rest).map(ArgPattern::Is).collect()
                })
                .collect(),
            env: command.env,
            privileged: command.privileged,
            forward_agent: command.forward_agent,
        },
        None => Pattern::Content { hash: approval.hash.clone() },
    }
}

fn matches(pattern: &Pattern, ask: &Ask) -> bool {
    match pattern {
        Pattern::Content { hash } => *hash == content_hash(&ask.content),
        Pattern::Command { stages, env, privileged, forward_agent } => {
            let Some(command) = CommandContent::parse(&ask.content) else { return false };
            ask.kind == AskKind::Command
                && command.env == *env
                && command.privileged == *privileged
                && command.forward_agent == *forward_agent
                && command.stages.len() == stages.len()
                && command.stages.iter().zip(stages).all(|(stage, patterns)| {
                    // The file that runs counts, not the name it was asked for by.
                    let program = stage.program.display().to_string();
                    let args = std::iter::once(&program).chain(stage.argv.iter().skip(1));
                    stage.argv.len() == patterns.len() && args.zip(patterns).all(|(arg, want)| fits(want, arg))
                })
        }
    }
}

fn fits(pattern: &ArgPattern, argument: &str) -> bool {
    match pattern {
        ArgPattern::Is(text) => text == argument,
        ArgPattern::Like(pattern) => like(pattern, argument),
    }
}

/// Anchored at both ends; the first piece must begin it, the last must end it, the others follow in order.
fn like(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece).and_then(|at| rest.get(at + piece.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::approval::StageContent;

    fn ask(argv: &[&str]) -> Ask {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let program = format!("/usr/bin/{}", argv[0]).into();
        let stages = vec![StageContent { argv, program, seal: None }];
        let command = CommandContent { stages, env: BTreeMap::new(), privileged: true, forward_agent: false };
        Ask {
            kind: AskKind::Command,
            content: command.canonical(),
            title: String::new(),
            privileged: true,
            asker: Default::default(),
            reason: String::new(),
            after_shown: None,
            after_asked: None,
            bound: crate::approval::Bound::Connection,
            key: None,
            tires: true,
            workspace: None,
        }
    }

    fn pattern(args: &[&str]) -> Pattern {
        let args = args.iter().map(|arg| match arg.contains('*') {
            true => ArgPattern::Like((*arg).to_owned()),
            false => ArgPattern::Is((*arg).to_owned()),
        });
        Pattern::Command { stages: vec![args.collect()], env: BTreeMap::new(), privileged: true, forward_agent: false }
    }

    #[test]
    fn a_pattern_is_anchored_and_stays_within_its_argument() {
        let apt = pattern(&["/usr/bin/apt", "install", "lib*-dev"]);
        assert!(matches(&apt, &ask(&["apt", "install", "libx-dev"])));
        for other in [
            &["apt", "install", "libx-dev", "more"][..],
            &["apt", "install", "xlibx-dev"],
            &["apt", "install", "libx-dev2"],
            &["apt", "install"],
            &["apt", "remove", "libx-dev"],
            &["aptx", "install", "libx-dev"],
        ] {
            assert!(!matches(&apt, &ask(other)), "{other:?}");
        }
    }

    #[test]
    fn whoever_claims_to_be_a_session_of_ours_is_not_taken_for_it() {
        let mut asked = ask(&["apt", "update"]);
        for (claimed, verified, rule, want) in [
            ("fix", None, "fix", true),
            ("fix", None, "other", false),
            ("s0123456789ab", None, "s0123456789ab", false),
            ("p0123456789ab", None, "p0123456789ab", false),
            ("fix", Some("s0123456789ab"), "fix", false),
            ("fix", Some("s0123456789ab"), "s0123456789ab", true),
        ] {
            asked.asker.claimed_session = claimed.into();
            asked.asker.verified_session = verified.map(str::to_owned);
            assert_eq!(
                RuleScope::Session { session: rule.into() }.holds(&asked),
                want,
                "{claimed} {verified:?} {rule}"
            );
        }
    }

    #[test]
    fn stars_match_any_run_and_only_that() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("a**c", "ac", true),
        ] {
            assert_eq!(like(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn an_environment_or_right_that_differs_is_another_command() {
        let rule = pattern(&["/usr/bin/id"]);
        let plain = ask(&["id"]);
        assert!(matches(&rule, &plain));
        let mut command = CommandContent::parse(&plain.content).unwrap();
        command.env.insert("LANG".into(), "C".into());
        assert!(!matches(&rule, &Ask { content: command.canonical(), ..plain.clone() }));
        command.env.clear();
        command.forward_agent = true;
        assert!(!matches(&rule, &Ask { content: command.canonical(), ..plain }));
    }
}
