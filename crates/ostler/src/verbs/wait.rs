//! `ostler wait`: comes back when processes have ended and sessions have answered, with an exit code that says how it went.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::{Exit, ProcessInfo, SessionEvent, SessionIdParams, SessionInfo, SessionStatus, methods};
use ostler_story::{Event, Fact, Said};
use serde_json::json;

use super::Context;
use super::attach::{INTERRUPTED, code};
use super::connect::{Named, Reached};
use super::stream::{Came, Follow, Followed, Format, Input, Link, Outcome, ProcessWatch, Sink, View, see_end};
use crate::output::{Called, CommandError, Kind, visible};

/// The keeper restarts a crashed daemon within seconds.
const COME_BACK_WITHIN: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);

/// Wait until processes end or sessions have answered
#[derive(Debug, Args)]
#[command(after_help = "\
Prints how each one ended. A session is done when it has answered all its prompts; while it waits for approval, so does this (see `ostler approvals`).

Exit code: that of the command (128 + signal); of a session 0, or 1 if its last turn failed or was interrupted. With several: that \
of the first, in the order given, that did not end with 0. Ctrl-C leaves them running (exit code 130).

Examples:
  ostler wait build && ostler run -- ./deploy
  ostler wait build test fix")]
pub(crate) struct Wait {
    /// Ids or names of processes or sessions
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// How one of them ended.
struct Ended {
    name: String,
    words: String,
    /// As a shell would have it.
    code: i32,
    json: serde_json::Value,
}

/// Waiting was given up, with this exit code.
type GivenUp = i32;

impl Wait {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        // A slip is told before anything is waited for. Their ids stay the same, whatever becomes of names and daemons.
        let id = |id: &String| context.find_named(id).map(|named| named.id().to_owned());
        let ids = self.ids.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let mut first = 0;
        for id in ids {
            let ended = match find_again(context, &id)? {
                Named::Process(reached, process) => wait_process(context, reached, &process)?,
                Named::Session(reached, session) => wait_session(context, reached, session)?,
            };
            let ended = match ended {
                Ok(ended) => ended,
                Err(given_up) => return Ok(code(given_up)),
            };
            ended.tell(context)?;
            if first == 0 {
                first = ended.code;
            }
        }
        Ok(code(first))
    }
}

/// Also from the next daemon, where one is on its way.
fn find_again(context: &Context, id: &str) -> Result<Named, CommandError> {
    let deadline = Instant::now() + COME_BACK_WITHIN;
    loop {
        match context.find_named(id) {
            Err(error) if error.kind != Kind::NotFound && Instant::now() < deadline => std::thread::sleep(RETRY),
            found => return found,
        }
    }
}

impl Ended {
    fn tell(&self, context: &Context) -> Result<(), CommandError> {
        if context.json() {
            context.screen.value(&self.json)?;
            return Ok(());
        }
        context.screen.line(&visible(&format!("{}: {}", self.name, self.words)))?;
        Ok(())
    }
}

fn wait_process(
    context: &Context,
    reached: Reached,
    process: &ProcessInfo,
) -> Result<Result<Ended, GivenUp>, CommandError> {
    let view = View {
        // Of the past only the last frame is of interest: it is the exit, or comes before it.
        tail: Some(0),
        ..View::default()
    };
    let link = Link::new(context, reached);
    let watch = ProcessWatch::new(link, process, view, Sink::new(Format::Nothing, false), Input::none())?;
    Ok(match watch.run()? {
        Outcome::Exited(exit) => {
            // Who waits is given the code all the same.
            let _ = context.find_process(&process.id).map(|(mut reached, _)| see_end(&mut reached.client, &process.id));
            Ok(ended(process, &exit))
        }
        // It never comes: the end was asked for.
        Outcome::UpToNow => return Err(CommandError::failed(format!("cannot wait for {}", process.called()))),
        Outcome::Left { .. } => Err(INTERRUPTED),
        Outcome::Ended { signal, .. } => Err(128 + signal),
    })
}

fn ended(process: &ProcessInfo, exit: &Exit) -> Ended {
    // How it ended is not known: not well, as far as anybody can tell.
    let code = exit.shell_code().unwrap_or(1);
    let json = json!({"id": process.id, "name": process.name, "exit": exit, "code": code});
    Ended { name: process.called(), words: exit_words(exit), code, json }
}

/// How a process ended, in words.
pub(super) fn exit_words(exit: &Exit) -> String {
    match exit.how() {
        ostler_story::Exit::Code(code) => format!("exited with code {code}"),
        ostler_story::Exit::Signal(signal) => format!("ended by {}", super::kill::signal_name(signal)),
        ostler_story::Exit::Unknown => "ended; exit code unknown".to_owned(),
    }
}

fn wait_session(
    context: &Context,
    mut reached: Reached,
    info: SessionInfo,
) -> Result<Result<Ended, GivenUp>, CommandError> {
    let id = info.id.clone();
    let mut info = info;
    while is_busy(&info) {
        let from = info.last + 1;
        let follow = Follow::new(Link::new(context, reached), &info, from)?;
        let followed = follow.run(|came| match came {
            // It may have answered while nobody was connected.
            Came::Begun(watching) => Ok((!is_busy(&watching.session)).then_some(())),
            Came::Record(record) => {
                Ok(record.events.iter().filter_map(SessionEvent::said).any(|said| may_end(&said)).then_some(()))
            }
            Came::Notice(text) => {
                context.screen.note(&format!("ostler: {text}"));
                Ok(None)
            }
            Came::Gap(_) | Came::Sent(_) | Came::AtRest => Ok(None),
        })?;
        match followed {
            Followed::Over(()) => {}
            Followed::Left { .. } => return Ok(Err(INTERRUPTED)),
            Followed::Ended { signal, .. } => return Ok(Err(128 + signal)),
        }
        (reached, info) = context.find_session(&id)?;
        settle(&mut reached, &mut info)?;
    }
    let failed = matches!(info.status, SessionStatus::Failed | SessionStatus::Interrupted);
    let why = info.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let words = match info.status {
        SessionStatus::Failed => format!("failed{why}"),
        SessionStatus::Interrupted => format!("interrupted{why}"),
        SessionStatus::Closed => "closed".to_owned(),
        _ => "done".to_owned(),
    };
    let code = i32::from(failed);
    let json = json!({"id": id, "name": info.name, "status": info.status, "why": info.why, "code": code});
    Ok(Ok(Ended { name: info.called(), words, code, json }))
}

fn is_busy(info: &SessionInfo) -> bool {
    info.queued > 0 || info.turn.is_some() || matches!(info.status, SessionStatus::Running | SessionStatus::Waiting)
}

/// After this a session may have nothing more to do.
fn may_end(said: &Said) -> bool {
    matches!(
        said,
        Said::Event(Event::TurnEnded { .. })
            | Said::Fact(Fact::Dropped { .. } | Fact::Closed {} | Fact::Exited { .. } | Fact::Interrupt { .. })
    )
}

/// What the journal says is known to everybody a moment later.
fn settle(reached: &mut Reached, info: &mut SessionInfo) -> Result<(), CommandError> {
    const MOMENT: Duration = Duration::from_millis(20);
    const TURNS: usize = 10;
    for _ in 0..TURNS {
        if !is_busy(info) {
            break;
        }
        std::thread::sleep(MOMENT);
        *info = reached.client.call::<methods::SessionGet>(&SessionIdParams { id: info.id.clone() })?;
    }
    Ok(())
}

impl Context {
    /// The process or session that is meant: the one that lives, if both are called that.
    pub(super) fn find_named(&self, id: &str) -> Result<Named, CommandError> {
        let (process, session) = self.find_both(id)?;
        match (process, session) {
            (Some((reached, process)), None) => Ok(Named::Process(reached, process)),
            (None, Some((reached, session))) => Ok(Named::Session(reached, session)),
            (Some((reached, process)), Some((elsewhere, session))) => {
                match (process.exit.is_none(), session.status != SessionStatus::Closed) {
                    (true, false) => Ok(Named::Process(reached, process)),
                    (false, true) => Ok(Named::Session(elsewhere, session)),
                    _ => Err(both(id, &process, &session)),
                }
            }
            (None, None) => Err(CommandError::new(Kind::NotFound, format!("no process or session `{id}`"))
                .hint("list them: ostler ps -a; ostler sessions --all")),
        }
    }
}

/// Nobody guesses between the two.
pub(super) fn both(id: &str, process: &ProcessInfo, session: &SessionInfo) -> CommandError {
    let state = if process.exit.is_some() { "ended" } else { "running" };
    let message = format!(
        "`{id}` is both process {} ({state}) and session {} ({})",
        process.id,
        session.id,
        session.status.as_str()
    );
    CommandError::usage(message).hint(format!("use the id: {} or {}", process.id, session.id))
}
