//! A prompt and its answer: handed over once, however often the connection breaks, and followed to the end of its turn.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_api::client::ClientError;
use ostler_api::{PromptAccepted, PromptBlock, PromptParams, SessionEvents, SessionInfo, methods};
use ostler_story::{EndReason, Fact, Piece};

use super::in_place::InPlace;
use super::record_line;
use crate::output::{Called, CommandError};
use crate::transcript::{Live, Reader};
use crate::verbs::Context;
use crate::verbs::attach::{INTERRUPTED, code};
use crate::verbs::connect::Reached;
use crate::verbs::stream::{Came, Follow, Followed, Link};

/// Random bytes of a key that nobody else has.
const KEY_BYTES: usize = 12;
/// As long as a daemon may take to come back.
const AGAIN_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// A prompt to be handed over.
pub(in crate::verbs) struct Order {
    pub(in crate::verbs) session: SessionInfo,
    pub(in crate::verbs) blocks: Vec<PromptBlock>,
    /// The person's own key.
    pub(in crate::verbs) key: Option<String>,
    /// Follow the answer.
    pub(in crate::verbs) wait: bool,
}

/// Hands the prompt over and follows its answer.
pub(in crate::verbs) fn deliver(context: &Context, reached: Reached, order: Order) -> Result<ExitCode, CommandError> {
    let (id, name) = (order.session.id.clone(), order.session.called());
    let key = order.key.map_or_else(random_key, Ok)?;
    let params =
        PromptParams { id: id.clone(), text: None, blocks: order.blocks, refuse_if_busy: false, key: Some(key) };
    let (reached, accepted) = accepted(context, reached, &params).map_err(|error| match error {
        Unsent::No(error) => error,
        Unsent::Unknown(error) => {
            CommandError { message: format!("it is not known whether it was sent: {}", error.message), ..error }
                .hint(format!("look: ostler export {name}"))
        }
    })?;
    if !order.wait {
        if context.json() {
            context.screen.value(&accepted)?;
        } else {
            context.screen.line(&told(&accepted, &name))?;
            context.screen.line(&format!("  follow it: ostler watch {name} --from {}", accepted.record))?;
        }
        if accepted.position > 0 && !context.json() {
            first_of_all(context, &order.session);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if accepted.position > 0 || accepted.again {
        context.screen.note(&format!("ostler: {}", told(&accepted, &name)));
    }
    if accepted.position > 0 {
        first_of_all(context, &order.session);
    }
    // First: it hears Ctrl-C, also while the terminal is taken for questions.
    let follow = Follow::new(Link::new(context, reached), &order.session, accepted.record)?;
    let in_place = InPlace::new(context);
    let mut answer = PromptTurn::new(context, accepted.number, in_place.is_at_terminal());
    let follow = follow.asking(in_place);
    let followed = follow.run(|came| match came {
        Came::Record(record) => answer.take(record),
        Came::Notice(text) => {
            answer.end_line()?;
            context.screen.note(&format!("ostler: {text}"));
            Ok(None)
        }
        Came::Begun(_) | Came::Gap(_) | Came::Sent(_) | Came::AtRest => Ok(None),
    })?;
    answer.end_line()?;
    let back = |next: u64| {
        context.screen.note(&format!("ostler: {name} keeps running; follow it: ostler watch {name} --from {next}"))
    };
    match followed {
        Followed::Over(Outcome::Turn(EndReason::Completed)) => Ok(ExitCode::SUCCESS),
        Followed::Over(Outcome::Turn(_)) => Ok(ExitCode::FAILURE),
        Followed::Over(Outcome::Dropped(why)) => {
            context.screen.note(&format!("ostler: not answered: {}", crate::output::visible(&why)));
            Ok(ExitCode::FAILURE)
        }
        Followed::Left { next } => {
            back(next);
            Ok(code(INTERRUPTED))
        }
        Followed::Ended { next, signal } => {
            back(next);
            Ok(code(128 + signal))
        }
    }
}

/// What is queued behind a request does not move before somebody has answered that.
fn first_of_all(context: &Context, session: &SessionInfo) {
    if let Some(approval) = session.approvals.first() {
        let name = session.called();
        context.screen.note(&format!("ostler: {name} waits for your answer first: ostler approve {approval}"));
    }
}

fn told(accepted: &PromptAccepted, name: &str) -> String {
    let again = if accepted.again { " (already sent with this key)" } else { "" };
    let waits = match accepted.position {
        0 => String::new(),
        1 => ", next in the queue".to_owned(),
        position => format!(", number {position} in the queue"),
    };
    format!("prompt {} of {name}{waits}{again}", accepted.number)
}

/// Why there is no answer to a prompt.
enum Unsent {
    /// It was refused.
    No(CommandError),
    /// The daemon went while it was being handed over, and none came back.
    Unknown(CommandError),
}

/// The same key makes it one prompt, so whatever happened to the connection, it is asked again.
fn accepted(
    context: &Context,
    mut reached: Reached,
    params: &PromptParams,
) -> Result<(Reached, PromptAccepted), Unsent> {
    let until = Instant::now() + AGAIN_WITHIN;
    loop {
        match reached.client.call::<methods::SessionPrompt>(params) {
            Ok(accepted) => return Ok((reached, accepted)),
            Err(ClientError::Closed | ClientError::Io(_)) if Instant::now() < until => {}
            Err(error @ ClientError::Rpc(_)) => return Err(Unsent::No(error.into())),
            Err(error) => return Err(Unsent::Unknown(error.into())),
        }
        reached = again(context, &reached.found.name, until).map_err(Unsent::Unknown)?;
    }
}

/// The next daemon of this instance.
fn again(context: &Context, instance: &str, until: Instant) -> Result<Reached, CommandError> {
    loop {
        std::thread::sleep(PAUSE);
        let found = crate::instances::find(&context.paths, Some(instance))?;
        match found.into_iter().find(|found| found.alive).map(|found| context.reach(found)) {
            Some(Ok(again)) => return Ok(again),
            Some(Err(error)) if Instant::now() >= until => return Err(error),
            None if Instant::now() >= until => return Err(context.nobody()),
            _ => {}
        }
    }
}

pub(in crate::verbs) fn random_key() -> Result<String, CommandError> {
    let mut random = [0u8; KEY_BYTES];
    getrandom::fill(&mut random).map_err(|error| CommandError::failed(error.to_string()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// How a prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Turn(EndReason),
    /// It was never answered.
    Dropped(String),
}

/// The turn of one prompt, among all that a session's journal holds.
struct PromptTurn<'a> {
    context: &'a Context,
    reader: Reader,
    live: Live<'a>,
    number: u64,
    /// Its turn has begun.
    begun: bool,
}

impl<'a> PromptTurn<'a> {
    fn new(context: &'a Context, number: u64, asks_below: bool) -> Self {
        let live = Live::new(&context.screen).asking_below(asks_below);
        Self { context, reader: Reader::default(), live, number, begun: false }
    }

    fn take(&mut self, record: &SessionEvents) -> Result<Option<Outcome>, CommandError> {
        let (mut text, mut outcome, mut ours) = (String::new(), None, false);
        for piece in self.reader.record(record) {
            let (shown, ended) = self.belongs(&piece);
            ours |= shown;
            // Whoever sent it knows that its turn has come when the answer does.
            let quiet = self.context.json() || matches!(piece, Piece::Begun { .. });
            if shown && !quiet && outcome.is_none() {
                text.push_str(&self.live.take([&piece]));
            }
            outcome = outcome.or(ended);
        }
        if self.context.json() && ours {
            self.context.screen.line(&record_line(record)?)?;
        }
        write_out(&text)?;
        Ok(outcome)
    }

    /// Whether it is about this prompt's turn, and how that ended.
    fn belongs(&mut self, piece: &Piece) -> (bool, Option<Outcome>) {
        match piece {
            Piece::Begun { number, .. } => {
                self.begun = *number == self.number;
                (self.begun, None)
            }
            Piece::Dropped { number, why, .. } if *number == self.number => (true, Some(Outcome::Dropped(why.clone()))),
            Piece::Noted(Fact::Closed {}) if !self.begun => {
                (true, Some(Outcome::Dropped("the session was closed".into())))
            }
            // What others ask meanwhile is theirs.
            Piece::Accepted(_) | Piece::Dropped { .. } => (false, None),
            Piece::Ended(ended) if self.begun => (true, Some(Outcome::Turn(ended.reason))),
            _ => (self.begun, None),
        }
    }

    fn end_line(&mut self) -> Result<(), CommandError> {
        let rest = self.live.finish();
        write_out(&rest)
    }
}

/// Text as it comes, also when it ends in the middle of a line.
pub(in crate::verbs) fn write_out(text: &str) -> Result<(), CommandError> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn outcome(number: u64, events: &[Value]) -> (Vec<bool>, Option<Outcome>) {
        let paths = crate::paths::Paths::from_env().unwrap();
        let context = Context::new(paths, None, false);
        let mut answer = PromptTurn::new(&context, number, false);
        let mut seen = Vec::new();
        let mut story = ostler_story::Story::default();
        let said = events.iter().filter_map(ostler_story::Said::read);
        for piece in said.flat_map(|said| story.take(said, false)) {
            let (ours, ended) = answer.belongs(&piece);
            seen.push(ours);
            if ended.is_some() {
                return (seen, ended);
            }
        }
        (seen, None)
    }

    #[test]
    fn only_the_turn_of_the_prompt_belongs_to_it() {
        let text = json!({"type": "text", "text": "x"});
        let ended = json!({"type": "turn_ended", "reason": "completed"});
        let turn = |number: u64| json!({"type": "turn", "number": number});
        let events =
            [text.clone(), ended.clone(), turn(2), text, json!({"type": "prompt", "number": 3, "blocks": []}), ended];
        let (seen, how) = outcome(2, &events);
        assert_eq!(seen, [false, false, true, true, false, true]);
        assert_eq!(how, Some(Outcome::Turn(EndReason::Completed)));
    }

    #[test]
    fn a_prompt_that_never_runs_ends_too() {
        let dropped = |number: u64| json!({"type": "dropped", "number": number, "why": "w"});
        assert_eq!(outcome(2, &[dropped(1), dropped(2)]).1, Some(Outcome::Dropped("w".into())));
        assert!(matches!(outcome(2, &[json!({"type": "closed"})]).1, Some(Outcome::Dropped(_))));
    }
}
