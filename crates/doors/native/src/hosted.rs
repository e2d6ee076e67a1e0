//! `hosted.list`: sessions, terminal programs and commands as one list. It says the same of each that `process.get` and
//! `session.get` say, and in which of a few states it is.

use std::collections::HashSet;

use ostler_api::{Hosted, HostedList, HostedListParams, RpcError, SessionStatus};
use ostler_engine::{Process, Session};

use crate::Shared;
use crate::info::describe;
use crate::session::describe_session;

/// An entry, and what its last lines are read from.
enum Source {
    Process(Process),
    Session(Session),
}

pub(crate) fn list(shared: &Shared, params: HostedListParams) -> Result<HostedList, RpcError> {
    let processes = shared.engine.list();
    let sessions = shared.engine.sessions().list();
    let wanted = |id: &str| params.id.as_deref().is_none_or(|only| only == id);
    let mut all: Vec<(Hosted, Source)> = Vec::new();
    for process in processes.iter().filter(|process| wanted(process.id()) && (params.all || process.is_running())) {
        all.push((of_process(process), Source::Process(process.clone())));
    }
    for session in sessions.iter().filter(|session| wanted(session.id())) {
        let info = describe_session(session.view());
        if params.all || info.status != SessionStatus::Closed {
            all.push((info.into(), Source::Session(session.clone())));
        }
    }
    if let Some(max) = params.over_max {
        drop_oldest(&mut all, max as usize);
    }
    all.sort_by_key(|(hosted, _)| hosted.began);
    for (hosted, source) in all.iter_mut().filter(|_| params.lines > 0) {
        let count = params.lines as usize;
        let lines = match source {
            Source::Process(process) => process.last_lines(count),
            Source::Session(session) => session.last_lines(count),
        };
        // A journal that cannot be read has no last line; whoever reads it is told why.
        hosted.lines = lines.unwrap_or_default();
    }
    Ok(HostedList { hosted: all.into_iter().map(|(hosted, _)| hosted).collect() })
}

/// Of those that are over only the newest stay.
fn drop_oldest(all: &mut Vec<(Hosted, Source)>, max: usize) {
    let mut over: Vec<_> =
        all.iter().filter_map(|(hosted, _)| hosted.ended.map(|ended| (ended, hosted.id.clone()))).collect();
    over.sort_unstable_by(|one, two| two.cmp(one));
    let gone: HashSet<String> = over.into_iter().skip(max).map(|(_, id)| id).collect();
    all.retain(|(hosted, _)| !gone.contains(&hosted.id));
}

fn of_process(process: &Process) -> Hosted {
    let part_of = process.about().session.clone().or_else(|| process.approval().map(str::to_owned));
    Hosted { part_of, ..Hosted::from(describe(process)) }
}
