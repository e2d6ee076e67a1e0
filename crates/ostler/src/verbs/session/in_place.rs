//! A request of a session's agent, answered where the session is followed. It is shown as it is everywhere else, and only a
//! person's own terminal answers it; whoever sits elsewhere follows without being asked.

use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use ostler_api::client::Client;
use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalKind, ApprovalState, DecideParams, ShownParams, Verdict, methods,
};

use crate::output::{CommandError, Paint, visible};
use crate::request::{self, Asked, Pages, Pressed, Row, full_text, wrap};
use crate::verbs::Context;
use crate::verbs::approvals::{Tty, follow, from_words, questions, told};
use crate::verbs::approve::{decision, still_waits};
use crate::verbs::confirmed::{key, put};
use crate::verbs::connect::Reached;
use crate::verbs::recorded::recorded;
use crate::verbs::stream::stop;

/// Short enough for one line of a usual terminal.
const QUESTION: &str = "y yes, s yes this session, n no, m no and why, i no and interrupt, q later? ";
const ANSWER: &str = "1-9 answer, t type an answer, n no, i no and interrupt, q later? ";
/// Several questions, or several answers to one: they are gone through one by one.
const ANSWERS: &str = "t answer, n no, i no and interrupt, q later? ";
/// A key that means nothing here.
const BELL: &[u8] = b"\x07";
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_BRACKET: u8 = 0x1d;

/// Why following ends at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verbs) enum Gone {
    /// The person left, by a key.
    Left,
    /// The terminal is gone, or a signal asked for the end; its number.
    Signal(i32),
}

/// Where requests are put to the person who follows.
pub(in crate::verbs) struct InPlace<'a> {
    context: &'a Context,
    tty: Option<Tty>,
    /// Asked, and the daemon went away before the answer.
    open: Vec<String>,
    /// The transcript beside it tells what became of a request.
    transcript: bool,
}

/// What was decided; nothing is for later.
type Choice = Option<DecideParams>;

impl<'a> InPlace<'a> {
    /// Asks only at a person's own place.
    pub(in crate::verbs) fn new(context: &'a Context) -> Self {
        let here = !context.json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let own = here && crate::exclusive::own_place().is_ok();
        Self { context, tty: own.then(|| Tty::deciding().ok()).flatten(), open: Vec::new(), transcript: false }
    }

    /// For who follows the session: its answers are told there.
    pub(in crate::verbs) fn beside_a_transcript(self) -> Self {
        Self { transcript: true, ..self }
    }

    /// Whether there is somebody to ask.
    pub(in crate::verbs) fn is_at_terminal(&self) -> bool {
        self.tty.is_some()
    }

    /// After the connection was lost: what could not be answered is asked again.
    pub(in crate::verbs) fn again(&mut self) -> Result<Option<Gone>, CommandError> {
        for id in std::mem::take(&mut self.open) {
            if let Some(gone) = self.ask(&id)? {
                return Ok(Some(gone));
            }
        }
        Ok(None)
    }

    /// Puts a request to the person, if it still waits.
    pub(in crate::verbs) fn ask(&mut self, id: &str) -> Result<Option<Gone>, CommandError> {
        let Some(tty) = &self.tty else { return Ok(None) };
        let Ok((mut reached, info)) = self.context.find_approval(id) else {
            self.open.push(id.to_owned());
            return Ok(None);
        };
        if info.state != ApprovalState::Pending {
            return Ok(None);
        }
        if let Err(error) = tty.alone(&reached.client) {
            self.context.screen.note(&format!("ostler: {id} is waiting; {}", error.message));
            return Ok(None);
        }
        let put = self.put(tty, &mut reached, &info);
        match put {
            Ok(Ok(Some(choice))) => {
                let decided = recorded::<methods::ApprovalDecide>(&self.context.screen, &mut reached.client, &choice);
                match decided.map_err(CommandError::from).and_then(|done| follow(&mut reached.client, tty, &done)) {
                    Ok(_) => {}
                    // Somebody else was first, or the daemon says why not.
                    Err(error) => self.context.screen.note(&format!("ostler: {}", error.message)),
                }
                Ok(None)
            }
            Ok(Ok(None)) => {
                self.context.screen.note(&format!("ostler: {id} is waiting; answer it: ostler approve {id}"));
                Ok(None)
            }
            Ok(Err(gone)) => Ok(Some(gone)),
            Err(error) => self.trouble(id, &mut reached.client, &error),
        }
    }

    /// A question that could not be finished: decided elsewhere, hung up, or without a daemon.
    fn trouble(&mut self, id: &str, client: &mut Client, error: &CommandError) -> Result<Option<Gone>, CommandError> {
        if let Some(code) = Tty::ended() {
            return Ok(Some(Gone::Signal(i32::from(code) - 128)));
        }
        if crate::verbs::stream::hung_up() {
            return Ok(Some(Gone::Signal(signal_hook::consts::SIGHUP)));
        }
        match client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: id.to_owned() }) {
            Ok(now) if self.transcript && now.decided_by.is_some() => self.context.screen.note(""),
            Ok(now) if now.state != ApprovalState::Pending => {
                self.context.screen.note(&format!("\nostler: {id}: {}", visible(&told(&now))));
            }
            Ok(_) => self.context.screen.note(&format!("\nostler: {}", error.message)),
            Err(_) => self.open.push(id.to_owned()),
        }
        Ok(None)
    }

    /// Shows all of it and takes a key.
    fn put(&self, tty: &Tty, reached: &mut Reached, info: &ApprovalInfo) -> Result<Result<Choice, Gone>, CommandError> {
        let shown = ShownParams { id: info.id.clone(), surface: "session".into() };
        recorded::<methods::ApprovalShown>(&self.context.screen, &mut reached.client, &shown)?;
        let is_question = info.kind == ApprovalKind::Question;
        let choices = at_once(info);
        let mut rows = full_text(&reached.found.name, info);
        rows.push(Row::ours(Paint::Plain, ""));
        let words = match (is_question, choices) {
            (false, _) => QUESTION,
            (true, 0) => ANSWERS,
            (true, _) => ANSWER,
        };
        let pages = || {
            Pages::of(&rows, words, tty.size())
                .ok_or_else(|| CommandError::failed("the terminal is too small to show the request"))
        };
        let raw = tty.raw()?;
        let mut asked = Asked::new(&info.id, &info.hash, pages()?, true, Instant::now());
        put(&self.context.screen, tty, &mut asked)?;
        let pressed = loop {
            // Somebody else's decision is an error.
            let Some(key) = key(tty, || still_waits(&mut reached.client, info))? else { continue };
            if matches!(key, CTRL_C | CTRL_D | CTRL_BRACKET) {
                break key;
            }
            if tty.size() != asked.size() {
                asked.lay_out(pages()?);
                tty.write(b"\r\n")?;
                put(&self.context.screen, tty, &mut asked)?;
                continue;
            }
            if Tty::is_stop(&[key]) {
                tty.write(b"\r\n")?;
                tty.stop_by(|| {
                    stop();
                    Ok(())
                })?;
                // The shell may have drawn over it.
                asked.lay_out(pages()?);
                put(&self.context.screen, tty, &mut asked)?;
                continue;
            }
            match asked.press(key, Instant::now()) {
                Pressed::Turned => put(&self.context.screen, tty, &mut asked)?,
                Pressed::Answer(key @ (b'n' | b'i' | b'q')) => break key,
                Pressed::Answer(key @ (b't' | b'a')) if is_question => break key,
                Pressed::Answer(key @ b'1'..=b'9') if usize::from(key - b'0') <= choices => break key,
                Pressed::Answer(key @ (b'y' | b's' | b'm')) if !is_question => break key,
                Pressed::Answer(_) => tty.write(BELL)?,
                Pressed::NotNow(_) => {}
            }
        };
        tty.write(b"\r\n")?;
        drop(raw);
        choice(tty, info, pressed)
    }
}

fn choice(tty: &Tty, info: &ApprovalInfo, pressed: u8) -> Result<Result<Choice, Gone>, CommandError> {
    let deny = |message: String, interrupt: bool| DecideParams { message, interrupt, ..decision(info, Verdict::Deny) };
    Ok(Ok(match pressed {
        CTRL_C | CTRL_D | CTRL_BRACKET => return Ok(Err(Gone::Left)),
        b'y' => Some(decision(info, Verdict::Once)),
        b's' => Some(decision(info, Verdict::Session)),
        b'n' => Some(deny(String::new(), false)),
        b'i' => Some(deny(String::new(), true)),
        b'm' => line(tty, "why not? ")?.map(|why| deny(why, false)),
        b't' | b'a' => answers(tty, info)?,
        b'1'..=b'9' => chosen(info, usize::from(pressed - b'1')),
        _ => None,
    }))
}

/// How many choices a single key can mean: those of the only question, if it takes one of them.
fn at_once(info: &ApprovalInfo) -> usize {
    match questions(&info.content).as_slice() {
        [only] if !only.several => only.options.len(),
        _ => 0,
    }
}

/// The choice of that number, of the only question.
fn chosen(info: &ApprovalInfo, index: usize) -> Choice {
    let asked = questions(&info.content);
    let question = asked.first()?;
    let option = question.options.get(index)?;
    let answers = [(question.id.clone(), vec![option.label.clone()])].into();
    Some(DecideParams { answers: Some(answers), ..decision(info, Verdict::Answers) })
}

/// One answer for each question: the number of a choice, or words of one's own.
fn answers(tty: &Tty, info: &ApprovalInfo) -> Result<Choice, CommandError> {
    let asked = questions(&info.content);
    let mut words = Vec::new();
    for (question, number) in asked.iter().zip(1..) {
        for row in wrap(&request::question(question, number), tty.size().0) {
            tty.write(format!("{}\r\n", row.text).as_bytes())?;
        }
        let Some(typed) = line(tty, "the number of a choice, or type an answer: ")? else {
            return Ok(None);
        };
        let chosen = typed.parse::<usize>().ok().and_then(|n| question.options.get(n.checked_sub(1)?));
        let answer = chosen.map_or(typed.clone(), |option| option.label.clone());
        words.push(format!("{}={answer}", question.id));
    }
    let answers = from_words(&asked, &words)?;
    Ok(Some(DecideParams { answers: Some(answers), ..decision(info, Verdict::Answers) }))
}

/// A line that is typed at the person's terminal; nothing at all is no answer, and neither is the end of the terminal.
fn line(tty: &Tty, question: &str) -> Result<Option<String>, CommandError> {
    tty.write(question.as_bytes())?;
    let mut typed = String::new();
    std::io::BufReader::new(tty.file()).read_line(&mut typed)?;
    Ok(Some(typed.trim().to_owned()).filter(|text| typed.ends_with('\n') && !text.is_empty()))
}
