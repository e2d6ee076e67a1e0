//! `hosted.list`: sessions, terminal programs and commands as one list. It says the same of each that `process.get` and
//! `session.get` say, and in which of a few states it is.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ostler_api::{Hosted, HostedList, HostedListParams, RpcError, SessionStatus};
use ostler_engine::{MayWait, Process, Session, Target};
use ostler_workspace::branch;

use crate::call::Call;
use crate::reach::{shown_process, shown_session};

/// An entry, and what its last lines are read from.
enum Source {
    Process(Process),
    Session(Session),
}

pub(crate) fn list(wait: &MayWait, call: &Call, params: HostedListParams) -> Result<HostedList, RpcError> {
    let processes = call.engine().list();
    let sessions = call.engine().sessions().list();
    let wanted = |id: &str| params.id.as_deref().is_none_or(|only| only == id);
    let mut all: Vec<(Hosted, Source)> = Vec::new();
    for process in processes.iter().filter(|process| wanted(process.id()) && (params.all || process.is_running())) {
        all.push((of_process(call, process), Source::Process(process.clone())));
    }
    for session in sessions.iter().filter(|session| wanted(session.id())) {
        let info = shown_session(call, session);
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
        let target = match source {
            Source::Process(process) => Target::Process(process),
            Source::Session(session) => Target::Session(session),
        };
        let lines = match target {
            // What others say is not for this client.
            target if call.engine().may_touch(&call.origin, target).is_err() => continue,
            Target::Process(process) => process.last_lines(wait, count),
            Target::Session(session) => session.last_lines(wait, count),
            Target::Instance => continue,
        };
        // A journal that cannot be read has no last line; whoever reads it is told why.
        hosted.lines = lines.unwrap_or_default();
    }
    if params.branches {
        let mut known: HashMap<String, Option<String>> = HashMap::new();
        for (hosted, _) in all.iter_mut().filter(|(hosted, _)| hosted.ended.is_none()) {
            let Some(folder) = hosted.workspace.clone() else { continue };
            let branch = known.entry(folder).or_insert_with_key(|folder| branch(Path::new(folder)));
            hosted.branch.clone_from(branch);
        }
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

fn of_process(call: &Call, process: &Process) -> Hosted {
    let part_of = process.about().session.clone().or_else(|| process.approval().map(str::to_owned));
    Hosted { part_of, ..Hosted::from(shown_process(call, process)) }
}
