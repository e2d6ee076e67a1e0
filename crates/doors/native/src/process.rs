//! `process.*`.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ostler_api::{
    AccessParams, Attached, DetachParams, Empty, ErrorKind, IdKeyParams, IdParams, Killed, ListParams, ProcessInfo,
    ProcessList, RenameParams, ResizeParams, RpcError, SignalParams, SignalScope, SpawnParams, StdinResult, Timestamp,
    ViewerParams, methods,
};
use ostler_door_rpc::{After, Later, Watch, called, decode_base64};
use ostler_engine::{
    Bearer, Caller, Engine, Journal, KillOutcome, KillPlan, LineStart, MayWait, NameTaken, Origin, Process,
    RenameError, ResolveError, SpawnError, SpawnRequest, StdinError, Target, Viewer, WinSize,
};

use crate::call::{Call, Who};
use crate::dispatch::{Answered, Client, Out, Request, Tag};
use crate::info::{self, describe, disk, of_process, of_session};
use crate::reach::shown_process;
use crate::watches::no_watch;
use crate::words::Translate;

const TERM: i32 = 15;
/// 64 bits: nobody draws the same number twice.
const SENDER_DIGITS: usize = 16;
/// The highest signal number.
const SIGNAL_MAX: i32 = 64;
/// No program that the kernel knows; `io::ErrorKind` has no word for it.
const ENOEXEC: i32 = 8;
/// The longest a kill waits, so that a process that ignores signals cannot hold a request for ever.
const GRACE_MAX: Duration = Duration::from_secs(600);

fn find(call: &Call, id: &str) -> Result<Process, RpcError> {
    call.engine().resolve(id).map_err(|error| match error {
        ResolveError::NotFound(_) => {
            RpcError::new(ErrorKind::NotFound, format!("no process `{id}`")).hint("list them: ostler ps -a")
        }
        ResolveError::Ambiguous { ids, .. } => {
            RpcError::new(ErrorKind::Ambiguous, format!("`{id}` matches several: {}", info::listed(&ids)))
                .hint("use more of the id")
        }
    })
}

/// A process that this client may touch.
pub(crate) fn own(call: &Call, id: &str) -> Result<Process, RpcError> {
    let process = find(call, id)?;
    call.reaches(Target::Process(&process))?;
    Ok(process)
}

pub(crate) fn list(call: &Call, params: ListParams) -> Result<ProcessList, RpcError> {
    let all = call.engine().list();
    let wanted = all.iter().filter(|process| params.all || process.is_running());
    Ok(ProcessList { processes: wanted.map(|process| shown_process(call, process)).collect() })
}

pub(crate) fn get(call: &Call, params: IdParams) -> Result<ProcessInfo, RpcError> {
    Ok(shown_process(call, &find(call, &params.id)?))
}

pub(crate) async fn spawn(call: Arc<Call>, params: SpawnParams) -> Result<ProcessInfo, RpcError> {
    let bad = |message: &str| Err(RpcError::new(ErrorKind::BadParams, message));
    if params.program.is_empty() {
        return bad("program is empty");
    }
    crate::session::check_name(params.name.as_deref())?;
    crate::session::check_variables(&params.env)?;
    if params.tty.as_ref().is_some_and(|size| size.rows == 0 || size.cols == 0) {
        return bad("a terminal needs at least one row and one column");
    }
    let cwd = params.cwd.filter(|cwd| !cwd.is_empty());
    let request = SpawnRequest {
        program: params.program.into(),
        args: params.args.into_iter().map(Into::into).collect(),
        env: params.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: cwd.clone().map(Into::into),
        alias: None,
        name: params.name,
        tty: params.tty.map(|size| WinSize { rows: size.rows, cols: size.cols }),
        private: params.private,
        live_max: params.live_max,
        shown_as: None,
        // A name space of its own: no client may take a key that the engine gives.
        key: params.key.map(|key| format!("client:{key}")),
        relayed_terminal: false,
        void_exit: None,
        session: None,
        screen_of: None,
        owner: call.engine().owner_for(&call.origin),
    };
    let started = call.engine().spawn(request).await;
    started.map(|process| describe(&process)).map_err(|error| refusal(call.engine(), &error, cwd.as_deref()))
}

pub(crate) fn refusal(engine: &Engine, error: &SpawnError, cwd: Option<&str>) -> RpcError {
    match error {
        SpawnError::Refused { program, in_cwd: true, source } => RpcError::new(ErrorKind::Failed, {
            let cwd = cwd.unwrap_or("/");
            format!("cannot start {} in {cwd}: {source}", program.display())
        })
        .hint("the folder must exist and be accessible to you"),
        SpawnError::Refused { program, source, .. } => {
            RpcError::new(not_run(source), format!("cannot run {}: {source}", program.display()))
        }
        SpawnError::NameTaken(taken) => name_taken(taken),
        SpawnError::NulInCommand { .. } | SpawnError::NulInEnvironment => {
            RpcError::new(ErrorKind::BadParams, error.to_string())
        }
        SpawnError::Journal(source) => disk(engine, "not started", source),
        SpawnError::NotInPath(_) | SpawnError::KeeperGone | SpawnError::Stopping | SpawnError::Unsure { .. } => {
            RpcError::new(ErrorKind::Failed, error.to_string())
        }
    }
}

/// What a shell would tell apart: there is no such file, it cannot be executed, or the machine had no room for it.
fn not_run(why: &io::Error) -> ErrorKind {
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::NotExecutable,
        _ if why.raw_os_error() == Some(ENOEXEC) => ErrorKind::NotExecutable,
        _ => ErrorKind::Failed,
    }
}

pub(crate) fn stdin(client: &Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::ProcessStdin>()?;
    let data =
        decode_base64(params.data.as_bytes()).map_err(|_| RpcError::new(ErrorKind::BadParams, "data is not base64"))?;
    let process = with_stdin(&client.call, &params.id)?;
    let sender = params.sender.map(|from| sender(&from.id).map(|id| (id, from.offset))).transpose()?;
    let (deliver, head) = (out.later_input(data.len()), request.head.clone());
    let engine = client.call.engine().clone();
    let done = move |result: Result<ostler_engine::Appended, StdinError>| {
        let answer = result.map(|done| StdinResult { applied: done.applied, duplicate: done.duplicate });
        deliver(Later::reply(
            head.answer::<methods::ProcessStdin>(&answer.map_err(|error| stdin_refusal(&engine, &error))),
        ));
    };
    match sender {
        Some((sender, offset)) => process.write_stdin_of(sender, offset, data, done),
        None => process.write_stdin_then(params.offset, data, done),
    }
    Ok(())
}

/// The number that a sender drew. 0 stands for nobody in particular.
fn sender(id: &str) -> Result<u64, RpcError> {
    let number = u64::from_str_radix(id, 16).ok().filter(|number| id.len() == SENDER_DIGITS && *number != 0);
    number
        .ok_or_else(|| RpcError::new(ErrorKind::BadParams, "a sender's id is 16 hexadecimal digits, not all of them 0"))
}

/// A process whose stdin is anybody's to write: what an agent is told goes through its session.
fn with_stdin(call: &Call, id: &str) -> Result<Process, RpcError> {
    let process = own(call, id)?;
    let free = || matches!(call.caller(), Caller::Free | Caller::Elsewhere);
    if process.about().screen_of.is_some() && !free() {
        let message = format!("{} is an agent's own screen: who types there decides for it", of_process(&process));
        return Err(RpcError::new(ErrorKind::Refused, message).hint("only a terminal that ostler does not host may"));
    }
    match &process.about().session {
        None => Ok(process),
        Some(session) => {
            let found = call.engine().sessions().get(session);
            let session = found.map_or_else(|| session.clone(), |session| of_session(&session));
            let message = format!("{} is the agent of session {session}; it only takes prompts", of_process(&process));
            Err(RpcError::new(ErrorKind::Refused, message).hint(format!("send one: ostler send {session} '...'")))
        }
    }
}

fn stdin_refusal(engine: &Engine, error: &StdinError) -> RpcError {
    match error {
        StdinError::Gap { applied } => {
            let message = format!("bytes before this offset are missing; {applied} have been accepted");
            let mut refusal = RpcError::new(ErrorKind::StdinGap, message);
            if let Some(data) = &mut refusal.data {
                data.applied = Some(*applied);
            }
            refusal
        }
        StdinError::NotRunning => RpcError::new(ErrorKind::Refused, "the process has ended"),
        StdinError::Closed => RpcError::new(ErrorKind::Refused, "its stdin is closed"),
        StdinError::Io(source) => disk(engine, "the input could not be stored", source),
        StdinError::Busy => RpcError::new(ErrorKind::Failed, error.to_string()),
    }
}

pub(crate) async fn close_stdin(call: Arc<Call>, params: IdKeyParams) -> Result<Empty, RpcError> {
    match with_stdin(&call, &params.id)?.close_stdin().await {
        // Closed is closed, however often it is asked for.
        Ok(()) | Err(StdinError::Closed | StdinError::NotRunning) => Ok(Empty {}),
        Err(error) => Err(stdin_refusal(call.engine(), &error)),
    }
}

pub(crate) fn signal(wait: &MayWait, call: &Call, params: SignalParams) -> Result<Empty, RpcError> {
    let process = own(call, &params.id)?;
    if !(1..=SIGNAL_MAX).contains(&params.signal) {
        return Err(RpcError::new(ErrorKind::BadParams, format!("signals are 1 to {SIGNAL_MAX}")));
    }
    if !process.is_running() {
        return Err(RpcError::new(ErrorKind::Refused, format!("{} has ended", of_process(&process))));
    }
    if params.key.is_none_or(|key| call.engine().first_use(wait, &format!("signal {} {key}", process.id()))) {
        process.signal(params.signal, params.scope.unwrap_or(SignalScope::Group).translated());
    }
    Ok(Empty {})
}

pub(crate) fn kill(client: &Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::ProcessKill>()?;
    let process = own(&client.call, &params.id)?;
    let signal = params.signal.unwrap_or(TERM);
    if !(1..=SIGNAL_MAX).contains(&signal) {
        return Err(RpcError::new(ErrorKind::BadParams, format!("signals are 1 to {SIGNAL_MAX}")));
    }
    let grace =
        params.grace_ms.map_or(client.call.shared.instance.identity().kill_grace, Duration::from_millis).min(GRACE_MAX);
    let head = request.head.clone();
    out.spawn(async move {
        let outcome = process.kill_and_wait(KillPlan { signal, grace, escalate: true }).await;
        let bounds = process.bounds();
        let exit = info::exit(&process, &bounds);
        let killed = Killed {
            died: exit.is_some(),
            already_exited: outcome == KillOutcome::AlreadyEnded,
            escalated: matches!(outcome, KillOutcome::Killed | KillOutcome::Unkillable),
            exit,
        };
        let mut later = Later::reply(head.answer::<methods::ProcessKill>(&Ok(killed)));
        // A client that watches the process sees its end before it is told of it.
        later.after = bounds.exit.map(|exit| After { process: process.id().to_owned(), seq: exit.seq });
        later
    });
    Ok(())
}

pub(crate) fn attach(client: &mut Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::ProcessAttach>()?;
    let process = own(&client.call, &params.id)?;
    let looks = params.viewer.is_some();
    client.last_watch += 1;
    let watch = client.last_watch;
    if !client.watches.enter(Tag::Process(watch), process.id()) {
        return Err(RpcError::new(ErrorKind::Refused, format!("this connection already watches {}", process.id()))
            .hint("end that watch with process.detach, or use a second connection"));
    }
    let size = params.viewer.and_then(|viewer| view(client, &process, viewer, Tag::Process(watch)));
    let seen = looks.then(|| process.clone()).filter(Process::has_failed_unseen);
    let (head, journal) = (request.head.clone(), Arc::clone(process.cursor(0).journal()));
    let begin = move |LineStart { seq, skip }: LineStart| {
        let bounds = process.bounds();
        // The exit is always told, also to who asks from beyond it.
        let from = bounds.exit.as_ref().map_or(seq, |exit| seq.min(exit.seq)).max(1);
        // What was let go meanwhile needs no skipping.
        let skip = if from == seq && from >= bounds.first_seq { skip } else { 0 };
        let attached = Attached { watch, process: describe(&process), from: from.max(bounds.first_seq), skip, size };
        let mut later = Later::reply(head.answer::<methods::ProcessAttach>(&Ok(attached)));
        later.watch = Some(Watch::new(process, Tag::Process(watch), from - 1));
        later
    };
    let frame = |seq| LineStart { seq, skip: 0 };
    let reads = params.from.is_none() && (params.tail.is_some() || params.lines.is_some() || params.since.is_some());
    let place = move || match (params.from, params.tail, params.lines, params.since) {
        (Some(from), ..) => frame(from),
        (None, Some(tail), ..) => frame(journal.tail_from(tail).unwrap_or(1)),
        (None, None, None, None) => frame(1),
        (None, None, lines, since) => begins(&journal, lines, since),
    };
    // Finding the place reads the journal, and that an end was seen is noted there: it may be on a disk that is slow.
    if reads || seen.is_some() {
        out.spawn_blocking(move |wait| {
            seen.iter().for_each(|process| process.see(wait));
            begin(place())
        });
    } else {
        answer_now(out, begin(place()));
    }
    Ok(())
}

/// Where the last lines begin, or what was written since, whichever is later; what can not be found is shown from its beginning.
fn begins(journal: &Arc<Journal>, lines: Option<u64>, since: Option<Timestamp>) -> LineStart {
    let whole = LineStart { seq: 1, skip: 0 };
    let lines = lines.map_or(whole, |lines| journal.lines_from(lines).unwrap_or(whole));
    let nanos = |time: Timestamp| time.as_micros().saturating_mul(1000);
    let since = since.map_or(1, |time| journal.since_from(nanos(time)).unwrap_or(1));
    if since > lines.seq { LineStart { seq: since, skip: 0 } } else { lines }
}

/// Lists the client as attached, for as long as its watch is open.
fn view(client: &Client, process: &Process, viewer: ViewerParams, tag: Tag) -> Option<ostler_api::WinSize> {
    let size = viewer.size.filter(|size| size.rows > 0 && size.cols > 0);
    let viewer = Viewer {
        pid: client.call.peer().map(|peer| peer.pid),
        size: size.map(|size| WinSize { rows: size.rows, cols: size.cols }),
        types: viewer.types,
        since: SystemTime::now(),
    };
    let (viewing, holds) = process.view(viewer);
    client.watches.attach(tag, viewing);
    if matches!(client.call.who, Who::Here(_)) && client.call.origin == Origin::Free {
        client.watches.look(tag, client.call.engine().notices().onlookers().look(process.id()));
    }
    holds.map(info::win_size)
}

/// An answer that is ready now takes the same way as one that had to wait.
pub(crate) fn answer_now(out: &mut Out, later: Later<Tag>) {
    out.ready.extend_from_slice(&later.reply);
    if let Some(watch) = later.watch {
        out.watch(watch);
    }
}

pub(crate) fn detach(client: &mut Client, params: DetachParams, out: &mut Out) -> Result<Empty, RpcError> {
    let process = client.watches.leave(Tag::Process(params.watch)).ok_or_else(|| no_watch(params.watch))?;
    out.unwatch(&process);
    Ok(Empty {})
}

pub(crate) fn resize(client: &mut Client, params: ResizeParams, _: &mut Out) -> Result<ostler_api::WinSize, RpcError> {
    let process = own(&client.call, &params.id)?;
    if !process.about().tty {
        return Err(RpcError::new(ErrorKind::Refused, format!("{} has no terminal", of_process(&process))));
    }
    if params.rows == 0 || params.cols == 0 {
        return Err(RpcError::new(ErrorKind::BadParams, "a terminal needs at least one row and one column"));
    }
    let size = WinSize { rows: params.rows, cols: params.cols };
    let holds = client.watches.resize(process.id(), size).unwrap_or_else(|| process.resize(size));
    Ok(info::win_size(holds))
}

pub(crate) fn rename(wait: &MayWait, call: &Call, params: RenameParams) -> Result<ProcessInfo, RpcError> {
    let process = own(call, &params.id)?;
    let name = Some(params.name).filter(|name| !name.is_empty());
    crate::session::check_name(name.as_deref())?;
    let key = params.key.map(|key| format!("rename {} {key}", process.id()));
    if !key.as_deref().is_some_and(|key| call.engine().has_seen(wait, key)) {
        call.engine().rename(wait, &process, name).map_err(|error| match error {
            RenameError::NameTaken(taken) => name_taken(&taken),
            RenameError::Private(_) | RenameError::Own(_) => RpcError::new(ErrorKind::Refused, error.to_string()),
            RenameError::Io(source) => disk(call.engine(), "not renamed", &source),
        })?;
        key.iter().for_each(|key| _ = call.engine().first_use(wait, key));
    }
    Ok(describe(&process))
}

/// Says who has the name, and what can be done about it.
pub(crate) fn name_taken(taken: &NameTaken) -> RpcError {
    let hint = match &taken.bearer {
        Bearer::Process { id, .. } => {
            let name = called(Some(&taken.name), id);
            format!(
                "give another name, end that one (ostler kill {name}) or rename it (ostler set {name} --name OTHER)"
            )
        }
        Bearer::Session { id, .. } => {
            let name = called(Some(&taken.name), id);
            format!(
                "give another name, go on with that one (ostler attach {name}) or rename it (ostler set {name} --name OTHER)"
            )
        }
        Bearer::Coming => "give another name".to_owned(),
    };
    RpcError::new(ErrorKind::Refused, taken.to_string()).hint(hint)
}

/// Opens everything to a hosted process, or only what is its own: for a person to say.
pub(crate) fn access(wait: &MayWait, call: &Call, params: AccessParams) -> Result<ProcessInfo, RpcError> {
    let process = find(call, &params.id)?;
    let by = call.person(wait, process.id(), &format!("set {} --access all", process.id()))?;
    if !process.is_running() {
        return Err(RpcError::new(ErrorKind::Refused, format!("{} has ended", process.id())));
    }
    call.engine().open_access(wait, &process, params.all, by).map_err(|error| crate::approval::failed(&error))?;
    Ok(describe(&process))
}

pub(crate) fn forget(wait: &MayWait, call: &Call, params: IdKeyParams) -> Result<Empty, RpcError> {
    let key = params.key.map(|key| format!("forget {} {key}", params.id));
    let process = match find(call, &params.id) {
        Err(_) if key.as_deref().is_some_and(|key| call.engine().has_seen(wait, key)) => return Ok(Empty {}),
        found => found?,
    };
    call.reaches(Target::Process(&process))?;
    if !call.engine().forget(wait, &process) {
        return Err(RpcError::new(ErrorKind::Refused, format!("{} is still running", of_process(&process)))
            .hint(format!("end it first: ostler kill {} --wait", of_process(&process))));
    }
    if let Some(key) = &key {
        call.engine().first_use(wait, key);
    }
    Ok(Empty {})
}
