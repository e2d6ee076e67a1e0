//! Taking up an agent that another daemon started: its adapter is folded again from the stdin ledger and the output, and
//! what that daemon had decided to say, but did not get to write, is written.

use std::io;
use std::sync::Arc;

use ostler_agents::open;
use ostler_story::{Drive, EndReason, Event, Exit, Fact, Intent};

use super::Session;
use super::new::setup;
use super::running::Running;
use super::sessions::SessionsInner;
use super::state::{Living, REBOOTED, State};
use crate::MayWait;

/// The living process of this session, its adapter as it was; nothing if the process never came to be, or is forgotten.
pub(super) fn take_up(wait: &MayWait, session: &Session, shared: &Arc<SessionsInner>) -> io::Result<Option<Running>> {
    let (state, living) = {
        let desk = session.look();
        let Some(living) = desk.state.living.clone() else { return Ok(None) };
        (desk.state.clone(), living)
    };
    let source = living.source;
    let process = shared.engine().inner.by_key(&session.process_key(source));
    let setup = setup(&state.created, &living.settings, living.resume.clone(), &shared.runner());
    let (Some(process), Ok(mut adapter)) = (process, open(&setup, living.drive)) else {
        let mut desk = session.pen(wait);
        session.tell(&mut desk, Fact::Exited { source, exit: Exit::Unknown, stderr: String::new() })?;
        if state.turn.is_some_and(|turn| turn.sent.is_some() && !turn.ended) {
            let message = state.held.then(|| REBOOTED.to_owned());
            let event = Event::TurnEnded { reason: EndReason::Interrupted, message };
            session.tell(&mut desk, Fact::Said { event })?;
        }
        return Ok(None);
    };
    let sent = process.stdin_between(wait, 0, process.bounds().applied)?;
    let known = known(&state, &living, &sent);
    match living.drive {
        Drive::Oneshot if known.is_empty() => {}
        // Its stdin is one prompt, not lines.
        Drive::Oneshot => adapter.sent(known),
        _ => lines(known).for_each(|line| adapter.sent(line)),
    }
    let opening = adapter.opening();
    let mut running = Running::new(session, source, process, adapter);
    running.held = Some(vec![opening]);
    session.pen(wait).change(|desk| desk.process = Some(running.process.id().to_owned()));
    Ok(Some(running))
}

/// Everything that it had said is known: what it is still owed goes out, whatever was torn first.
pub(super) fn settle(wait: &MayWait, session: &Session, running: &mut Running) -> io::Result<()> {
    let Some(owed) = running.held.take() else { return Ok(()) };
    let state = session.look().state.clone();
    let applied = running.ledger;
    let owed = owed.into_iter().filter(|bytes| !bytes.is_empty());
    let Some(living) = state.living.as_ref() else { return Ok(()) };
    let sent = running.process.stdin_between(wait, 0, applied)?;
    // The end of a line that was being written when the daemon died.
    let torn_line = match living.drive {
        Drive::Oneshot => &[][..],
        _ => sent.rsplit(|byte| *byte == b'\n').next().unwrap_or_default(),
    };
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (intent, bytes) in unwritten(&state, running, applied) {
        match usize::try_from(applied.saturating_sub(intent.at)).unwrap_or(0) {
            0 => last.push(bytes),
            done => first.push(bytes.get(done..).unwrap_or_default().to_vec()),
        }
    }
    let mut between: Vec<Vec<u8>> = owed.collect();
    if first.is_empty() && !torn_line.is_empty() {
        let candidates = between.iter().position(|bytes| bytes.starts_with(torn_line));
        let whole = match candidates {
            Some(at) => Some(between.remove(at)),
            None => running.adapter.interrupt().filter(|bytes| bytes.starts_with(torn_line)),
        };
        match whole {
            Some(bytes) => first.push(bytes.get(torn_line.len()..).unwrap_or_default().to_vec()),
            None => {
                // Nobody knows what it was to be: the agent would take the next line for its end.
                tracing::error!("{}: half a line went to the agent, and nobody knows the rest", session.id());
                session.pen(wait).change(|desk| desk.end = true);
                return Ok(());
            }
        }
    }
    for bytes in first.into_iter().chain(between).chain(last) {
        running.write(session, bytes);
    }
    if running.closes && state.turn.as_ref().is_some_and(|turn| turn.sent.is_some()) {
        running.close_stdin();
    }
    Ok(())
}

/// The bytes that were meant for the agent and are not whole in its ledger, in their order.
fn unwritten(state: &State, running: &mut Running, applied: u64) -> Vec<(Intent, Vec<u8>)> {
    let mut all = Vec::new();
    let missing = |source: u32, intent: Intent| source == running.source && intent.at + intent.len > applied;
    let given: Vec<_> = state.given.iter().filter(|given| missing(given.source, given.intent)).cloned().collect();
    let prompt = state.turn.as_ref().and_then(|turn| {
        let (source, intent) = turn.sent?;
        missing(source, intent).then(|| (intent, turn.prompt.blocks.clone()))
    });
    if let Some((intent, blocks)) = prompt
        && let Ok(bytes) = running.adapter.prompt(&blocks)
    {
        all.push((intent, bytes));
    }
    for given in given {
        if let Ok(bytes) = running.adapter.answer(&given.request, &given.answer) {
            all.push((given.intent, bytes));
        }
    }
    all.sort_by_key(|(intent, _)| intent.at);
    all
}

/// What the adapter is told was sent: whole writes only.
fn known<'a>(state: &State, living: &Living, sent: &'a [u8]) -> &'a [u8] {
    let length = sent.len() as u64;
    let turn = state.turn.as_ref().and_then(|turn| turn.sent).into_iter();
    let intents = turn.chain(state.given.iter().map(|given| (given.source, given.intent)));
    let torn = intents
        .filter(|(source, intent)| *source == living.source && intent.at + intent.len > length)
        .map(|(_, intent)| intent.at)
        .min();
    let end = usize::try_from(torn.unwrap_or(length).min(length)).unwrap_or(sent.len());
    sent.get(..end).unwrap_or(sent)
}

/// The whole lines of it.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}
