//! An agent's requests in the inbox: asked once, answered once, taken back when the agent does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ostler_agents::AnswerError;
use ostler_hooks::hook;
use ostler_story::{Ask as AgentAsk, Asked, By, Decision, Fact, Intent, ToolContent};

use super::Session;
use super::driver::Driver;
use super::sessions::SessionsInner;
use super::state::{Open, State};
use crate::MayWait;
use crate::approval::{Approval, Ask, AskError, AskKind, Asker, Bound, Inbox, Outcome, Record};

impl Session {
    /// Whether this request of the inbox is one that the session waits for.
    pub(super) fn waits_for(&self, approval: &Approval) -> bool {
        let desk = self.look();
        let mut asks = desk.state.asks.iter();
        asks.any(|open| open.approval.as_ref() == Some(&approval.id) || approval.ask.key == Some(key(self.id(), open)))
    }
}

/// Never the same twice, and the same again after the daemon died.
fn key(session: &str, open: &Open) -> String {
    let (end, index) = open.asked_at;
    format!("{session}/{}/{end}/{index}", open.source)
}

impl Driver<'_> {
    /// Brings new requests to the inbox, and answers from there to the agent.
    pub(super) fn settle_asks(&mut self, shared: &Arc<SessionsInner>) -> io::Result<()> {
        let Some(running) = self.running.as_ref().filter(|running| running.held.is_none()) else { return Ok(()) };
        let (asks, given): (Vec<Open>, Vec<String>) = {
            let desk = self.session.look();
            let asks = desk.state.asks.iter().filter(|open| open.source == running.source).cloned().collect();
            (asks, desk.state.given.iter().map(|given| given.approval.clone()).collect())
        };
        // The daemon before us may have died between the answer and its record.
        if self.fresh {
            given.iter().for_each(|approval| delivered(self.wait, shared.inbox(), approval));
            self.fresh = false;
        }
        for open in asks {
            match &open.approval {
                None => self.ask(shared, &open)?,
                Some(approval) => self.answer(shared, &open, approval)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, shared: &Arc<SessionsInner>, open: &Open) -> io::Result<()> {
        let ask = {
            let desk = self.session.look();
            request(&desk.state, open, shared.config().ask_timeout)
        };
        match shared.inbox().ask_again(self.wait, ask) {
            Ok(approval) => {
                hook!("session.asked");
                let (request, source) = (open.asked.request.clone(), open.source);
                let fact = Fact::Approval { request, source, approval: approval.clone() };
                self.session.tell(&mut self.session.pen(self.wait), fact)?;
                // A rule may have answered it already.
                self.answer(shared, open, &approval)
            }
            // Nobody has seen it: it is asked once the disk takes it.
            Err(AskError::Store(error)) => Err(io::Error::other(error)),
            // Too many, or refused again and again: the agent hears why.
            Err(error) => self.deliver(open, "", Decision::no(error.to_string()), By::Ostler),
        }
    }

    /// Tells the agent what was decided, once it was.
    fn answer(&mut self, shared: &Arc<SessionsInner>, open: &Open, id: &str) -> io::Result<()> {
        let found = shared.inbox().peek(id).or_else(|| shared.inbox().get(self.wait, id).ok().flatten());
        let Some(approval) = found else { return Ok(()) };
        let Some(answer) = answer_to(&approval, &open.asked) else { return Ok(()) };
        let by = approval.decided.map_or(By::Ostler, |(by, _)| by);
        self.deliver(open, id, answer, by)?;
        delivered(self.wait, shared.inbox(), id);
        Ok(())
    }

    fn deliver(&mut self, open: &Open, approval: &str, answer: Decision, by: By) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let request = open.asked.request.clone();
        let (answer, bytes) = match running.adapter.answer(&request, &answer) {
            Ok(bytes) => (answer, bytes),
            // A yes to something else than what the agent can do is no yes.
            Err(AnswerError::Unsupported(why)) => {
                let answer = Decision::no(why.to_string());
                let bytes = running.adapter.answer(&request, &answer).unwrap_or_default();
                (answer, bytes)
            }
            Err(AnswerError::NoSuchRequest(_)) => (answer, Vec::new()),
        };
        let intent = Intent { at: running.ledger, len: bytes.len() as u64 };
        let (source, approval) = (open.source, approval.to_owned());
        let fact = Fact::Answered { request, source, approval, decision: answer, by, intent };
        self.session.tell(&mut self.session.pen(self.wait), fact)?;
        hook!("session.answered");
        running.write(&self.session, bytes);
        Ok(())
    }
}

fn request(state: &State, open: &Open, timeout: Option<Duration>) -> Ask {
    let Asked { ask, tool, title, input, reason, can, grants, questions, .. } = open.asked.clone();
    let agent = state.created.agent.name().to_owned();
    let content = ToolContent { agent: agent.clone(), tool, title: title.clone(), input, questions, can, grants };
    Ask {
        kind: match ask {
            AgentAsk::Permission => AskKind::ToolUse,
            AgentAsk::Question => AskKind::Question,
        },
        content: content.text(),
        title,
        privileged: false,
        asker: Asker {
            door: state.created.door.clone(),
            uid: rustix::process::geteuid().as_raw(),
            pid: None,
            claimed_session: state.settings.name.clone().unwrap_or_else(|| state.created.id.clone()),
            claimed_host: String::new(),
            client: agent,
            verified_session: Some(state.created.id.clone()),
        },
        reason: reason.unwrap_or_default(),
        after_shown: None,
        after_asked: timeout,
        bound: Bound::Session,
        key: Some(key(&state.created.id, open)),
        workspace: Some(state.created.workspace.to_string_lossy().into_owned()),
        tires: true,
    }
}

/// What the agent is told; nothing while nobody has decided, or when it was told.
fn answer_to(approval: &Approval, asked: &Asked) -> Option<Decision> {
    use crate::approval::State;
    Some(match &approval.state {
        State::Pending { .. } | State::Applied { .. } => return None,
        State::Accepted { decision } => match decision {
            // What the agent can not remember, our rule does.
            Decision::Session if !asked.can.session => Decision::Once,
            Decision::Always if !asked.can.always => Decision::Once,
            decision => decision.clone(),
        },
        State::Denied { message, interrupt } => Decision::Deny { message: message.clone(), interrupt: *interrupt },
        State::Expired => {
            let seconds = approval.ask.after_asked.unwrap_or_default().as_secs_f64();
            Decision::no(format!("not answered within {seconds} s (sessions.ask_timeout), denied"))
        }
        State::Withdrawn { why } => Decision::no(why),
        State::Failed { why } => Decision::no(why),
        State::Unknown => Decision::no("the machine restarted before the answer was given"),
    })
}

/// The answer is in the agent's stdin ledger, or will be: it counts as given.
fn delivered(wait: &MayWait, inbox: &Inbox, approval: &str) {
    let noted = inbox
        .note(wait, approval, Record::Applied { process: None })
        .and_then(|_| inbox.note(wait, approval, Record::Finished { outcome: Outcome::Delivered }));
    if let Err(error) = noted {
        tracing::error!("{approval}: delivery not recorded: {error}");
    }
}

/// Nobody waits for it any more.
pub(super) fn withdraw(wait: &MayWait, inbox: &Inbox, approval: &str, why: &str) {
    if let Err(error) = inbox.note(wait, approval, Record::Withdrawn { why: why.to_owned() }) {
        tracing::error!("{approval}: withdrawal not recorded: {error}");
    }
}
