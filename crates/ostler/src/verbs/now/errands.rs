//! What Now writes into the record of an instance: that a request is on the screen, and decisions; in their order, by a thread of
//! that instance. The record may be busy for a minute, and the screen goes on meanwhile.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use ostler_api::{ApprovalInfo, DecideParams, ShownParams, Verdict, methods};

use super::inbox::{Decide, Which};
use crate::output::CommandError;
use crate::verbs::approvals::{begun, has_terminal, told};
use crate::verbs::connect::Reached;
use crate::verbs::recorded::PATIENCE;

/// More than anybody looks at while a record is busy; what does not fit is tried again.
const WAITING_MAX: usize = 64;

pub(super) enum Errand {
    /// This request is on the screen.
    Shown(Which),
    Decide(Box<Decide>),
}

/// What came of one.
pub(super) enum Done {
    Shown(Which, Result<(), CommandError>),
    /// The decision is in the record; what follows from it is waited for.
    Recorded(Which),
    Decided(Box<Decide>, Result<Outcome, CommandError>),
}

/// What follows from a decision that counts.
pub(super) enum Outcome {
    /// It is over, or goes on by itself; in words.
    Told(String),
    /// The command has a terminal, which somebody has to look after.
    Terminal(Box<(Reached, ApprovalInfo)>),
}

impl Errand {
    fn which(&self) -> &Which {
        match self {
            Self::Shown(which) => which,
            Self::Decide(decide) => &decide.which,
        }
    }

    /// Does it, and tells what came of it; `false` when nobody listens any more.
    fn run(self, mut reached: Reached, tell: &SyncSender<Done>) -> bool {
        let done = match self {
            Self::Shown(which) => {
                let params = ShownParams { id: which.id.clone(), surface: "inbox".into() };
                let told = reached.client.call::<methods::ApprovalShown>(&params);
                Done::Shown(which, told.map(drop).map_err(CommandError::from))
            }
            Self::Decide(decided) => match decide(&mut reached, &decided) {
                Ok(info) if decided.verdict == Verdict::Deny => Done::Decided(decided, Ok(Outcome::Told(told(&info)))),
                Ok(info) if has_terminal(&info) => {
                    Done::Decided(decided, Ok(Outcome::Terminal(Box::new((reached, info)))))
                }
                Ok(info) => return follow(decided, reached, &info, tell),
                Err(error) => Done::Decided(decided, Err(error)),
            },
        };
        tell.send(done).is_ok()
    }
}

fn decide(reached: &mut Reached, decided: &Decide) -> Result<ApprovalInfo, CommandError> {
    let Decide { which, hash, verdict, message, interrupt, answers } = decided.clone();
    let params = DecideParams {
        id: which.id,
        hash,
        verdict,
        message,
        interrupt,
        input: None,
        answers,
        relays: true,
        signed: None,
    };
    Ok(reached.client.call::<methods::ApprovalDecide>(&params)?)
}

/// What follows from a yes is waited for by a thread of its own: the record is free for what comes next.
fn follow(decided: Box<Decide>, mut reached: Reached, info: &ApprovalInfo, tell: &SyncSender<Done>) -> bool {
    let (id, known, told_to) = (info.id.clone(), told(info), tell.clone());
    let (which, same) = (decided.which.clone(), decided.clone());
    let wait = move || {
        let how = begun(&mut reached.client, &id).map(|info| told(&info));
        let how = how.unwrap_or_else(|error| format!("approved; {}", error.message));
        // If the screen was left, nobody waits for it.
        let _ = told_to.send(Done::Decided(decided, Ok(Outcome::Told(how))));
    };
    match std::thread::Builder::new().name("follow".to_owned()).spawn(wait) {
        Ok(_) => tell.send(Done::Recorded(which)).is_ok(),
        Err(_) => tell.send(Done::Decided(same, Ok(Outcome::Told(known)))).is_ok(),
    }
}

/// What is not done yet.
struct Open {
    which: Which,
    decides: bool,
    /// Since when the record is waited for.
    since: Option<Instant>,
}

pub(super) struct Errands {
    tell: SyncSender<Done>,
    done: Receiver<Done>,
    /// What came while somebody waited for it.
    came: Vec<Done>,
    /// One for each instance.
    queues: HashMap<String, SyncSender<(Errand, Reached)>>,
    open: Vec<Open>,
}

impl Errands {
    pub(super) fn new() -> Self {
        let (tell, done) = sync_channel(WAITING_MAX);
        Self { tell, done, came: Vec::new(), queues: HashMap::new(), open: Vec::new() }
    }

    /// Has it done; `false` if there is no room for it now.
    pub(super) fn begin(&mut self, errand: Errand, reached: Reached, now: Instant) -> bool {
        let (which, decides) = (errand.which().clone(), matches!(errand, Errand::Decide(_)));
        let known = self.queues.get(&which.instance).cloned();
        let Some(queue) = known.or_else(|| self.thread(&which.instance)) else { return false };
        let begun = queue.try_send((errand, reached)).is_ok();
        self.queues.insert(which.instance.clone(), queue);
        if begun {
            self.open.push(Open { which, decides, since: Some(now) });
        }
        begun
    }

    fn thread(&self, instance: &str) -> Option<SyncSender<(Errand, Reached)>> {
        let (queue, errands) = sync_channel::<(Errand, Reached)>(WAITING_MAX);
        let tell = self.tell.clone();
        let run = move || errands.into_iter().all(|(errand, reached)| errand.run(reached, &tell));
        std::thread::Builder::new().name(format!("record {instance}")).spawn(run).ok()?;
        Some(queue)
    }

    /// Waits for what comes of a decision, but not for a record that is busy: what a person types next is mostly about that.
    pub(super) fn wait_for(&mut self, which: &Which) {
        let until = Instant::now() + PATIENCE;
        while let Ok(done) = self.done.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let is_it = matches!(&done, Done::Decided(decided, _) if decided.which == *which);
            self.came.push(done);
            if is_it {
                return;
            }
        }
    }

    /// What was done since the last time.
    pub(super) fn take(&mut self) -> Vec<Done> {
        let done: Vec<Done> = std::mem::take(&mut self.came).into_iter().chain(self.done.try_iter()).collect();
        for one in &done {
            match one {
                Done::Shown(which, _) => self.open.retain(|open| open.decides || open.which != *which),
                Done::Decided(decided, _) => self.open.retain(|open| !open.decides || open.which != decided.which),
                // What follows may have been told before.
                Done::Recorded(which) => {
                    let mut open = self.open.iter_mut();
                    open.find(|open| open.decides && open.which == *which)
                        .into_iter()
                        .for_each(|open| open.since = None);
                }
            }
        }
        done
    }

    /// Whether an answer to this request is on its way.
    pub(super) fn decides(&self, which: &Which) -> bool {
        self.open.iter().any(|open| open.decides && open.which == *which)
    }

    /// A request whose answer is not in the record yet.
    pub(super) fn unrecorded(&self) -> Option<&Which> {
        self.open.iter().find(|open| open.decides && open.since.is_some()).map(|open| &open.which)
    }

    /// Whether the record takes longer than one that is free.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.open.iter().any(|open| open.since.is_some_and(|since| now.saturating_duration_since(since) > PATIENCE))
    }
}
