//! From a checked request to what is said about it: found, asked, decided, carried out. Nothing here decides; the engine's
//! inbox does, and what it has not recorded does not run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use ostler_engine::approval::{Ask, AskError, AskKind, Asker, Bound, CommandContent, StageContent, State, Ticket};
use ostler_engine::{CommandSetup, MayWait, Process};
use ostler_stages::{Captured, FailKind, Outcome, Report};
use tokio::net::UnixStream;

use crate::answer::{Output, Ran};
use crate::excerpt::Excerpt;
use crate::login::Login;
use crate::plan::{self, Stage};
use crate::surface::{End, Question};
use crate::warm::Warm;
use crate::{DoorState, Open, Peer, Request, Settings, Writable, arrive, words};

/// Below the ten minutes that clients wait, so that they hear the answer.
const AFTER_ASKED: Duration = Duration::from_secs(590);

/// What the client is told.
pub(crate) enum Reply {
    /// It is gone: nothing.
    Nothing,
    Denied,
    Expired,
    Error(String),
    Ran(Ran, Bytes),
}

/// Where the output of a command comes from.
pub(crate) enum Bytes {
    /// The report of its runner.
    Report(Process),
    /// Our own words: nothing ran.
    Written(String),
}

/// The words for a request that came before.
pub(crate) fn duplicate(id: &str) -> String {
    format!("duplicate request id: {id}")
}

/// Asks, waits and carries out.
pub(crate) async fn decided(
    shared: &Arc<DoorState>,
    request: Request,
    peer: &Peer,
    stream: &UnixStream,
    open: &mut Open,
) -> Reply {
    let stages = {
        let (request, asker, shared) = (request.clone(), peer.uid, Arc::clone(shared));
        let look = move |wait: &MayWait| {
            shared.login.get_or_init(|| Login::look_up(wait, &shared.engine.forker()));
            plan::resolve(&request, asker)
        };
        match MayWait::pool(look).await {
            Ok(stages) => stages,
            Err(lost) => return Reply::Error(lost.to_string()),
        }
    };
    let ask = ask(&request, &stages, peer, &shared.settings);
    if let Some(why) = changeable(shared, &request, &stages, peer) {
        shared.turned_away(&ask, &why).await;
        return Reply::Error(why);
    }
    shared.surface.received(&request);
    let ticket = match shared.engine.inbox().ask(ask).await {
        Ok(ticket) => ticket,
        Err(AskError::Duplicate(_)) => return Reply::Error(duplicate(&request.id)),
        Err(error) => return Reply::Error(error.to_string()),
    };
    let approval = ticket.id().to_owned();
    let ticket = Arc::new(ticket);
    let warm = Warm::begin(shared, &ticket);
    let said = match pending(shared, &ticket, request, &stages, peer, stream, open).await {
        Ok(()) => carry_out(shared, &ticket, &stages, warm, open).await,
        Err(said) => {
            warm.discard(shared);
            said
        }
    };
    let said = match said {
        Some(said) => said,
        // The door is closed: the client may come back to the next one.
        None => {
            let _ = MayWait::pool(move |wait| ticket.leave(wait)).await;
            Reply::Nothing
        }
    };
    let end = ended(shared, &said).await;
    shared.surface.over(&approval, end);
    said
}

/// Waits for a yes; anything else is what is said, or nothing when the door was closed.
async fn pending(
    shared: &Arc<DoorState>,
    ticket: &Ticket,
    request: Request,
    stages: &[Stage],
    peer: &Peer,
    stream: &UnixStream,
    open: &mut Open,
) -> Result<(), Option<Reply>> {
    let lost = || Err(Some(Reply::Error("the request is lost".into())));
    let Some(asked) = ticket.approval() else { return lost() };
    let asking = asked.state.is_pending().then(|| {
        let (approval, hash) = (asked.id, asked.hash);
        let question = Question { approval, hash, request, stages: stages.to_vec(), peer: peer.clone() };
        shared.surface.ask(Arc::new(question))
    });
    let nobody = async {
        match asking {
            Some(asking) => match asking.await {
                Err(why) => why,
                Ok(()) => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    };
    let state = tokio::select! {
        biased;
        () = arrive::gone(stream) => return Err(Some(Reply::Nothing)),
        state = ticket.settled() => state,
        why = nobody => return Err(Some(Reply::Error(why))),
        () = open.closed() => return Err(None),
    };
    Err(Some(match state {
        State::Accepted { .. } | State::Applied { .. } => return Ok(()),
        State::Denied { .. } => Reply::Denied,
        State::Expired => Reply::Expired,
        State::Failed { why } => Reply::Error(why),
        State::Withdrawn { why } => Reply::Error(format!("withdrawn: {why}")),
        State::Unknown | State::Pending { .. } => {
            Reply::Error("the machine was restarted in between; nobody knows whether the command ran".into())
        }
    }))
}

pub(crate) fn setup(shared: &DoorState, ticket: &Ticket) -> CommandSetup {
    CommandSetup {
        limit: shared.settings.limit,
        base_env: base_env(shared, ticket),
        ssh_agent: shared.settings.ssh_agent.clone(),
        has_terminal: shared.surface.has_terminal(ticket.id()),
        endpoint: shared.settings.endpoint.clone(),
    }
}

/// Nothing when the door was closed before it ended.
async fn carry_out(
    shared: &Arc<DoorState>,
    ticket: &Ticket,
    stages: &[Stage],
    warm: Warm,
    open: &mut Open,
) -> Option<Reply> {
    let applied = shared.engine.apply_command(ticket, setup(shared, ticket), warm.ready().await).await;
    let running = match applied {
        Ok(running) => running,
        Err(error) => return Some(Reply::Error(error.to_string())),
    };
    shared.surface.running(ticket.id(), running.terminal);
    let process = running.process;
    tokio::select! {
        _ = process.wait_exit() => {}
        () = open.closed() => return None,
    }
    let read = {
        let process = process.clone();
        MayWait::pool(move |wait| Report::read(process.stdout(wait))).await
    };
    let report = read.unwrap_or_else(|lost| Err(io::Error::other(lost)));
    Some(match report {
        Ok(Report { outcome: Some(outcome) }) => told(outcome, stages, is_privileged(ticket), process),
        Ok(Report { outcome: None }) => Reply::Error("the command was ended from outside".into()),
        Err(error) => Reply::Error(format!("the report cannot be read: {error}")),
    })
}

fn is_privileged(ticket: &Ticket) -> bool {
    ticket.approval().is_none_or(|approval| approval.ask.privileged)
}

/// What commands get beside what was asked for. Root's own surroundings are sudo's to make.
fn base_env(shared: &DoorState, ticket: &Ticket) -> BTreeMap<String, String> {
    match is_privileged(ticket) {
        true => BTreeMap::new(),
        // It was looked up before anything was asked.
        false => shared.login.get_or_init(Login::of_environment).variables().into_iter().collect(),
    }
}

/// An outcome in the words of the protocol.
fn told(outcome: Outcome, stages: &[Stage], privileged: bool, process: Process) -> Reply {
    match outcome {
        Outcome::Done { exit_codes, stdout, stderr } => {
            let flags = stderr.iter().map(|Captured { truncated, .. }| *truncated);
            let ran = Ran { stages: exit_codes.into_iter().zip(flags).collect(), stdout_truncated: stdout.truncated };
            Reply::Ran(ran, Bytes::Report(process))
        }
        Outcome::TimedOut { secs, .. } => {
            let what = if stages.len() == 1 { "command" } else { "pipeline" };
            Reply::Error(format!("{what} timed out after {secs}s"))
        }
        Outcome::Failed { stage, kind, message } => match (plan::trouble(stages), stages) {
            // What sudo says, without sudo: it is never given a name that could be an option or an assignment.
            (Some(_), [only]) if privileged => {
                let name = only.argv.first().map(String::as_str).unwrap_or_default();
                let words = format!("sudo: {name}: command not found\n");
                Reply::Ran(Ran { stages: vec![(1, false)], stdout_truncated: false }, Bytes::Written(words))
            }
            (Some(trouble), _) => Reply::Error(trouble),
            (None, _) => match (stage, kind) {
                (Some(stage), FailKind::NotFound | FailKind::NotExecutable | FailKind::Changed) => {
                    Reply::Error(plan::failed(stage, stages.len(), &message))
                }
                _ => Reply::Error(message),
            },
        },
    }
}

/// Why this may not even be asked: whoever asks could put another file in the place of the one that is shown.
fn changeable(shared: &DoorState, request: &Request, stages: &[Stage], peer: &Peer) -> Option<String> {
    if !request.privileged || shared.settings.writable == Writable::Warn {
        return None;
    }
    let (file, place) = stages.iter().find_map(|stage| {
        let file = stage.file.as_ref().ok()?;
        let code = stage.behind.code.first().map(|code| (&code.file, &code.place));
        file.writable.as_ref().map(|place| (&file.path, place)).or(code)
    })?;
    Some(format!(
        "refused: {} could be replaced by the one who asks (uid {} can write {}); a privileged command, its interpreter and its script must be files that only root can change",
        file.display(),
        peer.uid,
        place.display()
    ))
}

fn ask(request: &Request, stages: &[Stage], peer: &Peer, settings: &Settings) -> Ask {
    let content = CommandContent {
        stages: stages.iter().map(stage_content).collect(),
        env: request.env.clone(),
        privileged: request.privileged,
        forward_agent: request.forward_agent,
    };
    Ask {
        kind: AskKind::Command,
        content: content.canonical(),
        title: words::pipeline(&request.pipeline),
        privileged: request.privileged,
        asker: Asker {
            door: "sudo-proxy".into(),
            uid: peer.uid,
            pid: peer.pid,
            claimed_session: request.session.clone(),
            claimed_host: request.host.clone(),
            client: request.version.clone(),
            verified_session: peer.hosted.clone(),
        },
        reason: request.reason.clone(),
        after_shown: Some(settings.wait),
        after_asked: Some(AFTER_ASKED),
        bound: Bound::Connection,
        key: Some(request.id.clone()),
        workspace: peer.workspace.clone(),
        tires: settings.tires,
    }
}

/// A command that was not found is asked about all the same, under its bare name, which no runner executes.
fn stage_content(stage: &Stage) -> StageContent {
    let bare = || stage.argv.first().map(Into::into).unwrap_or_default();
    let (program, seal) = match &stage.file {
        Ok(file) => (file.path.clone(), file.seal),
        Err(_) => (bare(), None),
    };
    StageContent { argv: stage.argv.clone(), program, seal }
}

/// What the program around the door shows of it.
async fn ended(shared: &DoorState, said: &Reply) -> End {
    match said {
        Reply::Nothing => End::Withdrawn,
        Reply::Denied => End::Denied,
        Reply::Expired => End::Expired,
        Reply::Error(why) => End::Failed(why.clone()),
        Reply::Ran(ran, bytes) => {
            let codes: Vec<i32> = ran.stages.iter().map(|(code, _)| *code).collect();
            if !shared.surface.shows_output() {
                return End::Ran { codes, stdout: Excerpt::default(), stderr: Vec::new() };
            }
            let (bytes, count) = (bytes.again(), codes.len());
            let excerpts = MayWait::pool(move |wait| bytes.read(wait).excerpts(count)).await;
            let (stdout, stderr) = excerpts.unwrap_or_default();
            End::Ran { codes, stdout, stderr }
        }
    }
}

impl Bytes {
    fn again(&self) -> Self {
        match self {
            Self::Report(process) => Self::Report(process.clone()),
            Self::Written(words) => Self::Written(words.clone()),
        }
    }

    /// The streams, on a thread that may wait for them.
    pub(crate) fn read<'a>(&'a self, wait: &'a MayWait) -> Reading<'a> {
        Reading { wait, bytes: self }
    }
}

/// Streams that are being read.
pub(crate) struct Reading<'a> {
    wait: &'a MayWait,
    bytes: &'a Bytes,
}

impl Reading<'_> {
    /// The first lines of every stream; none of one that cannot be read, which the answer says too.
    fn excerpts(&mut self, stages: usize) -> (Excerpt, Vec<Excerpt>) {
        let mut stdout = Excerpt::default();
        let _ = self.stdout(&mut stdout);
        let mut errors = Vec::with_capacity(stages);
        for stage in 0..stages {
            let mut stderr = Excerpt::default();
            let _ = self.stderr(stage, &mut stderr);
            errors.push(stderr);
        }
        (stdout, errors)
    }
}

impl Output for Reading<'_> {
    fn stderr(&mut self, stage: usize, mut to: &mut dyn Write) -> io::Result<()> {
        match self.bytes {
            Bytes::Report(process) => ostler_stages::copy_stderr(process.stdout(self.wait), stage, &mut to).map(drop),
            Bytes::Written(words) => to.write_all(words.as_bytes()),
        }
    }

    fn stdout(&mut self, mut to: &mut dyn Write) -> io::Result<()> {
        match self.bytes {
            Bytes::Report(process) => ostler_stages::copy_stdout(process.stdout(self.wait), &mut to).map(drop),
            Bytes::Written(_) => Ok(()),
        }
    }
}
