//! `process.*`: the client's words for starting, feeding, watching and ending processes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler_door_rpc::{After, Head, Later, Outbox, RpcError, Watch, decode_base64};
use ostler_engine::{KillOutcome, KillPlan, Process, SpawnError, SpawnRequest, StdinError};
use ostler_story::Alias;

use crate::DoorState;
use crate::error;
use crate::gojson::{Object, push_int};
use crate::goos;
use crate::reply::for_log;
use crate::stream::Tag;

/// How long `killAndWait` waits when not told.
const GRACE: Duration = Duration::from_millis(3000);
/// What every child of this door sees, as it always has; a client may say otherwise.
const MARKER: &str = "CLAUDE_SSH_DAEMON_CHILD";
/// The longest that it waits, so that a process which ignores signals cannot hold a request for ever.
const GRACE_MAX: Duration = Duration::from_millis(600_000);

type Call = fn(&Arc<DoorState>, &Object<'_>, &Head, &mut Outbox<Tag>) -> Result<(), RpcError>;

pub(crate) fn method(name: &str) -> Option<Call> {
    Some(match name {
        "spawn" => spawn,
        "stdin" => stdin,
        "kill" => kill,
        "killAndWait" => kill_and_wait,
        "reattach" => reattach,
        _ => return None,
    })
}

fn required_id(params: &Object<'_>) -> Result<String, RpcError> {
    let id = params.string("id")?.unwrap_or_default();
    if id.is_empty() { Err(RpcError::params("Process ID is required")) } else { Ok(id.into_owned()) }
}

fn find(shared: &DoorState, id: &str) -> Option<Process> {
    shared.engine.find(&shared.config.endpoint, id)
}

fn spawn(shared: &Arc<DoorState>, params: &Object<'_>, head: &Head, out: &mut Outbox<Tag>) -> Result<(), RpcError> {
    let (command, args) = (params.string("command")?, params.strings("args")?);
    let (cwd, env) = (params.string("cwd")?, params.string_map("env")?);
    let want_pid = params.bool("wantPid")?.unwrap_or(false);
    // Typing comes before the required fields, and the id among these first.
    params.string("id")?;
    let id = required_id(params)?;
    let command = command.filter(|text| !text.is_empty()).ok_or_else(|| RpcError::params("Command is required"))?;
    let request = SpawnRequest {
        program: command.into_owned().into(),
        args: args.unwrap_or_default().into_iter().map(Into::into).collect(),
        env: std::iter::once((MARKER.into(), "1".into()))
            .chain(env.unwrap_or_default().into_iter().map(|(name, value)| (name.into(), value.into())))
            .collect(),
        cwd: cwd.filter(|text| !text.is_empty()).map(|text| text.into_owned().into()),
        alias: Some(Alias { space: shared.config.endpoint.clone(), id: id.clone() }),
        ..SpawnRequest::default()
    };
    let (shared, head, under_way) = (Arc::clone(shared), head.clone(), shared.closing.subscribe());
    let folder = request.cwd.clone();
    out.spawn_inline(async move {
        let spawned = shared.engine.spawn(request).await;
        drop(under_way);
        match spawned {
            Ok(process) => {
                let mut body = br#"{"success":true"#.to_vec();
                if want_pid {
                    push_identity(&process, &mut body);
                }
                body.push(b'}');
                let mut later = Later::reply(head.result(&body));
                later.watch = Some(Watch::new(process, Tag::new(&id), 0));
                later
            }
            Err(error) => {
                let message = refusal(&error);
                let folder = unusable(&error, folder.as_deref());
                tracing::error!("[process.Manager] Failed to start process {}: {message}{folder}", for_log(&id));
                Later::reply(head.error(RpcError::internal(message)))
            }
        }
    });
    Ok(())
}

/// Clients are told of the program only, as they always were; the log says that it was the folder.
fn unusable(error: &SpawnError, folder: Option<&Path>) -> String {
    match (error, folder) {
        (SpawnError::Refused { in_cwd: true, .. }, Some(folder)) => {
            format!(" (the folder {} cannot be entered)", for_log(&folder.to_string_lossy()))
        }
        _ => String::new(),
    }
}

fn refusal(error: &SpawnError) -> String {
    match error {
        SpawnError::NotInPath(name) => {
            format!("exec: {}: executable file not found in $PATH", goos::quoted(&name.to_string_lossy()))
        }
        SpawnError::NulInCommand { program } => format!("fork/exec {}: invalid argument", program.display()),
        SpawnError::NulInEnvironment => "exec: environment variable contains NUL".to_owned(),
        SpawnError::Refused { program, source, .. } => {
            format!("fork/exec {}: {}", program.display(), goos::errno(source))
        }
        SpawnError::NameTaken(_)
        | SpawnError::Journal(_)
        | SpawnError::KeeperGone
        | SpawnError::Stopping
        | SpawnError::Unsure { .. } => error.to_string(),
    }
}

fn push_identity(process: &Process, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","pid":"#);
    push_int(out, i64::from(process.pid()));
    out.extend_from_slice(format!(r#","startTime":{}"#, process.about().started).as_bytes());
}

fn stdin(shared: &Arc<DoorState>, params: &Object<'_>, head: &Head, out: &mut Outbox<Tag>) -> Result<(), RpcError> {
    let (id, offset) = (params.string("id")?.unwrap_or_default(), params.int("offset")?);
    let data = params.string_bytes("data")?.unwrap_or_default();
    let data = decode_base64(&data).map_err(|_| RpcError::params("Invalid base64 data"))?;
    let process = find(shared, &id).ok_or_else(|| RpcError::params("Process not found"))?;
    if !process.is_running() {
        return Err(not_running());
    }
    let (deliver, head) = (out.later_input(data.len()), head.clone());
    process.write_stdin_then(offset, data, move |result| {
        let mut line = Vec::new();
        head.line(&mut line, |out| {
            let appended = result.map_err(|error| match error {
                StdinError::Gap { .. } => error::stdin_gap(),
                StdinError::NotRunning => not_running(),
                other => RpcError::internal(other.to_string()),
            })?;
            out.extend_from_slice(br#"{"success":true,"applied":"#);
            push_int(out, i64::try_from(appended.applied).unwrap_or(i64::MAX));
            out.extend_from_slice(if appended.duplicate { br#","duplicate":true}"# } else { b"}" });
            Ok(())
        });
        deliver(Later::reply(line));
    });
    Ok(())
}

fn not_running() -> RpcError {
    RpcError::params("Process not running")
}

/// The few signals that this protocol knows; everything else is TERM.
fn signal_number(name: &str) -> i32 {
    match name.strip_prefix("SIG").unwrap_or(name).to_uppercase().as_str() {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "KILL" => 9,
        _ => 15,
    }
}

fn kill(shared: &Arc<DoorState>, params: &Object<'_>, head: &Head, out: &mut Outbox<Tag>) -> Result<(), RpcError> {
    let (id, signal) = (params.string("id")?.unwrap_or_default(), params.string("signal")?.unwrap_or_default());
    if let Some(process) = find(shared, &id).filter(Process::is_running) {
        process.kill(signal_number(&signal));
    }
    out.ready.extend_from_slice(&head.result(br#"{"success":true}"#));
    Ok(())
}

/// How long a process may take, from what the client said.
fn grace(timeout_ms: Option<i64>) -> Duration {
    match timeout_ms.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) if ms > 0 => Duration::from_millis(ms).min(GRACE_MAX),
        _ => GRACE,
    }
}

fn kill_and_wait(
    shared: &Arc<DoorState>,
    params: &Object<'_>,
    head: &Head,
    out: &mut Outbox<Tag>,
) -> Result<(), RpcError> {
    let signal = params.string("signal")?.unwrap_or_default().into_owned();
    let (timeout, escalate) = (params.int("timeoutMs")?, params.bool("escalate")?.unwrap_or(true));
    let Some(process) = find(shared, &required_id(params)?) else {
        out.ready.extend_from_slice(&head.result(br#"{"found":false,"died":false}"#));
        return Ok(());
    };
    let (grace, head) = (grace(timeout), head.clone());
    out.spawn(async move {
        let outcome = process.kill_and_wait(KillPlan { signal: signal_number(&signal), grace, escalate }).await;
        let mut later = Later::reply(head.result(match outcome {
            KillOutcome::AlreadyEnded => br#"{"found":true,"died":true,"alreadyExited":true}"#,
            KillOutcome::Ended => br#"{"found":true,"died":true}"#,
            KillOutcome::Killed => br#"{"found":true,"died":true,"escalated":true}"#,
            KillOutcome::Running => br#"{"found":true,"died":false}"#,
            KillOutcome::Unkillable => br#"{"found":true,"died":false,"escalated":true}"#,
        }));
        // A client that watches the process sees its end before it is told of it.
        later.after = process.bounds().exit.map(|exit| After { process: process.id().to_owned(), seq: exit.seq });
        later
    });
    Ok(())
}

fn reattach(shared: &Arc<DoorState>, params: &Object<'_>, head: &Head, out: &mut Outbox<Tag>) -> Result<(), RpcError> {
    let (from, want_pid) = (params.int("fromSeq")?.unwrap_or(0), params.bool("wantPid")?.unwrap_or(false));
    let id = required_id(params)?;
    let Some(process) = find(shared, &id) else {
        let body = br#"{"found":false,"running":false,"firstSeq":0,"lastSeq":0,"stdinApplied":0}"#;
        out.ready.extend_from_slice(&head.result(body));
        return Ok(());
    };
    shared.counters.reattached();
    let bounds = process.bounds();
    // What came after the exit frame is kept, but this protocol ends with that frame.
    let last = bounds.exit.as_ref().map_or(bounds.last_seq, |exit| exit.seq);
    let first = if last == 0 { 0 } else { bounds.first_seq };
    let mut body = br#"{"found":true,"running":"#.to_vec();
    body.extend_from_slice(if bounds.exit.is_none() { b"true" } else { b"false" });
    for (name, value) in [("firstSeq", first), ("lastSeq", last), ("stdinApplied", bounds.sent())] {
        body.extend_from_slice(format!(r#","{name}":{value}"#).as_bytes());
    }
    if want_pid {
        push_identity(&process, &mut body);
    }
    body.push(b'}');
    let from = u64::try_from(from).unwrap_or(0).min(last);
    match out.watch_of(&process) {
        Some(watch) => watch.rewind(from),
        None if bounds.exit.is_some() && from >= last => {}
        None => out.watch(Watch::new(process.clone(), Tag::new(&id), from)),
    }
    let after = After { process: process.id().to_owned(), seq: last };
    out.reply_after(head.result(&body), &after);
    Ok(())
}

/// Every typed look into params; for fuzzing.
pub(crate) fn fuzz_params(params: &Object<'_>) {
    let _ = (params.string("id"), params.strings("args"), params.string_map("env"), params.int("offset"));
    let _ = (params.bool("wantPid"), params.string_bytes("data").map(|data| decode_base64(&data.unwrap_or_default())));
    let _ = signal_number(&params.string("signal").ok().flatten().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_is_bounded() {
        for (given, want) in [(None, 3000), (Some(0), 3000), (Some(-100), 3000), (Some(50), 50), (Some(8000), 8000)] {
            assert_eq!(grace(given), Duration::from_millis(want), "{given:?}");
        }
        assert_eq!(grace(Some(i64::MAX)), GRACE_MAX);
    }

    #[test]
    fn signal_names_are_read_as_documented() {
        for (name, number) in [("KILL", 9), ("SIGKILL", 9), ("int", 2), ("Int", 2), ("SIGHUP", 1), ("QUIT", 3)] {
            assert_eq!(signal_number(name), number, "{name}");
        }
        for other in ["", "USR1", "9", "sigint", "BOGUS", "TERM"] {
            assert_eq!(signal_number(other), 15, "{other}");
        }
    }
}
