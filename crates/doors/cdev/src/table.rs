//! Every event and every address of REST, in the order in which they are described, and the way from a request to its method.

use ostler_engine::MayWait;

use crate::envelope::Request;
use crate::error::{Code, Error};
use crate::method::{Call, Entry, Job, Method, Source, entry};
use crate::methods::{self as m, METHODS};

/// Events that are sent.
pub(crate) const EVENTS: &[&str] = &[
    "session_start",
    "session_end",
    "heartbeat",
    "claude_log",
    "claude_message",
    "claude_status",
    "claude_permission",
    "claude_permission_resolved",
    "claude_waiting",
    "claude_session_info",
    "file_changed",
    "git_status_changed",
    "git_diff",
    "git_operation_completed",
    "session_watch_started",
    "session_watch_stopped",
    "session_stopped",
    "events_gap",
    "file_content",
    "status_response",
    "error",
];

/// What HTTP does with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    /// A file, posted as browsers do.
    Form,
}

/// An address of REST, and the method behind it.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) entry: Entry,
}

const fn get<M: Method>(path: &'static str) -> Route {
    Route { verb: Verb::Get, path, entry: entry::<M>() }
}

/// The same with a body.
const fn post<M: Method>(path: &'static str) -> Route {
    Route { verb: Verb::Post, path, entry: entry::<M>() }
}

/// The same with a file.
const fn form<M: Method>(path: &'static str) -> Route {
    Route { verb: Verb::Form, path, entry: entry::<M>() }
}

/// What REST answers to, beside pairing and descriptions.
pub(crate) const ROUTES: &[Route] = &[
    get::<m::StatusGet>("/api/status"),
    get::<m::RestSessions>("/api/claude/sessions"),
    get::<m::SessionMessages>("/api/claude/sessions/messages"),
    get::<m::SessionElements>("/api/claude/sessions/elements"),
    post::<m::AgentRun>("/api/claude/run"),
    post::<m::AgentStop>("/api/claude/stop"),
    post::<m::AgentRespond>("/api/claude/respond"),
    get::<m::FileGet>("/api/file"),
    get::<m::FileList>("/api/files/list"),
    get::<m::GitStatus>("/api/git/status"),
    get::<m::GitDiff>("/api/git/diff"),
    get::<m::GitBranches>("/api/git/branches"),
    post::<m::GitStage>("/api/git/stage"),
    post::<m::GitUnstage>("/api/git/unstage"),
    post::<m::GitDiscard>("/api/git/discard"),
    post::<m::GitRestore>("/api/git/restore"),
    post::<m::RestCommit>("/api/git/commit"),
    post::<m::RestPush>("/api/git/push"),
    post::<m::RestPull>("/api/git/pull"),
    post::<m::RestCheckout>("/api/git/checkout"),
    get::<m::IndexStatus>("/api/repository/index/status"),
    post::<m::IndexRebuild>("/api/repository/index/rebuild"),
    get::<m::Search>("/api/repository/search"),
    get::<m::FilesList>("/api/repository/files/list"),
    get::<m::FilesTree>("/api/repository/files/tree"),
    get::<m::Stats>("/api/repository/stats"),
    form::<m::ImageAdd>("/api/images"),
];

/// Whether this method is there.
pub(crate) fn has(name: &str) -> bool {
    METHODS.iter().any(|entry| entry.name == name)
}

/// Whether this begins a turn of an agent.
pub(crate) fn is_run(name: &str) -> bool {
    matches!(name, "agent/run" | "session/start" | "session/send")
}

/// Finds the method, reads its parameters, and looks whether the device may.
pub(crate) fn prepare(call: &Call, request: &Request<'_>) -> Result<Job, Error> {
    let found = METHODS.iter().find(|entry| entry.name == request.method);
    let entry = found.ok_or_else(|| Error::new(Code::Method, format!("no method `{}`", shown(&request.method))))?;
    allowed(call, entry, || (entry.prepare)(Source::Json(request.params)))
}

/// The job, if the device may; else one that says so, and puts it on record.
pub(crate) fn allowed(
    call: &Call,
    entry: &'static Entry,
    prepare: impl FnOnce() -> Result<Job, Error>,
) -> Result<Job, Error> {
    let Some(right) = entry.needs else { return prepare() };
    let Err(refused) = call.state.engine.guest_may(&call.guest, right) else { return prepare() };
    let why = refused.to_string();
    Ok(Job::Waits(Box::new(move |wait: &MayWait, call: &Call| {
        call.state.engine.guest_refused(wait, &call.guest, "devices", &format!("{}: {why}", entry.name));
        Err(Error::new(Code::Forbidden, why))
    })))
}

/// The beginning of a name that a client made up.
fn shown(name: &str) -> String {
    name.chars().filter(|sign| !sign.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_method_and_no_route_is_there_twice() {
        let mut names: Vec<&str> = METHODS.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for (at, route) in ROUTES.iter().enumerate() {
            let same = |other: &Route| other.path == route.path && other.verb == route.verb;
            assert!(!ROUTES[at + 1..].iter().any(same), "{}", route.path);
        }
    }
}
