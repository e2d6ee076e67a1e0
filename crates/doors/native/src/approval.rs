//! `approval.*`: what waits for a person, and the decision. Who may decide is the engine's to say; here it is only asked.

use std::time::Duration;

use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalList, ApprovalListParams, ApprovalState, AskerInfo, DecideParams, Empty,
    ErrorKind, HistoryDiff, RpcError, ShownParams, TerminalOutput, TerminalParams, Timestamp, Unlock, Verdict,
};
use ostler_door_rpc::{decode_base64, push_base64};
use ostler_engine::access::device::Right;
use ostler_engine::approval::{Approval, AskKind, CommandContent, DecideError, Outcome, State, StoreError};
use ostler_engine::{Heard, MayWait, Origin, Target, access, by_name};
use ostler_story::{Decision, Json, ToolContent, is_something, take_diffs, take_shown, words};

use crate::call::{Call, Who};
use crate::words::Translate;

/// The longest it waits for a terminal: a command that ended is noticed by then.
const TERMINAL_WAIT_MAX: Duration = Duration::from_secs(10);
/// More than a question and an answer, less than a screen of noise.
const TERMINAL_CHUNK: usize = 16 * 1024;

pub(crate) fn list(wait: &MayWait, call: &Call, params: ApprovalListParams) -> Result<ApprovalList, RpcError> {
    let inbox = call.engine().inbox();
    let found = if params.all { inbox.recent() } else { inbox.pending() };
    let approvals = found.into_iter().map(|approval| named(wait, call, approval)).collect();
    let (rules_suspended, locked) = (inbox.suspended() as u64, call.engine().locked().is_some());
    Ok(ApprovalList { approvals, rules_suspended, locked })
}

pub(crate) fn get(wait: &MayWait, call: &Call, params: ApprovalIdParams) -> Result<ApprovalInfo, RpcError> {
    Ok(named(wait, call, find(wait, call, &params.id)?))
}

pub(crate) fn shown(wait: &MayWait, call: &Call, params: ShownParams) -> Result<Empty, RpcError> {
    // Time runs from here on, and nobody hosted shows a person anything.
    call.reaches(Target::Instance)?;
    let approval = find(wait, call, &params.id)?;
    if let Origin::Device(guest) = &call.origin
        && approval.ask.privileged
    {
        call.engine().guest_may(guest, Right::AnswerPrivileged).map_err(|error| crate::rights::refusal(&error))?;
    }
    let id = approval.id;
    call.engine().inbox().shown(wait, &id, &params.surface).map_err(|error| failed(&error))?;
    Ok(Empty {})
}

pub(crate) fn decide(wait: &MayWait, call: &Call, params: DecideParams) -> Result<ApprovalInfo, RpcError> {
    let inbox = call.engine().inbox();
    let id = find(wait, call, &params.id)?.id;
    let (by, params) = match &call.who {
        Who::Here(_) => (call.person(wait, &id, "approvals")?, params),
        Who::Device(guest) => crate::signed::by_device(wait, call, guest, &id, params)?,
    };
    let missing = |what: &str| RpcError::new(ErrorKind::BadParams, format!("approval.decide: `{what}` is missing"));
    let decision = match params.verdict {
        Verdict::Once => Decision::Once,
        Verdict::Session => Decision::Session,
        Verdict::Always => Decision::Always,
        Verdict::Deny => Decision::Deny { message: params.message, interrupt: params.interrupt },
        Verdict::Changed => Decision::Changed { input: params.input.ok_or_else(|| missing("input"))? },
        Verdict::Answers => Decision::Answers { answers: params.answers.ok_or_else(|| missing("answers"))? },
    };
    if params.relays {
        inbox.will_relay(wait, &id);
    }
    inbox.decide_here(wait, &id, &params.hash, decision, by).map_err(|error| {
        if let (Who::Device(guest), DecideError::DoesNotFit(why)) = (&call.who, &error) {
            call.engine().guest_refused(wait, guest, &id, why);
        }
        refusal(&error)
    })?;
    Ok(describe(find(wait, call, &id)?))
}

/// Opens deciding again, or says how.
pub(crate) fn unlock(wait: &MayWait, call: &Call, _: Empty) -> Result<Unlock, RpcError> {
    let refused = |why: String| RpcError::new(ErrorKind::Refused, why).hint("there: ostler approvals --unlock");
    let peer = call.peer().ok_or_else(|| refused("the system does not say who is calling".to_owned()))?;
    Ok(match call.engine().unlock(wait, peer).map_err(refused)? {
        access::Unlock::Open => Unlock { open: true, file: None, why_not: None },
        access::Unlock::Make(path) => Unlock { open: false, file: Some(path.display().to_string()), why_not: None },
        access::Unlock::No(why) => Unlock { open: false, file: None, why_not: Some(why.to_owned()) },
    })
}

/// Keys to the terminal of an approved command, and what it shows.
pub(crate) fn terminal(wait: &MayWait, call: &Call, params: TerminalParams) -> Result<TerminalOutput, RpcError> {
    let id = find(wait, call, &params.id)?.id;
    call.person(wait, &id, "approvals")?;
    let ended = || Ok(TerminalOutput { output: String::new(), ended: true });
    let Some(running) = call.engine().command(&id) else {
        // Approved, but not started yet: the next request finds it.
        let waits = call.engine().inbox().peek(&id).is_some_and(|found| matches!(found.state, State::Accepted { .. }));
        return if waits { Ok(TerminalOutput { output: String::new(), ended: false }) } else { ended() };
    };
    let Some(terminal) = running.terminal.filter(|_| running.process.is_running()) else { return ended() };
    let trouble = |error: std::io::Error| RpcError::new(ErrorKind::Failed, format!("terminal: {error}"));
    let keys = decode_base64(params.keys.as_bytes())
        .map_err(|_| RpcError::new(ErrorKind::BadParams, "approval.terminal: `keys` is not base64"))?;
    let wait = Duration::from_millis(params.wait_ms).min(TERMINAL_WAIT_MAX);
    terminal.write(&keys, wait).map_err(trouble)?;
    let mut buffer = [0; TERMINAL_CHUNK];
    match terminal.read(&mut buffer, wait).map_err(trouble)? {
        Heard::End => ended(),
        Heard::Silence => Ok(TerminalOutput { output: String::new(), ended: !running.process.is_running() }),
        Heard::Bytes(length) => {
            let mut output = Vec::new();
            push_base64(buffer.get(..length).unwrap_or_default(), &mut output);
            Ok(TerminalOutput { output: String::from_utf8_lossy(&output).into_owned(), ended: false })
        }
    }
}

fn find(wait: &MayWait, call: &Call, text: &str) -> Result<Approval, RpcError> {
    let inbox = call.engine().inbox();
    let none = || {
        RpcError::new(ErrorKind::NotFound, format!("no request `{text}`"))
            .hint("list them: ostler approvals --list --all")
    };
    if let Some(found) = inbox.get(wait, text).map_err(|error| failed(&error))? {
        return Ok(found);
    }
    let ids = inbox.ids(wait, text).map_err(|error| failed(&error))?;
    match ids.as_slice() {
        [id] if !text.is_empty() => inbox.get(wait, id).map_err(|error| failed(&error))?.ok_or_else(none),
        [_, ..] if !text.is_empty() => {
            let message = format!("`{text}` matches several: {}", crate::info::listed(&ids));
            Err(RpcError::new(ErrorKind::Ambiguous, message).hint("use more of the id"))
        }
        _ => Err(none()),
    }
}

pub(crate) fn failed(error: &StoreError) -> RpcError {
    RpcError::new(ErrorKind::Failed, error.to_string())
}

pub(crate) fn refusal(error: &DecideError) -> RpcError {
    let kind = match error {
        DecideError::NotFound(_) => ErrorKind::NotFound,
        DecideError::Store(_) => ErrorKind::Failed,
        DecideError::DoesNotFit(_) => ErrorKind::BadParams,
        _ => ErrorKind::Refused,
    };
    let message = match error {
        DecideError::AnsweredElsewhere { what, by, at_ms } => {
            format!("already {what} by {} at {}", by_name(by), Timestamp::from_millis(*at_ms))
        }
        other => other.to_string(),
    };
    RpcError::new(kind, message)
}

/// With the name of the session that asks, and what is to be known of the files of a command that waits.
fn named(wait: &MayWait, call: &Call, approval: Approval) -> ApprovalInfo {
    let warnings = warnings(wait, &approval);
    let mut info = ApprovalInfo { warnings, ..describe(approval) };
    let session = info.asker.verified_session.as_deref();
    let session = session.and_then(|id| call.engine().sessions().resolve(id).ok());
    info.asker.session_name = session.and_then(|session| session.view().name);
    info
}

fn warnings(wait: &MayWait, approval: &Approval) -> Vec<String> {
    let waits = approval.state.is_pending() && approval.ask.kind == AskKind::Command;
    let Some(command) = CommandContent::parse(&approval.ask.content).filter(|_| waits) else { return Vec::new() };
    let asker = approval.ask.asker.uid;
    let found = command.warnings(wait, asker).into_iter();
    found.map(|(number, warning)| warning.words(number, &format!("uid {asker}"), words::path)).collect()
}

pub(crate) fn describe(approval: Approval) -> ApprovalInfo {
    let (state, detail) = word(&approval.state);
    let Approval { id, ask, hash, asked_at, decided, expires_in, .. } = approval;
    let (diffs, rest) = changes_of(&ask.content);
    ApprovalInfo {
        id,
        kind: ask.kind.translated(),
        title: ask.title,
        privileged: ask.privileged,
        warnings: Vec::new(),
        reason: ask.reason,
        content: ask.content,
        diffs,
        rest,
        hash,
        asker: AskerInfo {
            door: ask.asker.door,
            uid: ask.asker.uid,
            pid: ask.asker.pid,
            claimed_session: ask.asker.claimed_session,
            claimed_host: ask.asker.claimed_host,
            client: ask.asker.client,
            verified_session: ask.asker.verified_session,
            session_name: None,
        },
        workspace: ask.workspace,
        asked: Timestamp::from_millis(asked_at),
        state,
        detail,
        decided_by: decided.as_ref().map(|(by, _)| by.clone()),
        decided_by_name: decided.as_ref().map(|(by, _)| by_name(by)),
        decided: decided.map(|(_, at)| Timestamp::from_millis(at)),
        expires_in_ms: expires_in,
    }
}

/// What a tool's input would change, and the rest of it.
fn changes_of(content: &str) -> (Vec<HistoryDiff>, Option<Json>) {
    let Ok(ToolContent { mut input, title, .. }) = serde_json::from_str(content) else { return Default::default() };
    let diffs = take_diffs(&mut input);
    if diffs.is_empty() {
        return Default::default();
    }
    let paths: Vec<&str> = diffs.iter().map(|diff| diff.path.as_str()).collect();
    take_shown(&mut input, &title, &paths);
    (crate::pieces::diffs(diffs), Some(input).filter(is_something))
}

fn word(state: &State) -> (ApprovalState, Option<String>) {
    match state {
        State::Pending { .. } => (ApprovalState::Pending, None),
        State::Accepted { decision } => (ApprovalState::Accepted, Some(decision.word().to_owned())),
        State::Applied { outcome } => (ApprovalState::Applied, outcome.as_ref().map(tell)),
        State::Failed { why } => (ApprovalState::Failed, Some(why.clone())),
        State::Denied { message, .. } => (ApprovalState::Denied, Some(message.clone()).filter(|text| !text.is_empty())),
        State::Expired => (ApprovalState::Expired, None),
        State::Withdrawn { why } => (ApprovalState::Withdrawn, Some(why.clone())),
        State::Unknown => (ApprovalState::Unknown, None),
    }
}

fn tell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran { exit_codes, .. } => match exit_codes.as_slice() {
            [code] => format!("exit {code}"),
            codes => format!("exit {codes:?}"),
        },
        Outcome::Broke { why } => why.clone(),
        Outcome::NobodySaw => "exit code unknown".to_owned(),
        Outcome::Delivered => "delivered".to_owned(),
    }
}
