//! The foreground program whose door is open in a daemon: what is asked there is put to the person here, and what they decide
//! is said there. A daemon that dies takes its questions along, and they leave the screen.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ostler_door_sudo_proxy::{End, Surface};
use ostler_engine::Terminal;
use tokio::sync::mpsc;

use super::front::{Front, Room};
use crate::daemon::{Answering, Said, Told};

/// What is said of a command whose daemon died.
const CUT_OFF: &str = "ostler was restarted; the command goes on, and its client can ask again";

/// The program's side of the lease.
pub(super) struct Joined {
    room: Arc<Room>,
    front: Front,
    said: mpsc::Receiver<Said>,
    /// What was asked and is not over; whether it runs.
    open: HashMap<String, bool>,
}

impl Joined {
    pub(super) fn new(room: Arc<Room>, front: Front, said: mpsc::Receiver<Said>) -> Self {
        Self { room, front, said, open: HashMap::new() }
    }
}

impl Answering for Joined {
    async fn told(&mut self, told: Told, terminal: Option<OwnedFd>) {
        match told {
            Told::Stranger(uid) => self.front.stranger(uid),
            Told::Received(request) => self.front.received(&request),
            Told::Pinged(request) => self.front.pinged(&request),
            // It ends whatever is said here.
            Told::Stopped(request) => drop(self.front.stop(&request)),
            Told::Ask(question) => {
                let approval = question.approval.clone();
                self.open.insert(approval.clone(), false);
                if let Err(why) = self.front.put(Arc::from(question)).await {
                    self.room.desk.unasked(&approval, why);
                }
            }
            Told::Running { approval, terminal: has_terminal } => {
                self.open.insert(approval.clone(), true);
                let terminal = terminal.filter(|_| has_terminal).map(|master| Arc::new(Terminal::new(master)));
                self.front.running(&approval, terminal);
            }
            Told::Over { approval, end } => {
                self.open.remove(&approval);
                self.front.over(&approval, end);
            }
            Told::Decided { approval, verdict } => self.room.desk.decided(&approval, verdict),
        }
    }

    async fn says(&mut self) -> Said {
        match self.said.recv().await {
            Some(said) => said,
            // The prompt has ended.
            None => std::future::pending().await,
        }
    }

    fn lost(&mut self) {
        self.room.desk.lost();
        // What was said to the daemon that is gone is not for the next one.
        while self.said.try_recv().is_ok() {}
        for (approval, runs) in self.open.drain() {
            let end = if runs { End::Failed(CUT_OFF.to_owned()) } else { End::Withdrawn };
            self.front.over(&approval, end);
        }
    }
}
