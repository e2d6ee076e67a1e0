//! `ostler approve`: says yes to one request, after showing all of it, with one key on the person's own terminal.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::client::Client;
use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalKind, ApprovalState, DecideParams, ErrorKind, ShownParams, Verdict, methods,
};
use ostler_story::Answers;

use super::Context;
use super::approvals::{Tty, follow, from_words, in_words, questions, told, with_instance};
use super::connect::Reached;
use crate::output::{CommandError, Kind, Paint, Screen, visible};
use crate::request::{Asked, Pages, Pressed, Row, full_text};

/// How often to look whether somebody else has decided meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);

const HELP: &str = "\
Shows the whole request and asks you to press y; this needs a terminal. A command that runs as root gets your terminal \
until it ends, so that sudo can ask for your password; Ctrl-] leaves it running.

Examples:
  ostler approve                    the only one that is waiting
  ostler approve a7k2
  ostler approve a7k2 --session     do not ask again in this session
  ostler approve a7k2 --always      do not ask again for 30 days
  ostler approve a7k2 --answer colour=red --answer size=small";

/// Approve a request
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Approve {
    /// Id of the request [default: the only one waiting]
    id: Option<String>,

    /// Do not ask again in this session
    #[arg(long)]
    session: bool,

    /// Do not ask again for 30 days (see `ostler rules`)
    #[arg(long, conflicts_with = "session")]
    always: bool,

    /// Answer a question; repeat for each one
    #[arg(long, value_name = "QUESTION=ANSWER", conflicts_with_all = ["session", "always"])]
    answer: Vec<String>,
}

impl Approve {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.meant_approval(self.id.as_deref(), "approve")?;
        if ostler_engine::access::own_place().is_err() {
            return Err(refusal(&mut reached.client, &info));
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
        reached.client.call::<methods::ApprovalShown>(&shown)?;
        if !is_yes(&context.screen, &tty, &mut reached, &info, verdict, answers.as_ref())? {
            return Err(CommandError::failed(format!("{} not approved; it is still waiting", info.id))
                .hint(format!("to deny it: ostler deny {}", info.id)));
        }
        let decided =
            reached.client.call::<methods::ApprovalDecide>(&DecideParams { answers, ..decision(&info, verdict) })?;
        let ended = follow(&mut reached.client, &tty, &decided)?;
        if context.json() {
            context.screen.value(&with_instance(&reached.found.name, &ended))?;
        } else {
            context.screen.line(&format!("{}: {}", ended.id, visible(&told(&ended))))?;
        }
        Ok(if ended.state == ApprovalState::Failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// What was given on the command line, for the questions that are asked.
fn answers(info: &ApprovalInfo, words: &[String]) -> Result<Option<Answers>, CommandError> {
    let asked = questions(&info.content);
    match (info.kind == ApprovalKind::Question, words.is_empty()) {
        (true, true) => {
            let example = asked.first().map_or("QUESTION", |question| question.id.as_str());
            Err(CommandError::usage(format!("{} is a question and needs an answer", info.id))
                .hint(visible(&format!("ostler approve {} --answer '{example}=…', or: ostler approvals", info.id))))
        }
        (true, false) => from_words(&asked, words).map(Some),
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
    rows.extend(answers.iter().map(|line| Row::new(Paint::Plain, line)));
    let pages = || {
        Pages::of(&rows, question, tty.size())
            .ok_or_else(|| CommandError::failed("the terminal is too small to show the request"))
    };
    let raw = tty.raw()?;
    let mut asked = Asked::new(&info.id, &info.hash, pages()?, true, Instant::now());
    put(screen, tty, &mut asked)?;
    let yes = loop {
        let key = key(tty, &mut reached.client, info)?;
        if tty.size() != asked.size() {
            asked.lay_out(pages()?);
            tty.write(b"\r\n")?;
            put(screen, tty, &mut asked)?;
            continue;
        }
        match asked.press(key, Instant::now()) {
            Pressed::Turned => put(screen, tty, &mut asked)?,
            Pressed::NotNow(_) => {}
            Pressed::Answer(key) => break key == b'y',
        }
    };
    tty.write(b"\r\n")?;
    drop(raw);
    Ok(yes)
}

/// Shows a page. What was typed before it was there was not meant for it.
pub(super) fn put(screen: &Screen, tty: &Tty, asked: &mut Asked) -> Result<(), CommandError> {
    let (body, foot) = asked.page(|paint, text| screen.paint(paint, text));
    tty.write(body.as_bytes())?;
    tty.forget_typed()?;
    tty.write(foot.as_bytes())?;
    asked.drawn(Instant::now());
    Ok(())
}

/// The next key. Ends early when somebody else decides.
pub(super) fn key(tty: &Tty, client: &mut Client, info: &ApprovalInfo) -> Result<u8, CommandError> {
    loop {
        if tty.typed(LOOK_EVERY)? {
            let mut buffer = [0; 64];
            return match tty.read(&mut buffer)? {
                [key] => Ok(*key),
                [] => Err(CommandError::failed("the terminal was closed")),
                // A sequence or a paste: nobody's single key.
                _ => Ok(0),
            };
        }
        let now = client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: info.id.clone() });
        match now {
            Ok(now) if now.state != ApprovalState::Pending => return Err(too_late(&now)),
            Ok(_) => {}
            Err(ostler_api::client::ClientError::Rpc(error)) if error.kind() != ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
}
