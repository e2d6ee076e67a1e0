//! A door whose questions are put where its program runs: what is said about them over the lease, and the daemon's side of it.
//!
//! The program shows and a person there decides; whether that is a person's place is looked at here with every answer, and the
//! decision is the inbox's as everybody's is. A program that does not keep up is told nothing more, and asked nothing.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_door_sudo_proxy::{Asking, End, Question, Request, Surface};
use ostler_engine::approval::DecideError;
use ostler_engine::{Engine, MayWait, Peer, Terminal};
use ostler_story::{By, Decision};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

/// Three for every connection that may be open, and room for those that come after.
const TOLD_MAX: usize = 512;
/// Output of commands is somebody's secret: kept only for as long as a client may come back for its answer.
pub(crate) const KEEP_OUTPUT: Duration = Duration::from_secs(60);
/// Who grants what a person granted ahead of time.
pub(crate) const UNATTENDED: &str = "unattended for this session of sudo-proxy";
/// Where a question is shown.
pub(crate) const SURFACE: &str = "sudo-proxy prompt";

/// What the program is told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Stranger(u32),
    Received(Request),
    Pinged(Request),
    Stopped(Request),
    Ask(Box<Question>),
    /// A descriptor comes along if it has a terminal.
    Running {
        approval: String,
        terminal: bool,
    },
    Over {
        approval: String,
        end: End,
    },
    Decided {
        approval: String,
        verdict: Verdict,
    },
}

/// What the program says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    Shown {
        approval: String,
    },
    /// Nobody can be asked there, and why.
    Unasked {
        approval: String,
        why: String,
    },
    Decide(Decide),
}

/// A decision that was made there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Decide {
    pub(crate) approval: String,
    pub(crate) hash: String,
    pub(crate) yes: bool,
    /// Not by a key: by what a person granted there before.
    pub(crate) unattended: bool,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Counts,
    Expired,
    Withdrawn,
    /// Why it does not count.
    Not(String),
}

impl From<Result<(), DecideError>> for Verdict {
    fn from(decided: Result<(), DecideError>) -> Self {
        match decided {
            Ok(()) => Self::Counts,
            Err(DecideError::Expired) => Self::Expired,
            Err(DecideError::Withdrawn(_)) => Self::Withdrawn,
            Err(error) => Self::Not(error.to_string()),
        }
    }
}

/// A message on its way to the program.
pub(super) type Telling = (Told, Option<Arc<Terminal>>);

/// The daemon's side; the door takes it for the program.
pub(crate) struct Relay {
    engine: Engine,
    tell: mpsc::Sender<Telling>,
    told: Mutex<Option<mpsc::Receiver<Telling>>>,
    /// What was approved by a key there, and may ask for a password there.
    here: Mutex<HashSet<String>>,
    /// Questions of which the program may say that nobody can be asked.
    unasked: Mutex<HashMap<String, oneshot::Sender<String>>>,
}

impl Relay {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        let (tell, told) = mpsc::channel(TOLD_MAX);
        let told = Mutex::new(Some(told));
        Arc::new(Self { engine, tell, told, here: Mutex::default(), unasked: Mutex::default() })
    }

    /// What the program is to be told; once.
    pub(super) fn take_told(&self) -> Option<mpsc::Receiver<Telling>> {
        locked(&self.told).take()
    }

    /// The program, which is at the other end of `line`, says this. What takes longer goes on beside.
    pub(super) fn hear(self: &Arc<Self>, said: Said, line: std::io::Result<OwnedFd>) {
        match said {
            Said::Unasked { approval, why } => {
                if let Some(asking) = locked(&self.unasked).remove(&approval) {
                    // Its client may have gone.
                    let _ = asking.send(why);
                }
            }
            Said::Shown { approval } => {
                let engine = self.engine.clone();
                drop(MayWait::pool(move |wait| {
                    if let Err(error) = engine.inbox().shown(wait, &approval, SURFACE) {
                        tracing::error!("{error}");
                    }
                }));
            }
            Said::Decide(decide) => {
                let relay = Arc::clone(self);
                drop(MayWait::pool(move |wait| {
                    let verdict = relay.decide(wait, &decide, line);
                    relay.tell(Told::Decided { approval: decide.approval, verdict });
                }));
            }
        }
    }

    fn decide(&self, wait: &MayWait, decide: &Decide, line: std::io::Result<OwnedFd>) -> Verdict {
        let peer = line.and_then(Peer::of).ok();
        let by = match self.engine.person(wait, peer.as_ref(), &decide.approval) {
            Ok(by) => by,
            Err(why) => return Verdict::Not(why),
        };
        let inbox = self.engine.inbox();
        let by = match decide.unattended {
            // Root is never granted ahead of time, whatever is said there.
            true if inbox.peek(&decide.approval).is_none_or(|asked| asked.ask.privileged) => {
                return Verdict::Not("only a key lets a command run as root".to_owned());
            }
            true => By::Rule { name: UNATTENDED.to_owned() },
            false => by,
        };
        let decision = if decide.yes { Decision::Once } else { Decision::deny() };
        if decide.yes && !decide.unattended {
            locked(&self.here).insert(decide.approval.clone());
        }
        inbox.decide_here(wait, &decide.approval, &decide.hash, decision, by).into()
    }

    fn tell(&self, told: Told) -> bool {
        self.tell.try_send((told, None)).is_ok()
    }
}

impl Surface for Relay {
    fn stranger(&self, uid: u32) {
        self.tell(Told::Stranger(uid));
    }

    fn received(&self, request: &Request) {
        self.tell(Told::Received(request.clone()));
    }

    fn pinged(&self, request: &Request) {
        self.tell(Told::Pinged(request.clone()));
    }

    fn stop(&self, request: &Request) -> Result<(), String> {
        self.tell(Told::Stopped(request.clone()));
        Ok(())
    }

    fn ask(&self, question: Arc<Question>) -> Asking {
        let approval = question.approval.clone();
        let (cannot, why) = oneshot::channel();
        locked(&self.unasked).insert(approval, cannot);
        let told = self.tell(Told::Ask(Box::new(Arc::unwrap_or_clone(question))));
        Box::pin(async move {
            match told {
                true => why.await.map_or(Ok(()), Err),
                false => Err("prompt error: the terminal does not keep up".to_owned()),
            }
        })
    }

    fn has_terminal(&self, approval: &str) -> bool {
        locked(&self.here).contains(approval)
    }

    fn running(&self, approval: &str, terminal: Option<Arc<Terminal>>) {
        let told = Told::Running { approval: approval.to_owned(), terminal: terminal.is_some() };
        let _ = self.tell.try_send((told, terminal));
    }

    fn over(&self, approval: &str, end: End) {
        locked(&self.here).remove(approval);
        locked(&self.unasked).remove(approval);
        if matches!(end, End::Ran { .. } | End::Failed(_)) {
            forget_later(self.engine.clone(), approval.to_owned());
        }
        self.tell(Told::Over { approval: approval.to_owned(), end });
    }

    fn shows_output(&self) -> bool {
        true
    }
}

/// Forgets what a command said, once its client cannot come back for it.
fn forget_later(engine: Engine, approval: String) {
    tokio::spawn(async move {
        tokio::time::sleep(KEEP_OUTPUT).await;
        let forgotten = MayWait::pool(move |wait| {
            engine.command(&approval).is_some_and(|command| engine.forget(wait, &command.process))
        });
        // One that cannot be forgotten goes with the others of its age.
        let _ = forgotten.await;
    });
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
