//! `rule.*`, `setting.*` and `audit.*`: standing answers, and the record of everything.

use ostler_api::{
    AuditEntry, AuditPage, AuditReadParams, AuditVerified, Empty, ErrorKind, RpcError, RuleAddParams, RuleAffirmParams,
    RuleInfo, RuleList, RuleNameParams, RuleNames, SettingInfo, Timestamp,
};
use ostler_engine::approval::{Entry, HeldRule, NewRule, RuleScope};
use ostler_engine::session::{Session, SessionError};
use ostler_engine::{MayWait, Target};
use ostler_story::{ArgPattern, Pattern, json_of};

use crate::approval::{failed, refusal};
use crate::call::Call;
use crate::info;
use crate::words::Translate;

/// Entries in one answer: some hundred kilobytes.
const PAGE: u64 = 1000;
/// A shorter beginning of an id is more likely a word.
const BEGINNING: usize = 5;

pub(crate) fn list(call: &Call, _: Empty) -> Result<RuleList, RpcError> {
    Ok(RuleList { rules: call.engine().inbox().rules().into_iter().map(describe).collect() })
}

pub(crate) fn add(wait: &MayWait, call: &Call, params: RuleAddParams) -> Result<RuleInfo, RpcError> {
    let bad = |message: &str| RpcError::new(ErrorKind::BadParams, format!("rule.add: {message}"));
    let by = call.person(wait, "rules", "rules")?;
    let stages = params
        .stages
        .into_iter()
        .map(|stage| {
            let args = stage.into_iter().map(|arg| match (arg.is, arg.like) {
                (Some(text), None) => Ok(ArgPattern::Is(text)),
                (None, Some(pattern)) => Ok(ArgPattern::Like(pattern)),
                _ => Err(bad("each argument is either `is` or `like`")),
            });
            args.collect::<Result<Vec<_>, _>>()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let absolute =
        |stage: &Vec<ArgPattern>| matches!(stage.first(), Some(ArgPattern::Is(path)) if path.starts_with('/'));
    if stages.is_empty() || !stages.iter().all(absolute) {
        return Err(bad("each stage begins with the absolute path of its program"));
    }
    let scope = match (params.session, params.workspace) {
        (Some(_), Some(_)) => return Err(bad("a session or a workspace, not both")),
        (Some(session), None) => RuleScope::Session { session: session_of(call, session)? },
        (None, Some(path)) => RuleScope::Workspace { path },
        (None, None) => RuleScope::Host,
    };
    let now = Timestamp::now().as_micros() / 1000;
    let rule = NewRule {
        effect: params.effect.translated(),
        scope,
        title: title(&stages),
        pattern: Pattern::Command {
            stages,
            env: Default::default(),
            privileged: params.privileged,
            forward_agent: false,
        },
        expires_at: params.expires_in.map(|seconds| now.saturating_add(seconds.saturating_mul(1000))),
    };
    let rule = call.engine().inbox().add_rule(wait, rule, by).map_err(|error| refusal(&error))?;
    let held = call.engine().inbox().rules().into_iter().find(|held| held.rule.name == rule.name);
    held.map(describe).ok_or_else(|| bad("it was revoked at once"))
}

/// The id of the session that is meant, or what an asker elsewhere claims to be.
fn session_of(call: &Call, text: String) -> Result<String, RpcError> {
    let sessions = call.engine().sessions();
    let meant = |session: &Session| text.len() >= BEGINNING || session.view().name.as_deref() == Some(&text);
    match sessions.resolve(&text) {
        Ok(session) if meant(&session) => Ok(session.id().to_owned()),
        Err(SessionError::Ambiguous { ids, .. })
            if ids.iter().any(|id| sessions.get(id).is_some_and(|s| meant(&s))) =>
        {
            Err(RpcError::new(ErrorKind::Ambiguous, format!("`{text}` matches several: {}", info::listed(&ids)))
                .hint("use more of the id"))
        }
        _ => Ok(text),
    }
}

pub(crate) fn revoke(wait: &MayWait, call: &Call, params: RuleNameParams) -> Result<Empty, RpcError> {
    let by = call.person(wait, "rules", "rules")?;
    match call.engine().inbox().revoke_rule(wait, &params.name, by).map_err(|error| failed(&error))? {
        true => Ok(Empty {}),
        false => {
            Err(RpcError::new(ErrorKind::NotFound, format!("no rule `{}`", params.name))
                .hint("list them: ostler rules"))
        }
    }
}

pub(crate) fn confirm(wait: &MayWait, call: &Call, params: SettingInfo) -> Result<Empty, RpcError> {
    let by = call.person(wait, "settings", "config confirm")?;
    let confirmed = call.engine().inbox().confirm(wait, (params.setting, params.value), by);
    confirmed.map(|()| Empty {}).map_err(|error| refusal(&error))
}

pub(crate) fn affirm(wait: &MayWait, call: &Call, params: RuleAffirmParams) -> Result<RuleNames, RpcError> {
    let by = call.person(wait, "rules", "rules affirm")?;
    let names = call.engine().inbox().affirm(wait, &params.digests, by).map_err(|error| failed(&error))?;
    Ok(RuleNames { names })
}

pub(crate) fn audit(wait: &MayWait, call: &Call, params: AuditReadParams) -> Result<AuditPage, RpcError> {
    call.reaches(Target::Instance)?;
    let limit = if params.limit == 0 { PAGE } else { params.limit.min(PAGE) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let entries = call.engine().inbox().audit(wait, params.after, limit).map_err(|error| failed(&error))?;
    Ok(AuditPage { entries: entries.into_iter().map(entry).collect() })
}

pub(crate) fn verify(wait: &MayWait, call: &Call, _: Empty) -> Result<AuditVerified, RpcError> {
    let verified = call.engine().inbox().verify(wait).map_err(|error| failed(&error))?;
    let foreign = verified.foreign.into_iter().map(|(_, foreign)| entry(foreign)).collect();
    Ok(AuditVerified { entries: verified.entries, head: verified.head, foreign })
}

fn entry(entry: Entry) -> AuditEntry {
    AuditEntry {
        seq: entry.seq,
        time: Timestamp::from_millis(entry.at_ms),
        about: entry.about,
        record: json_of(entry.body),
    }
}

fn title(stages: &[Vec<ArgPattern>]) -> String {
    let text = |arg: &ArgPattern| match arg {
        ArgPattern::Is(text) | ArgPattern::Like(text) => text.clone(),
    };
    let stages = stages.iter().map(|stage| stage.iter().map(text).collect::<Vec<_>>().join(" "));
    stages.collect::<Vec<_>>().join(" | ")
}

fn describe(held: HeldRule) -> RuleInfo {
    let HeldRule { rule, suspended, digest, content } = held;
    RuleInfo {
        effect: rule.effect.translated(),
        scope: match &rule.scope {
            RuleScope::Session { session } => format!("session {session}"),
            RuleScope::Workspace { path } => format!("workspace {path}"),
            RuleScope::Host => "host".to_owned(),
        },
        pattern: serde_json::to_value(&rule.pattern).unwrap_or_default(),
        name: rule.name,
        title: rule.title,
        made: Timestamp::from_millis(rule.made_at),
        made_by: rule.made_by.clone(),
        expires: rule.expires_at.map(Timestamp::from_millis),
        suspended,
        digest,
        content,
    }
}
