//! A process in the protocol's words.

use std::io;

use ostler_api::{Alias, Claim, ClaimState, ErrorKind, Exit, ProcessInfo, ProcessState, RpcError, Timestamp, WinSize};
use ostler_door_rpc::called;
use ostler_engine::session::Session;
use ostler_engine::{Bounds, Doing, Engine, Need, Process, ProcessClaim};

/// What people call this process.
pub(crate) fn of_process(process: &Process) -> String {
    called(process.name().as_deref(), process.id())
}

/// What people call this session.
pub(crate) fn of_session(session: &Session) -> String {
    called(session.view().name.as_deref(), session.id())
}

/// How many are named where several could be meant: more than that, nobody reads.
const NAMED_MAX: usize = 8;

/// Ids that could be meant, and whether there are more.
pub(crate) fn listed(ids: &[String]) -> String {
    let (named, more) = ids.split_at(ids.len().min(NAMED_MAX));
    named.join(", ") + if more.is_empty() { "" } else { ", …" }
}

pub(crate) fn describe(process: &Process) -> ProcessInfo {
    let (about, bounds) = (process.about(), process.bounds());
    let exit = exit(process, &bounds);
    ProcessInfo {
        id: process.id().to_owned(),
        name: process.name(),
        program: about.program.clone(),
        args: about.args.clone(),
        cwd: Some(about.cwd.display().to_string()),
        state: if exit.is_some() { ProcessState::Exited } else { ProcessState::Running },
        pid: process.pid(),
        started: process.started_at().into(),
        exit,
        tty: about.tty,
        private: about.private,
        alias: about.alias.as_ref().map(|alias| Alias { endpoint: alias.space.clone(), id: alias.id.clone() }),
        first_seq: bounds.first_seq,
        last_seq: bounds.last_seq,
        stdout_bytes: bounds.out_end,
        stderr_bytes: bounds.err_end,
        stdin_applied: bounds.sent(),
        held_back: process.held_back(),
        damaged_from: bounds.damaged_from,
        attached: process.viewers().into_iter().map(viewer).collect(),
        lost_after: bounds.lost_after,
        rebooted: about.rebooted,
        seen: process.is_seen(),
        claim: process.claim().map(claim),
        size: process.size().map(win_size),
    }
}

fn claim(claim: ProcessClaim) -> Claim {
    let (state, need) = match claim.doing {
        Doing::Idle => (ClaimState::Idle, None),
        Doing::Working => (ClaimState::Working, None),
        Doing::Done => (ClaimState::Done, None),
        Doing::Failed => (ClaimState::Failed, None),
        Doing::NeedsYou(need) => (ClaimState::NeedsYou, need),
    };
    Claim {
        state,
        kind: need.map(|need| match need {
            Need::Permission => "permission".to_owned(),
            Need::Question => "question".to_owned(),
            Need::Auth => "auth".to_owned(),
        }),
        app: claim.app,
        title: claim.title,
        message: claim.message,
        progress: claim.progress.map(u16::from),
        since: Some(Timestamp::from_millis(claim.since_ms)),
        reported: claim.reported,
    }
}

fn viewer(viewer: ostler_engine::Viewer) -> ostler_api::Viewer {
    let ostler_engine::Viewer { pid, size, types, since } = viewer;
    ostler_api::Viewer { pid, size: size.map(win_size), types, since: since.into() }
}

pub(crate) fn win_size(size: ostler_engine::WinSize) -> WinSize {
    WinSize { rows: size.rows, cols: size.cols }
}

/// How it ended; unknown where the disk has not taken that.
pub(crate) fn exit(process: &Process, bounds: &Bounds) -> Option<Exit> {
    let recorded = bounds.exit.as_ref();
    let recorded = recorded.map(|record| Exit::new(record.how, Timestamp::from_nanos(record.time_ns)));
    recorded.or_else(|| process.is_unrecorded().then_some(Exit { code: None, signal: None, time: None }))
}

/// Something could not be written to the disk, or read from it: which disk, and what to do about it.
pub(crate) fn disk(engine: &Engine, what: &str, error: &io::Error) -> RpcError {
    let trouble = engine.disk_trouble(error);
    RpcError::new(ErrorKind::Failed, format!("{what}: {}", trouble.message)).hint(trouble.hint)
}
