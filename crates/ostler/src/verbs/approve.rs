//! `ostler approve`: says yes to one request, after showing all of it, with one key on the person's own terminal.

use std::process::ExitCode;

use clap::Args;
use ostler_api::client::{Client, ClientError};
use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalKind, ApprovalState, DecideParams, Empty, ErrorKind, ShownParams, Verdict,
    methods,
};
use ostler_story::{Answers, words};

use super::Context;
use super::approvals::{Tty, follow, from_words, in_words, questions, told, with_instance};
use super::confirmed::confirmed;
use super::connect::Reached;
use super::recorded::recorded;
use super::session::InPlace;
use crate::output::{CommandError, Kind, Paint, Screen, visible};
use crate::request::{Row, full_text};

const HELP: &str = "\
Shows the whole request and asks you to press y; this needs a terminal. A command that runs as root gets your terminal \
until it ends, so that sudo can ask for your password; Ctrl-] leaves it running.

Examples:
  ostler approve                    the only one that is waiting
  ostler approve a7k2
  ostler approve fix                what session fix asks
  ostler approve a7k2 --session     do not ask again in this session
  ostler approve a7k2 --always      do not ask again for 30 days
  ostler approve a7k2 --answer colour=red --answer size=small";

/// Approve a request
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Approve {
    /// Id of the request, or the session that asks [default: the only one waiting]
    id: Option<String>,

    /// Do not ask again in this session
    #[arg(long)]
    session: bool,

    /// Do not ask again for 30 days (see `ostler rules`)
    #[arg(long, conflicts_with = "session")]
    always: bool,

    /// Answer a question; repeat for each one [default: you are asked]
    #[arg(long, value_name = "QUESTION=ANSWER", conflicts_with_all = ["session", "always"])]
    answer: Vec<String>,
}

impl Approve {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.meant_approval(self.id.as_deref(), "approve")?;
        if crate::exclusive::own_place().is_err() || is_locked(&mut reached.client)? {
            return Err(refusal(&mut reached.client, &info));
        }
        if info.kind == ApprovalKind::Question
            && self.answer.is_empty()
            && let Some(code) = answered_here(context, &mut reached, &info)?
        {
            return Ok(code);
        }
        let tty = Tty::deciding().map_err(|error| CommandError::new(Kind::Refused, format!("/dev/tty: {error}")))?;
        tty.alone(&reached.client)?;
        if info.state != ApprovalState::Pending {
            return Err(too_late(&info));
        }
        let answers = answers(&info, &self.answer)?;
        let verdict = match (self.session, self.always) {
            _ if answers.is_some() => Verdict::Answers,
            (true, _) => Verdict::Session,
            (_, true) => Verdict::Always,
            _ => Verdict::Once,
        };
        let shown = ShownParams { id: info.id.clone(), surface: "approve".into() };
        recorded::<methods::ApprovalShown>(&context.screen, &mut reached.client, &shown)?;
        if !is_yes(&context.screen, &tty, &mut reached, &info, verdict, answers.as_ref())? {
            return Err(CommandError::failed(format!("{} not approved; it is still waiting", info.id))
                .hint(format!("to deny it: ostler deny {}", info.id)));
        }
        let choice = DecideParams { answers, ..decision(&info, verdict) };
        let decided = recorded::<methods::ApprovalDecide>(&context.screen, &mut reached.client, &choice)?;
        let ended = follow(&mut reached.client, &tty, &decided)?;
        if context.json() {
            context.screen.value(&with_instance(&reached.found.name, &ended))?;
        } else {
            context.screen.line(&format!("{}: {}", ended.id, visible(&told(&ended))))?;
        }
        Ok(if ended.state == ApprovalState::Failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// A question that still waits is put to the person at this terminal; nothing where nobody can be asked.
fn answered_here(
    context: &Context,
    reached: &mut Reached,
    info: &ApprovalInfo,
) -> Result<Option<ExitCode>, CommandError> {
    let mut here = InPlace::new(context);
    if info.state != ApprovalState::Pending || !here.is_at_terminal() {
        return Ok(None);
    }
    let left = here.ask(&info.id)?.is_some();
    let now = reached.client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: info.id.clone() })?;
    if now.state == ApprovalState::Pending {
        let message = format!("{} not answered; it is still waiting", info.id);
        return if left { Err(CommandError::failed(message)) } else { Ok(Some(ExitCode::FAILURE)) };
    }
    context.screen.line(&format!("{}: {}", now.id, visible(&told(&now))))?;
    Ok(Some(ExitCode::SUCCESS))
}

/// What was given on the command line, for the questions that are asked.
fn answers(info: &ApprovalInfo, given: &[String]) -> Result<Option<Answers>, CommandError> {
    let asked = questions(&info.content);
    match (info.kind == ApprovalKind::Question, given.is_empty()) {
        (true, true) => {
            let example = asked.first().map_or("QUESTION".into(), |question| words::quoted(&question.id));
            Err(CommandError::usage(format!("{} is a question and needs an answer", info.id))
                .hint(format!("ostler approve {} --answer {example}=ANSWER, or: ostler approvals", info.id)))
        }
        (true, false) => from_words(&asked, given).map(Some),
        (false, true) => Ok(None),
        (false, false) => {
            Err(CommandError::usage(format!("{} is not a question", info.id))
                .hint(format!("ostler approve {}", info.id)))
        }
    }
}

pub(super) fn decision(info: &ApprovalInfo, verdict: Verdict) -> DecideParams {
    let (id, hash) = (info.id.clone(), info.hash.clone());
    DecideParams {
        id,
        hash,
        verdict,
        message: String::new(),
        interrupt: false,
        input: None,
        answers: None,
        relays: true,
        signed: None,
    }
}

/// Whether nobody can decide anything there.
fn is_locked(client: &mut Client) -> Result<bool, CommandError> {
    Ok(client.call::<methods::InstanceStatus>(&Empty {})?.locked)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried; the decision names no content, so
/// that it could not count even if the daemon saw it differently.
fn refusal(client: &mut Client, info: &ApprovalInfo) -> CommandError {
    let nothing = DecideParams { hash: String::new(), ..decision(info, Verdict::Once) };
    match client.call::<methods::ApprovalDecide>(&nothing) {
        Err(error) => error.into(),
        Ok(_) => CommandError::new(Kind::Refused, "approving needs a terminal"),
    }
}

pub(super) fn too_late(info: &ApprovalInfo) -> CommandError {
    let elsewhere = if info.decided_by.is_some() { "already answered: " } else { "" };
    CommandError::new(Kind::Refused, format!("{}: {elsewhere}{}", info.id, told(info)))
}

/// Shows everything, page by page, and takes the key.
fn is_yes(
    screen: &Screen,
    tty: &Tty,
    reached: &mut Reached,
    info: &ApprovalInfo,
    verdict: Verdict,
    answers: Option<&Answers>,
) -> Result<bool, CommandError> {
    let question = match verdict {
        Verdict::Session => "approve for this session? [y/N] ",
        Verdict::Always => "approve for 30 days? [y/N] ",
        Verdict::Answers => "send this answer? [y/N] ",
        _ => "approve? [y/N] ",
    };
    let mut rows = full_text(&reached.found.name, info);
    rows.push(Row::ours(Paint::Plain, ""));
    let answers = answers.map(|answers| in_words(&questions(&info.content), answers)).unwrap_or_default();
    rows.extend(answers.into_iter().map(|line| Row::ours(Paint::Plain, line)));
    confirmed(screen, tty, &rows, question, || still_waits(&mut reached.client, info))
}

/// Whether nobody else has decided; who did is the error.
pub(super) fn still_waits(client: &mut Client, info: &ApprovalInfo) -> Result<bool, CommandError> {
    match client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: info.id.clone() }) {
        Ok(now) if now.state != ApprovalState::Pending => Err(too_late(&now)),
        Ok(_) => Ok(true),
        Err(ClientError::Rpc(error)) if error.kind() != ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error.into()),
    }
}
