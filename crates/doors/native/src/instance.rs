//! `instance.*`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler_api::{
    API_VERSION, AgentInfo, AgentList, AgentsParams, Empty, ErrorKind, Hello, HelloParams, InstanceState, KeyParams,
    LoginState, Metrics, PruneParams, PruneResult, RpcError, SessionStatus, SettingInfo, Status, Stopped,
};
use ostler_engine::session::{AgentHere, Login};
use ostler_engine::{KillPlan, MayWait, Process, Space, Target};
use ostler_story::Drive;

use crate::call::Call;
use crate::session;
use crate::words::Translate;

/// The oldest protocol version that this daemon still speaks.
const OLDEST: u32 = 1;
const TERM: i32 = 15;
/// Long enough for an answer to reach the client before the daemon goes.
const LAST_WORDS: Duration = Duration::from_millis(50);

pub(crate) fn hello(call: &Call, params: HelloParams) -> Result<Hello, RpcError> {
    if params.version < OLDEST {
        let message = format!("this daemon speaks protocol {OLDEST} to {API_VERSION}, the client {}", params.version);
        return Err(RpcError::new(ErrorKind::Refused, message).hint("use a newer client"));
    }
    if !params.client.is_empty() {
        tracing::debug!("native door: {} is here", params.client.escape_debug());
    }
    let identity = call.shared.instance.identity();
    Ok(Hello {
        version: params.version.min(API_VERSION),
        program: identity.program,
        instance: identity.name,
        pid: std::process::id(),
        started: identity.started,
    })
}

pub(crate) fn status(wait: &MayWait, call: &Call, _: Empty) -> Result<Status, RpcError> {
    let (identity, stats) = (call.shared.instance.identity(), call.engine().stats());
    let sessions = session::count(call);
    let space = call.engine().space(wait).unwrap_or(Space { free: 0, size: 0, keep_free: 0 });
    let unconfirmed = call.engine().inbox().unconfirmed().into_iter();
    let busy = |status| matches!(status, SessionStatus::Running | SessionStatus::Waiting);
    Ok(Status {
        instance: identity.name,
        state: InstanceState::Running,
        program: identity.program,
        pid: std::process::id(),
        keeper_pid: Some(stats.keeper_pid),
        keeper_upgrade: stats.keeper_upgrade.map(Translate::translated),
        started: identity.started,
        doors: call.shared.instance.doors(),
        running: stats.running as u64,
        exited: stats.ended as u64,
        journal_bytes: call.engine().journal_bytes(wait),
        oldest_unsynced_ms: u64::try_from(stats.oldest_unsynced.as_millis()).unwrap_or(u64::MAX),
        held_back: stats.held_back as u64,
        held_by_floor: stats.held_by_floor as u64,
        disk_free: space.free,
        disk_size: space.size,
        keep_free: space.keep_free,
        rules_suspended: call.engine().inbox().suspended() as u64,
        locked: call.engine().locked().is_some(),
        damaged: stats.damaged as u64,
        state_dir: identity.state_dir,
        sessions: sessions.iter().filter(|(status, _)| *status != SessionStatus::Closed).map(|(_, count)| count).sum(),
        sessions_running: sessions.iter().filter(|(status, _)| busy(*status)).map(|(_, count)| count).sum(),
        approvals_pending: call.engine().inbox().pending().len() as u64,
        unconfirmed: unconfirmed.map(|(setting, value)| SettingInfo { setting, value }).collect(),
    })
}

/// May wait for a login shell, and for the agents.
pub(crate) fn agents(wait: &MayWait, call: &Call, params: AgentsParams) -> Result<AgentList, RpcError> {
    let agents = call.engine().sessions().agents_here(wait, params.ask).into_iter().map(agent_info).collect();
    Ok(AgentList { agents })
}

/// An agent in the protocol's words.
pub fn agent_info(here: AgentHere) -> AgentInfo {
    let (login, login_by) = match here.login {
        Login::Yes(by) => (LoginState::Yes, Some(by)),
        Login::No(why) => (LoginState::No, Some(why.to_owned())),
        Login::Unknown => (LoginState::Unknown, None),
    };
    let drive = match here.drive {
        Drive::Stream => "stream",
        Drive::AppServer => "app_server",
        Drive::Acp => "acp",
        Drive::Oneshot => "oneshot",
        Drive::Echo => "echo",
    };
    AgentInfo {
        name: here.name,
        command: here.command,
        program: here.program.map(|program| program.display().to_string()),
        version: here.version,
        drive: drive.to_owned(),
        login,
        login_by,
    }
}

pub(crate) fn metrics(wait: &MayWait, call: &Call, _: Empty) -> Result<Metrics, RpcError> {
    let (identity, stats, counters) = (call.shared.instance.identity(), call.engine().stats(), &call.shared.counters);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let rows: &[(&str, &str, &str, f64)] = &[
        ("ostler_processes_running", "gauge", "Hosted processes that run.", stats.running as f64),
        ("ostler_processes_kept", "gauge", "Processes that have ended and are kept.", stats.ended as f64),
        ("ostler_processes_held_back", "gauge", "Processes whose output waits for the disk.", stats.held_back as f64),
        ("ostler_processes_damaged", "gauge", "Processes whose journal the disk has damaged.", stats.damaged as f64),
        ("ostler_processes_started_total", "counter", "Processes started.", count(&counters.started)),
        ("ostler_processes_ended_total", "counter", "Processes ended.", count(&counters.ended)),
        ("ostler_journal_bytes", "gauge", "Disk space of all journals.", call.engine().journal_bytes(wait) as f64),
        (
            "ostler_oldest_unsynced_seconds",
            "gauge",
            "Age of the oldest byte that a power loss would take.",
            stats.oldest_unsynced.as_secs_f64(),
        ),
        (
            "ostler_approvals_pending",
            "gauge",
            "Requests that wait for a person.",
            call.engine().inbox().pending().len() as f64,
        ),
        ("ostler_native_clients", "gauge", "Clients on the socket of ostler itself.", count(&counters.clients)),
        (
            "ostler_native_connections_total",
            "counter",
            "Connections to the socket of ostler itself.",
            count(&counters.connections),
        ),
        (
            "ostler_native_requests_total",
            "counter",
            "Requests on the socket of ostler itself.",
            count(&counters.requests),
        ),
        ("ostler_uptime_seconds", "gauge", "Age of the daemon.", identity.started.elapsed().as_secs_f64()),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    let sessions = "ostler_sessions";
    let _ = writeln!(text, "# HELP {sessions} Sessions by how they are doing.\n# TYPE {sessions} gauge");
    for (status, count) in session::count(call) {
        let _ = writeln!(text, "{sessions}{{status=\"{}\"}} {count}", status.as_str());
    }
    Ok(Metrics { text })
}

pub(crate) fn prune(wait: &MayWait, call: &Call, params: PruneParams) -> Result<PruneResult, RpcError> {
    call.reaches(Target::Instance)?;
    let report = call.engine().prune(wait, params.dry_run);
    Ok(PruneResult { removed: report.removed, bytes: report.freed, kept: report.kept as u64 })
}

pub(crate) fn leave(call: &Call, _: KeyParams) -> Result<Empty, RpcError> {
    call.reaches(Target::Instance)?;
    end_soon(call, true);
    Ok(Empty {})
}

/// Ends every child politely, then firmly; the answer says what came of it, and the daemon goes. Agents are ended by their
/// sessions, which begin nothing any more: prompts that wait are for the next daemon.
pub(crate) async fn stop(call: Arc<Call>, _: KeyParams) -> Result<Stopped, RpcError> {
    call.reaches(Target::Instance)?;
    let running: Vec<Process> = call.engine().list().into_iter().filter(Process::is_running).collect();
    let plan = KillPlan { signal: TERM, grace: call.shared.instance.identity().kill_grace, escalate: true };
    let others = running.iter().filter(|process| process.about().session.is_none());
    let endings: Vec<_> =
        others.cloned().map(|process| tokio::spawn(async move { process.kill_and_wait(plan).await })).collect();
    call.engine().sessions().end_processes().await;
    for ending in endings {
        // A task that died leaves its process among the survivors.
        let _ = ending.await;
    }
    let (unrecorded, left): (Vec<&Process>, Vec<&Process>) =
        running.iter().filter(|process| process.is_running()).partition(|process| process.is_unrecorded());
    let survivors: Vec<String> = left.iter().map(|process| process.id().to_owned()).collect();
    let ended = (running.len() - survivors.len()) as u64;
    end_soon(&call, false);
    Ok(Stopped { ended, survivors, unrecorded: unrecorded.len() as u64 })
}

fn end_soon(call: &Call, keep: bool) {
    let instance = Arc::clone(&call.shared.instance);
    tokio::spawn(async move {
        tokio::time::sleep(LAST_WORDS).await;
        instance.end(keep);
    });
}
