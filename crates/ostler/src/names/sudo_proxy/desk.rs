//! Where what is decided at the prompt counts: in the inbox of this process, or in that of the daemon whose program this is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_door_sudo_proxy::Question;
use ostler_engine::{Inbox, MayWait};
use ostler_story::{By, Decision};
use tokio::sync::{mpsc, oneshot};

use crate::daemon::{Decide, SURFACE, Said, UNATTENDED, Verdict};

/// What waits to be said to a daemon; more than there are connections.
const SAID_MAX: usize = 512;
/// The daemon died with what was decided in this moment.
const LOST: &str = "ostler was restarted in between; whoever asked has to ask again";

/// The inbox behind the prompt.
pub(super) enum Desk {
    Here(Inbox),
    There(There),
}

/// The inbox of a daemon that was joined.
pub(super) struct There {
    say: mpsc::Sender<Said>,
    /// Who waits to hear what became of a decision.
    waiting: Mutex<HashMap<String, oneshot::Sender<Verdict>>>,
}

impl There {
    /// It, and what is to be said to it.
    pub(super) fn new() -> (Self, mpsc::Receiver<Said>) {
        let (say, said) = mpsc::channel(SAID_MAX);
        (Self { say, waiting: Mutex::default() }, said)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Verdict>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, said: Said) -> bool {
        self.say.try_send(said).is_ok()
    }

    async fn decide(&self, decide: Decide) -> Verdict {
        let (decided, verdict) = oneshot::channel();
        self.waiting().insert(decide.approval.clone(), decided);
        match self.say(Said::Decide(decide)) {
            true => verdict.await.unwrap_or_else(|_| Verdict::Not(LOST.to_owned())),
            false => Verdict::Not(LOST.to_owned()),
        }
    }
}

impl Desk {
    /// Decides about a question: by a key on this terminal, or `unattended` by what a person granted before.
    pub(super) async fn decide(&self, question: &Question, yes: bool, unattended: bool, tty: &str) -> Verdict {
        let (approval, hash) = (question.approval.clone(), question.hash.clone());
        let inbox = match self {
            Self::Here(inbox) => inbox,
            Self::There(there) => return there.decide(Decide { approval, hash, yes, unattended }).await,
        };
        let by = match unattended {
            true => By::Rule { name: UNATTENDED.to_owned() },
            false => {
                let (uid, pid) = (rustix::process::getuid().as_raw(), Some(std::process::id()));
                By::Terminal { uid, pid, tty: tty.to_owned() }
            }
        };
        let decision = if yes { Decision::Once } else { Decision::deny() };
        inbox.decide(&approval, &hash, decision, by).await.into()
    }

    /// A question is on the screen: its time runs from now on. What goes wrong is told to `complain`.
    pub(super) fn shown(&self, approval: &str, complain: impl FnOnce(String) + Send + 'static) {
        let approval = approval.to_owned();
        match self {
            Self::Here(inbox) => {
                let inbox = inbox.clone();
                drop(MayWait::pool(move |wait| {
                    if let Err(error) = inbox.shown(wait, &approval, SURFACE) {
                        complain(format!("error: {error}"));
                    }
                }));
            }
            Self::There(there) => {
                there.say(Said::Shown { approval });
            }
        }
    }

    /// Nobody can be asked about it here. In this process whoever asked hears that at once.
    pub(super) fn unasked(&self, approval: &str, why: String) {
        if let Self::There(there) = self {
            there.say(Said::Unasked { approval: approval.to_owned(), why });
        }
    }

    /// What became of a decision that was said to a daemon.
    pub(super) fn decided(&self, approval: &str, verdict: Verdict) {
        if let Self::There(there) = self
            && let Some(waiting) = there.waiting().remove(approval)
        {
            // Who decided may be gone.
            let _ = waiting.send(verdict);
        }
    }

    /// The daemon is gone, and what was said to it.
    pub(super) fn lost(&self) {
        if let Self::There(there) = self {
            there.waiting().clear();
        }
    }
}
