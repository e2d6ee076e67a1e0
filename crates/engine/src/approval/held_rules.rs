//! Standing answers: rules that people made, and which of them count. What a rule looks like and what it matches is in `rules`.

use std::sync::Arc;

use ostler_story::Pattern;

use super::desk::Desk;
use super::error::DecideError;
use super::store::StoreError;
use super::{Approval, Ask, By, Decision, Effect, NewRule, Record, Rule, RuleScope, clock, content_hash, rules};

/// How long a rule made by a single key holds: long enough for a project, short enough to be thought about again.
const RULE_MS: u64 = 30 * 24 * 3600 * 1000;

/// A rule, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRule {
    /// The rule.
    pub rule: Rule,
    /// Nobody vouches for it: it answers nothing until a person affirms it.
    pub suspended: bool,
    /// SHA-256 of all of it, in hex: what an affirmation names.
    pub digest: String,
    /// What it is exactly about, where that is one content and it is suspended; nothing if that is not kept.
    pub content: Option<String>,
}

impl HeldRule {
    /// Whether its time is not over.
    pub(super) fn lasts(&self, now: u64) -> bool {
        self.rule.expires_at.is_none_or(|end| now < end)
    }
}

impl Desk {
    /// The standing answer to this request, if there is one; a no goes before a yes.
    pub(super) fn rule_for(&self, ask: &Ask, wall: u64) -> Option<(String, Effect)> {
        let counts = |rule: &&Rule| !self.suspended.contains(&rule.name);
        let matching = || self.rules.iter().filter(counts).filter(|rule| rule.answers(ask, wall));
        let rule = matching().find(|rule| rule.effect == Effect::Deny).or_else(|| matching().next())?;
        Some((rule.name.clone(), rule.effect))
    }

    fn new_rule(&self, new: NewRule, by: By) -> Result<Rule, DecideError> {
        if self.rules.len() >= rules::RULES_MAX {
            return Err(DecideError::DoesNotFit("too many rules; revoke some: ostler rules revoke NAME"));
        }
        let name = crate::id::rule().map_err(|_| DecideError::DoesNotFit("the system gives no random numbers"))?;
        let NewRule { effect, scope, pattern, title, expires_at } = new;
        Ok(Rule { name, effect, scope, pattern, title, made_at: clock::wall_ms(), expires_at, made_by: by })
    }

    /// The rule that a yes makes, if it lasts.
    pub(super) fn lasting_rule(
        &self,
        approval: &Approval,
        decision: &Decision,
        by: &By,
    ) -> Result<Option<Rule>, DecideError> {
        let Some(scope) = lasting(approval, decision) else { return Ok(None) };
        let new = NewRule {
            effect: Effect::Allow,
            scope,
            pattern: rules::exactly(approval),
            title: approval.ask.title.clone(),
            expires_at: Some(clock::wall_ms() + RULE_MS),
        };
        self.new_rule(new, by.clone()).map(Some)
    }

    pub(super) fn add_rule(&mut self, new: NewRule, by: By) -> Result<Rule, DecideError> {
        let privileged = match &new.pattern {
            Pattern::Command { privileged, .. } => *privileged,
            // What it is about cannot be told from its hash.
            _ => true,
        };
        self.devices.may_rule(&by, privileged, clock::wall_ms()).map_err(DecideError::DoesNotFit)?;
        let rule = self.new_rule(new, by)?;
        self.log(&Record::RuleAdded { rule: rule.clone() })?;
        self.rules.push(rule.clone());
        self.held = None;
        Ok(rule)
    }

    pub(super) fn revoke_rule(&mut self, name: &str, by: By) -> Result<bool, StoreError> {
        if !self.rules.iter().any(|rule| rule.name == name) {
            return Ok(false);
        }
        self.log(&Record::RuleRevoked { name: name.to_owned(), by })?;
        self.rules.retain(|rule| rule.name != name);
        self.suspended.remove(name);
        self.held = None;
        Ok(true)
    }

    /// The rules as everybody sees them, also those whose time is over.
    pub(super) fn held_rules(&mut self) -> Arc<[HeldRule]> {
        if let Some(held) = &self.held {
            return Arc::clone(held);
        }
        let held: Arc<[HeldRule]> = self.rules.iter().map(|rule| self.held(rule)).collect();
        Arc::clone(self.held.insert(held))
    }

    fn held(&self, rule: &Rule) -> HeldRule {
        let suspended = self.suspended.contains(&rule.name);
        let content = match &rule.pattern {
            // What it is called may be a lie; what it is about is not.
            Pattern::Content { hash } if suspended => self.store.content(hash).ok().flatten(),
            _ => None,
        };
        HeldRule { rule: rule.clone(), suspended, digest: digest(rule), content }
    }

    /// The rules with these digests count again. Gives their names; nothing is recorded if there are none.
    pub(super) fn affirm(&mut self, digests: &[String], by: By) -> Result<Vec<String>, StoreError> {
        let seen = |held: &HeldRule| {
            let shown = !matches!(held.rule.pattern, Pattern::Content { .. }) || held.content.is_some();
            held.suspended && shown && digests.contains(&held.digest)
        };
        let (held, now) = (self.held_rules(), clock::wall_ms());
        let seen = held.iter().filter(|held| held.lasts(now) && seen(held));
        let rules: Vec<String> = seen.map(|held| held.rule.name.clone()).collect();
        if !rules.is_empty() {
            self.log(&Record::Affirmed { rules: rules.clone(), by })?;
            self.suspended.retain(|name| !rules.contains(name));
            self.held = None;
        }
        Ok(rules)
    }
}

/// Where a yes that lasts will hold.
fn lasting(approval: &Approval, decision: &Decision) -> Option<RuleScope> {
    match decision {
        Decision::Session => Some(RuleScope::Session { session: rules::session_of(&approval.ask).to_owned() }),
        Decision::Always => Some(match &approval.ask.workspace {
            Some(path) => RuleScope::Workspace { path: path.clone() },
            None => RuleScope::Host,
        }),
        _ => None,
    }
}

fn digest(rule: &Rule) -> String {
    // Text and numbers: there is nothing that could fail.
    content_hash(&serde_json::to_string(rule).unwrap_or_default())
}
