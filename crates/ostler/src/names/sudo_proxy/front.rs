//! The foreground daemon around its door: hands questions to the prompt, keeps what a person granted for as long as this
//! process lives, and says on standard error what `-v` promises.

use std::collections::{HashSet, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_door_sudo_proxy::{Asking, End, Question, Request, Surface, words};
use ostler_engine::{MayWait, NotAPlace, Terminal};
use tokio::sync::mpsc;
use tracing_subscriber::fmt::MakeWriter;

use super::desk::Desk;
use super::prompt::{self, Event};
use crate::daemon::{LogWriter, Verdict};

/// Three events each for every connection that may be open, and room for those that come after.
const EVENTS: usize = 512;

/// Lines of the log that wait; older ones are not written.
const HELD_MAX: usize = 256;

/// What the door's side and the prompt share.
pub(super) struct Room {
    pub(super) desk: Desk,
    /// A person may be offered to grant unprivileged commands.
    pub(super) eligible: bool,
    /// A person has. In memory only: it dies with this process.
    pub(super) unattended: AtomicBool,
    /// The terminal that decides.
    terminal_name: String,
    /// Why this process may not decide anything.
    not_a_place: Option<String>,
    /// What was approved by a key here, and may ask for a password here.
    here: Mutex<HashSet<String>>,
    verbose: bool,
    log: LogWriter,
    /// Lines of the log that wait while a question is on the screen that they would be written on.
    held: Mutex<Option<VecDeque<String>>>,
}

/// While this lives, nothing is written below a question.
pub(super) struct Quiet<'a>(&'a Room);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        for line in held.unwrap_or_default() {
            self.0.write(&line);
        }
    }
}

impl Room {
    pub(super) fn new(desk: Desk, eligible: bool, verbose: bool, log: LogWriter) -> Self {
        let (terminal_name, not_a_place) = match ostler_engine::access::own_place() {
            Ok(place) => (place.tty, None),
            // Whether there is a terminal is looked at again with every question.
            Err(NotAPlace::NoTerminal(_)) => (String::new(), None),
            Err(why) => (String::new(), Some(format!("{why}, with `ostler approvals`"))),
        };
        let unattended = AtomicBool::new(false);
        Self {
            desk,
            eligible,
            unattended,
            terminal_name,
            not_a_place,
            here: Mutex::default(),
            verbose,
            log,
            held: Mutex::default(),
        }
    }

    /// Whether this process may decide anything.
    pub(super) fn may_decide(&self) -> bool {
        self.not_a_place.is_none()
    }

    /// One line on standard error; later, if a question is on the same terminal.
    pub(super) fn say(&self, line: &str) {
        if let Some(held) = &mut *self.held.lock().unwrap_or_else(PoisonError::into_inner) {
            if held.len() >= HELD_MAX {
                held.pop_front();
            }
            return held.push_back(line.to_owned());
        }
        self.write(line);
    }

    fn write(&self, line: &str) {
        let _ = writeln!(self.log.make_writer(), "{line}");
    }

    /// A question comes on the screen.
    pub(super) fn quiet(&self) -> Quiet<'_> {
        if io::stderr().is_terminal() {
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(VecDeque::new());
        }
        Quiet(self)
    }

    /// A question is on the screen: its time runs from now on.
    pub(super) fn shown(self: &Arc<Self>, approval: &str) {
        let room = Arc::clone(self);
        self.desk.shown(approval, move |trouble| room.say(&trouble));
    }

    /// What a key, or what was granted before, says about a question.
    pub(super) async fn decide(&self, question: &Question, yes: bool, unattended: bool) -> Verdict {
        self.desk.decide(question, yes, unattended, &self.terminal_name).await
    }

    pub(super) fn approved_here(&self, approval: &str) {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).insert(approval.to_owned());
    }
}

/// The door's view of this program.
#[derive(Clone)]
pub(super) struct Front {
    room: Arc<Room>,
    events: mpsc::Sender<Event>,
}

impl Front {
    /// A front, and what it tells the prompt.
    pub(super) fn new(room: Arc<Room>) -> (Self, mpsc::Receiver<Event>) {
        let (events, told) = mpsc::channel(EVENTS);
        (Self { room, events }, told)
    }

    fn tell(&self, event: Event) -> Result<(), String> {
        self.events.try_send(event).map_err(|_| "prompt error: the terminal does not keep up".to_owned())
    }

    /// A person has granted this already: recorded like every other yes, and said in any case.
    fn grant(&self, question: &Arc<Question>) {
        let line = words::pipeline(&question.request.pipeline);
        self.room.say(&format!("[{}] [unattended] {line}", words::quoted(&question.request.id)));
        let _ = self.tell(Event::Unattended(Arc::clone(question)));
        let (room, question) = (Arc::clone(&self.room), Arc::clone(question));
        tokio::spawn(async move {
            let why = match room.decide(&question, true, true).await {
                Verdict::Counts => return,
                Verdict::Expired => "expired: not answered in time".to_owned(),
                Verdict::Withdrawn => "withdrawn: the requester disconnected".to_owned(),
                Verdict::Not(why) => why,
            };
            room.say(&format!("[{}] {why}", question.request.id));
        });
    }

    /// Somebody must decide here; otherwise why nobody can.
    pub(super) async fn put(&self, question: Arc<Question>) -> Result<(), String> {
        if !question.request.privileged && self.room.unattended.load(Ordering::Acquire) {
            self.grant(&question);
            return Ok(());
        }
        if let Some(why) = &self.room.not_a_place {
            return Err(format!("prompt error: {why}"));
        }
        // Looks at many processes, beside the other connections.
        let checked = MayWait::pool(|_| prompt::check()).await;
        checked.unwrap_or_else(|lost| Err(lost.to_string())).map_err(|why| {
            self.room.say(&format!("[{}] {why}", words::quoted(&question.request.id)));
            format!("prompt error: {why}")
        })?;
        self.tell(Event::Ask(question))
    }
}

impl Surface for Front {
    fn stranger(&self, uid: u32) {
        let ours = rustix::process::getuid().as_raw();
        self.room.say(&format!("rejecting connection from uid {uid} (expected {ours})"));
    }

    fn received(&self, request: &Request) {
        if self.room.verbose {
            let kind = if request.privileged { "privileged" } else { "unprivileged" };
            let line = words::pipeline(&request.pipeline);
            self.room.say(&format!("[{}] [{kind}] [client {}] {line}", words::quoted(&request.id), client(request)));
        }
    }

    fn pinged(&self, request: &Request) {
        if self.room.verbose {
            let (id, session) = (words::quoted(&request.id), words::quoted(&request.session));
            self.room.say(&format!("[{id}] ping from {session} (client {})", client(request)));
        }
    }

    fn stop(&self, request: &Request) -> Result<(), String> {
        prompt::notice(&format!("sudo-proxy stopped by {}", words::quoted(&request.session)));
        Ok(())
    }

    fn ask(&self, question: Arc<Question>) -> Asking {
        let front = self.clone();
        Box::pin(async move { front.put(question).await })
    }

    fn has_terminal(&self, approval: &str) -> bool {
        self.room.here.lock().unwrap_or_else(PoisonError::into_inner).contains(approval)
    }

    fn running(&self, approval: &str, terminal: Option<Arc<Terminal>>) {
        let _ = self.tell(Event::Running(approval.to_owned(), terminal));
    }

    fn over(&self, approval: &str, end: End) {
        self.room.here.lock().unwrap_or_else(PoisonError::into_inner).remove(approval);
        let _ = self.tell(Event::Over(approval.to_owned(), end));
    }

    fn shows_output(&self) -> bool {
        true
    }
}

fn client(request: &Request) -> String {
    if request.version.is_empty() { "unknown".to_owned() } else { words::quoted(&request.version) }
}
