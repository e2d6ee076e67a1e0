//! `session.*`. Whoever may open this door may talk to agents, a hosted process to those that are its own; what decides a
//! request of an agent is `approval.decide`, and that is another matter.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_api::{
    Autonomy, Continued, Empty, ErrorKind, InterruptParams, Interrupted, ProcessInfo, PromptAccepted, PromptBlock,
    PromptParams, RpcError, ScreenParams, SessionChangeParams, SessionClosed, SessionCreateParams, SessionEditParams,
    SessionEdited, SessionIdKeyParams, SessionIdParams, SessionInfo, SessionList, SessionListParams, SessionRaw,
    SessionRawParams, SessionStatus, SessionUsage, Timestamp, UnwatchParams, UsageLimit, Watching, WorktreeFate,
    methods,
};
use ostler_door_rpc::{Later, Watch, push_base64};
use ostler_engine::access::device::Right;
use ostler_engine::session::{
    Change, ChangeError, CreateError, GoneOn, Interrupt, NewScreen, NewSession, NewTree, Prompt, PromptError, Queue,
    ScreenError, Session, SessionError, Spent, TreeError, TreeFate, View,
};
use ostler_engine::{MayWait, SpawnError, Target, WinSize};
use ostler_story::{Agent, Block, Limit};

use crate::call::Call;
use crate::dispatch::{Answered, Client, Out, Request, Tag};
use crate::info::{self, disk, of_process, of_session};
use crate::reach::{refusal, shown_session};
use crate::watches::no_watch;
use crate::words::Translate;

/// What this door is called in journals.
const DOOR: &str = "native";
/// Ending an agent takes at most a grace of 5 s and a kill; after this an answer is better than none.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// A name for people, not a letter.
const NAME_MAX: usize = 128;
/// One line of an agent and some more.
const RAW_MAX: u64 = 16 * 1024 * 1024;

pub(crate) fn find(call: &Call, id: &str) -> Result<Session, RpcError> {
    call.engine().sessions().resolve(id).map_err(|error| match error {
        SessionError::NotFound(_) => {
            RpcError::new(ErrorKind::NotFound, format!("no session `{id}`")).hint("list them: ostler sessions --all")
        }
        SessionError::Ambiguous { ids, .. } => {
            RpcError::new(ErrorKind::Ambiguous, format!("`{id}` matches several: {}", info::listed(&ids)))
                .hint("use more of the id")
        }
    })
}

/// A session that this client may touch.
pub(crate) fn own(call: &Call, id: &str) -> Result<Session, RpcError> {
    let session = find(call, id)?;
    call.reaches(Target::Session(&session))?;
    Ok(session)
}

/// The same, whose work tree the caller may change: nobody hosted.
pub(crate) fn own_to_change(call: &Call, id: &str) -> Result<Session, RpcError> {
    let session = own(call, id)?;
    call.engine().may_change(&call.origin, &session.view().workspace).map_err(|error| refusal(&error))?;
    Ok(session)
}

fn bad(message: impl Into<String>) -> RpcError {
    RpcError::new(ErrorKind::BadParams, message)
}

pub(crate) fn create(wait: &MayWait, call: &Call, params: SessionCreateParams) -> Result<SessionInfo, RpcError> {
    if !params.command.is_empty() || params.program.is_some() || !params.env.is_empty() {
        call.needs(Right::TypeIntoTerminals)?;
    }
    if params.autonomy.is_some_and(|autonomy| autonomy != Autonomy::Ask) || params.raw_mode.is_some() {
        call.needs(Right::LoosenAutonomy)?;
    }
    if params.worktree {
        call.needs(Right::WriteFiles)?;
    }
    check_name(params.name.as_deref())?;
    check_variables(&params.env)?;
    if params.branch.is_some() && !params.worktree {
        return Err(bad("session.create: `branch` is for a `worktree`"));
    }
    let workspace = PathBuf::from(params.workspace.as_str());
    call.engine().may_begin_in(wait, &call.origin, &workspace).map_err(|error| refusal(&error))?;
    let agent = agent(call, &params)?;
    let new = NewSession {
        program: params.program,
        autonomy: params.autonomy.unwrap_or(Autonomy::Ask),
        raw_mode: params.raw_mode,
        model: params.model,
        lifetime: params.lifetime.unwrap_or_default(),
        name: params.name,
        resume: params.resume,
        // A name space of its own: no client may take a key that another door gives.
        key: params.key.map(|key| format!("{DOOR}:{key}")),
        env: params.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        worktree: params.worktree.then_some(NewTree { branch: params.branch }),
        program_there: true,
        owner: call.engine().owner_for(&call.origin),
        ..NewSession::new(agent, workspace, DOOR)
    };
    let created = call.engine().sessions().create(wait, new);
    created.map(|session| describe_session(session.view())).map_err(|error| match error {
        CreateError::Workspace { .. } => bad(error.to_string()).hint("use a folder that exists and that you may enter"),
        CreateError::Unsupported(_) => bad(error.to_string()),
        CreateError::NameTaken(taken) => crate::process::name_taken(&taken),
        CreateError::KeyTaken(_) => RpcError::new(ErrorKind::Refused, error.to_string()).hint("use another key"),
        CreateError::NoProgram(_) => RpcError::new(ErrorKind::NotFound, error.to_string())
            .hint("install it, or add its folder to PATH in your login shell; then: ostler restart"),
        CreateError::Tree(TreeError::NoRepository(_)) => {
            bad(error.to_string()).hint("--worktree needs a git repository: run `git init` and commit, or leave it out")
        }
        CreateError::Tree(TreeError::CheckedOut { .. }) => RpcError::new(ErrorKind::Refused, error.to_string())
            .hint("use another branch, or switch that folder to another one: git switch"),
        CreateError::Tree(TreeError::Failed(_)) => RpcError::new(ErrorKind::Failed, error.to_string()),
        CreateError::Io(source) => disk(call.engine(), "the session was not started", &source),
    })
}

fn agent(call: &Call, params: &SessionCreateParams) -> Result<Agent, RpcError> {
    if params.agent == "acp" {
        return match params.command.is_empty() {
            true => Err(bad("agent acp needs a command").hint("`ostler new acp . -- COMMAND ARGS`")),
            false => Ok(Agent::acp(params.command.clone())),
        };
    }
    let agent = call.engine().sessions().agent(&params.agent).map_err(|unknown| {
        let known = unknown.known.join(", ");
        bad(unknown.to_string())
            .hint(format!("use {known}, or acp with a command; after adding one to the settings: ostler restart"))
    })?;
    if !params.command.is_empty() {
        return Err(bad(format!("a command is for agent acp, not for {}", params.agent)));
    }
    Ok(agent)
}

pub(crate) fn check_name(name: Option<&str>) -> Result<(), RpcError> {
    let odd = |name: &str| name.trim().is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control);
    match name {
        Some(name) if odd(name) => {
            Err(bad(format!("a name has 1 to {NAME_MAX} bytes, not only blanks, and no control characters")))
        }
        _ => Ok(()),
    }
}

/// Refuses variables that there cannot be: what looks like one would set another.
pub(crate) fn check_variables(variables: &[(String, String)]) -> Result<(), RpcError> {
    match variables.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
        Some((name, _)) => Err(bad(format!("no variable can be called `{}`", name.escape_debug()))),
        None => Ok(()),
    }
}

pub(crate) fn list(_: &MayWait, call: &Call, params: SessionListParams) -> Result<SessionList, RpcError> {
    let all = call.engine().sessions().list();
    let infos = all.iter().map(|session| shown_session(call, session));
    Ok(SessionList { sessions: infos.filter(|info| params.all || info.status != SessionStatus::Closed).collect() })
}

/// How many there are of each status.
pub(crate) fn count(call: &Call) -> [(SessionStatus, u64); 6] {
    use SessionStatus::{Closed, Failed, Idle, Interrupted, Running, Waiting};
    let mut counts = [Idle, Running, Waiting, Interrupted, Failed, Closed].map(|status| (status, 0));
    for session in call.engine().sessions().list() {
        let status: SessionStatus = session.view().status.translated();
        for (_, count) in counts.iter_mut().filter(|(known, _)| *known == status) {
            *count += 1;
        }
    }
    counts
}

pub(crate) fn get(_: &MayWait, call: &Call, params: SessionIdParams) -> Result<SessionInfo, RpcError> {
    Ok(shown_session(call, &find(call, &params.id)?))
}

pub(crate) fn prompt(wait: &MayWait, call: &Call, params: PromptParams) -> Result<PromptAccepted, RpcError> {
    let session = own(call, &params.id)?;
    let mut blocks: Vec<Block> = params.blocks.into_iter().map(block).collect();
    blocks.extend(params.text.map(|text| Block::Text { text }));
    let queue = if params.refuse_if_busy { Queue::Refuse } else { Queue::Wait };
    let key = params.key.map(|key| format!("{DOOR}:{key}"));
    let accepted = session.prompt(wait, Prompt { blocks, key, door: DOOR.to_owned(), queue, env: None });
    let id = session.id();
    let accepted = accepted.map_err(|error| not_taken(call, &session, error))?;
    Ok(PromptAccepted {
        session: id.to_owned(),
        number: accepted.number,
        position: accepted.position as u64,
        record: accepted.record,
        again: accepted.again,
    })
}

/// A prompt that waits says something else, or is taken back.
pub(crate) fn edit(wait: &MayWait, call: &Call, params: SessionEditParams) -> Result<SessionEdited, RpcError> {
    let session = own(call, &params.id)?;
    let waited = match params.text {
        Some(text) => session.reword(wait, params.number, text),
        None => session.take_back(wait, params.number, "taken back").map_err(PromptError::Io),
    };
    let waited = waited.map_err(|error| not_taken(call, &session, error))?;
    Ok(SessionEdited { waited })
}

/// Why a session does not take a prompt.
fn not_taken(call: &Call, session: &Session, error: PromptError) -> RpcError {
    let name = of_session(session);
    match error {
        PromptError::Closed => RpcError::new(ErrorKind::Refused, format!("{name} is closed"))
            .hint(format!("continue it: ostler resume {name}; read it: ostler watch {name}")),
        PromptError::Busy => RpcError::new(ErrorKind::Refused, format!("{name} is answering another prompt")),
        PromptError::OnScreen => {
            let screen = session.screen().map_or(String::new(), |process| of_process(&process));
            RpcError::new(ErrorKind::Refused, format!("the conversation of {name} is open on the agent's own screen"))
                .hint(format!("go on there with `ostler attach {screen}`, or leave the agent there and send it then"))
        }
        PromptError::QueueFull(count) => {
            RpcError::new(ErrorKind::Refused, format!("{count} prompts are already queued in {name}"))
                .hint(format!("wait, or drop them: ostler interrupt {name} --clear-queue"))
        }
        PromptError::Empty | PromptError::TooLong(_) => bad(error.to_string()),
        PromptError::Io(source) => disk(call.engine(), "the prompt was not sent", &source),
    }
}

/// What a restart of the machine stopped goes on.
pub(crate) fn go_on(wait: &MayWait, call: &Call, params: SessionIdKeyParams) -> Result<Continued, RpcError> {
    let session = own(call, &params.id)?;
    if !first(wait, call, "continue", session.id(), params.key.as_deref()) {
        return Ok(Continued { held: 0, told: None });
    }
    match session.go_on(wait, DOOR).map_err(|error| not_taken(call, &session, error))? {
        GoneOn::Held(held) => Ok(Continued { held: held as u64, told: None }),
        GoneOn::Told(told) => Ok(Continued { held: 0, told: Some(told.to_owned()) }),
        GoneOn::NotStopped => {
            let name = of_session(&session);
            Err(RpcError::new(ErrorKind::Refused, format!("{name} was not stopped by a restart of the machine"))
                .hint(format!("send a prompt: ostler send {name} '...'")))
        }
    }
}

fn block(block: PromptBlock) -> Block {
    match block {
        PromptBlock::Text { text } => Block::Text { text },
        PromptBlock::Image { mime, data } => Block::Image { mime, data },
        PromptBlock::File { path } => Block::File { path },
    }
}

pub(crate) fn interrupt(wait: &MayWait, call: &Call, params: InterruptParams) -> Result<Interrupted, RpcError> {
    let session = own(call, &params.id)?;
    if !first(wait, call, "interrupt", session.id(), params.key.as_deref()) {
        return Ok(Interrupted { interrupted: false, dropped: 0 });
    }
    let how = Interrupt { clear_queue: params.clear_queue, end_process: params.end_process };
    let stopped = session.interrupt(wait, how).map_err(|error| disk(call.engine(), "not interrupted", &error))?;
    Ok(Interrupted { interrupted: stopped.turn || stopped.dropped > 0, dropped: stopped.dropped as u64 })
}

/// Opens the agent's own screen.
pub(crate) fn screen(wait: &MayWait, call: &Call, params: ScreenParams) -> Result<ProcessInfo, RpcError> {
    let session = find(call, &params.id)?;
    check_variables(&params.env)?;
    if params.size.rows == 0 || params.size.cols == 0 {
        return Err(bad("a terminal needs at least one row and one column"));
    }
    let new = NewScreen {
        size: WinSize { rows: params.size.rows, cols: params.size.cols },
        env: params.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        interrupt: params.interrupt,
    };
    let (name, by) = (of_session(&session), call.caller());
    session.open_screen(wait, new, by).map(|process| info::describe(&process)).map_err(|error| match error {
        ScreenError::Closed => RpcError::new(ErrorKind::Refused, format!("{name} is closed")),
        ScreenError::NoScreen(_) => RpcError::new(ErrorKind::Refused, error.to_string())
            .hint(format!("talk to it with `ostler attach {name}` or `ostler send {name} '...'`")),
        ScreenError::NothingSaid => {
            RpcError::new(ErrorKind::Refused, error.to_string()).hint(format!("begin with `ostler send {name} '...'`"))
        }
        ScreenError::Busy => {
            RpcError::new(ErrorKind::Refused, error.to_string()).hint("wait for its end, or stop it with --interrupt")
        }
        ScreenError::Hosted(_) | ScreenError::Unknown => {
            RpcError::new(ErrorKind::Refused, error.to_string()).hint("open it from a terminal of your own")
        }
        ScreenError::Unsupported(_) => bad(error.to_string()),
        ScreenError::Io(source) | ScreenError::Spawn(SpawnError::Journal(source)) => {
            disk(call.engine(), "not opened", &source)
        }
        ScreenError::Opening | ScreenError::Stays | ScreenError::Spawn(_) => {
            RpcError::new(ErrorKind::Failed, error.to_string())
        }
    })
}

/// Changes what holds from the next prompt on.
pub(crate) fn change(wait: &MayWait, call: &Call, params: SessionChangeParams) -> Result<SessionInfo, RpcError> {
    let session = own(call, &params.id)?;
    if params.autonomy.is_some() || params.raw_mode.is_some() {
        call.needs(Right::LoosenAutonomy)?;
    }
    // An empty text goes back to what the agent does by itself.
    let text = |text: Option<String>| text.map(|text| Some(text).filter(|text| !text.is_empty()));
    check_name(params.name.as_deref().filter(|name| !name.is_empty()))?;
    let key = params.key.map(|key| format!("session change {} {key}", session.id()));
    if !key.as_deref().is_some_and(|key| call.engine().has_seen(wait, key)) {
        let change = Change {
            autonomy: params.autonomy,
            raw_mode: text(params.raw_mode),
            model: text(params.model),
            name: text(params.name),
            ..Change::default()
        };
        let by = || call.caller();
        session.change(wait, change, by).map_err(|error| match error {
            ChangeError::Unsupported(_) => bad(error.to_string()),
            ChangeError::NameTaken(taken) => crate::process::name_taken(&taken),
            ChangeError::Hosted(_) | ChangeError::Unknown => {
                RpcError::new(ErrorKind::Refused, error.to_string()).hint("change it from a terminal of your own")
            }
            ChangeError::Closed => RpcError::new(ErrorKind::Refused, format!("{} is closed", of_session(&session))),
            ChangeError::Io(source) => disk(call.engine(), "not changed", &source),
        })?;
        // Only what was done counts: a refusal is said as often as it is asked for.
        key.iter().for_each(|key| _ = call.engine().first_use(wait, key));
    }
    Ok(describe_session(session.view()))
}

/// Closes, waits for the process, and looks after the work tree.
pub(crate) async fn close(call: Arc<Call>, params: SessionIdKeyParams) -> Result<SessionClosed, RpcError> {
    let looking = Arc::clone(&call);
    let found = MayWait::pool(move |_| own(&looking, &params.id)).await;
    let session = found.map_err(|lost| RpcError::new(ErrorKind::Internal, lost.to_string()))??;
    let ended = session.end(GONE_WITHIN).await;
    let fate = ended.map_err(|error| disk(call.engine(), "not closed", &error))?;
    Ok(SessionClosed { session: describe_session(session.view()), worktree: fate.map(fate_of) })
}

fn fate_of(fate: TreeFate) -> WorktreeFate {
    WorktreeFate {
        path: fate.path.display().to_string(),
        branch: fate.branch,
        removed: fate.kept.is_none(),
        kept_because: fate.kept,
        branch_removed: fate.branch_removed,
    }
}

pub(crate) fn forget(wait: &MayWait, call: &Call, params: SessionIdKeyParams) -> Result<Empty, RpcError> {
    let key = params.key.map(|key| format!("session forget {} {key}", params.id));
    let session = match find(call, &params.id) {
        Err(_) if key.as_deref().is_some_and(|key| call.engine().has_seen(wait, key)) => return Ok(Empty {}),
        found => found?,
    };
    call.reaches(Target::Session(&session))?;
    if !call.engine().sessions().forget(wait, &session) {
        return Err(RpcError::new(ErrorKind::Refused, format!("{} is not closed", of_session(&session)))
            .hint(format!("close it first: ostler close {}", of_session(&session))));
    }
    if let Some(key) = &key {
        call.engine().first_use(wait, key);
    }
    Ok(Empty {})
}

/// Opening a journal that rests reads the disk: all of it happens beside the connection.
pub(crate) fn watch(client: &mut Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::SessionWatch>()?;
    client.last_watch += 1;
    let (tag, watches) = (Tag::Session(client.last_watch), client.watches.clone());
    let (call, head, watch) = (Arc::clone(&client.call), request.head.clone(), client.last_watch);
    out.spawn_blocking(move |wait| {
        let begun = own(&call, &params.id).and_then(|session| {
            let unread = |error| disk(call.engine(), &format!("{} cannot be read", of_session(&session)), &error);
            let from = match (params.from, params.prompts) {
                (None, Some(prompts)) => session.prompts_from(wait, prompts).map_err(unread)?,
                (from, _) => from.unwrap_or(1).max(1),
            };
            if !watches.enter(tag, session.id()) {
                let message = format!("this connection already watches {}", session.id());
                return Err(RpcError::new(ErrorKind::Refused, message)
                    .hint("end that watch with session.unwatch, or use a second connection"));
            }
            if params.pieces {
                watches.tell_in_pieces(tag);
            }
            let opened = session.bounds(wait).and_then(|bounds| Ok((bounds, session.events(wait, from - 1)?)));
            let (bounds, cursor) = opened.map_err(|error| {
                watches.leave(tag);
                unread(error)
            })?;
            if let Some(looking) = crate::notice::watches(wait, &call, session.id()) {
                watches.look(tag, looking);
            }
            let (session, id) = (describe_session(session.view()), session.id().to_owned());
            Ok((Watching { watch, session, from: from.max(bounds.first), last: bounds.last }, id, cursor))
        });
        match begun {
            Ok((watching, id, cursor)) => {
                let mut later = Later::reply(head.answer::<methods::SessionWatch>(&Ok(watching)));
                later.watch = Some(Watch::events(id, tag, cursor));
                later
            }
            Err(error) => Later::reply(head.refuse(&error)),
        }
    });
    Ok(())
}

pub(crate) fn unwatch(client: &mut Client, params: UnwatchParams, out: &mut Out) -> Result<Empty, RpcError> {
    let session = client.watches.leave(Tag::Session(params.watch)).ok_or_else(|| no_watch(params.watch))?;
    out.unwatch(&session);
    Ok(Empty {})
}

pub(crate) fn raw(wait: &MayWait, call: &Call, params: SessionRawParams) -> Result<SessionRaw, RpcError> {
    let session = own(call, &params.id)?;
    if params.source == 0 || params.to < params.from || params.to - params.from > RAW_MAX {
        return Err(bad("session.raw: one line of one process, from its start to its end"));
    }
    let data = session.raw(wait, params.source, params.from, params.to).map(|bytes| {
        let mut text = Vec::new();
        push_base64(&bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    Ok(SessionRaw { data })
}

/// Whether this request was not made before: the same key again changes nothing.
fn first(wait: &MayWait, call: &Call, verb: &str, id: &str, key: Option<&str>) -> bool {
    key.is_none_or(|key| call.engine().first_use(wait, &format!("session {verb} {id} {key}")))
}

pub(crate) fn describe_session(view: View) -> SessionInfo {
    SessionInfo {
        id: view.id,
        uuid: view.uuid,
        name: view.name,
        alias: view.alias.map(|alias| alias.id),
        agent: view.agent.name().to_owned(),
        workspace: view.workspace.display().to_string(),
        autonomy: view.autonomy,
        raw_mode: view.raw_mode,
        model: view.model,
        reported_model: view.reported_model,
        title: view.title,
        limits: view.limits.into_iter().map(limit_of).collect(),
        agent_session: view.agent_session,
        lifetime: view.lifetime,
        door: view.door,
        status: view.status.translated(),
        why: view.why,
        rebooted: view.rebooted,
        logged_out: view.logged_out,
        queued: view.queued as u64,
        turn: view.turn,
        created: Timestamp::from_millis(view.created_ms),
        activity: Timestamp::from_millis(view.activity_ms),
        process: view.process,
        last: view.last,
        worktree: view.worktree.as_ref().map(|path| path.display().to_string()),
        repository: view.repository.as_ref().map(|path| path.display().to_string()),
        approvals: view.approvals,
        usage: Some(usage_of(view.spent)),
        screen: view.screen,
        failed_setup: view.failed_setup,
    }
}

pub(crate) fn usage_of(spent: Spent) -> SessionUsage {
    let Spent { input_tokens, output_tokens, cached_tokens, cost_usd, context_used, context_size } = spent;
    SessionUsage { input_tokens, output_tokens, cached_tokens, cost_usd, context_used, context_size }
}

fn limit_of(limit: Limit) -> UsageLimit {
    let Limit { name, used_percent, resets, state } = limit;
    let resets = resets.map(Timestamp::from_secs);
    UsageLimit { name, used_percent, resets, state }
}
