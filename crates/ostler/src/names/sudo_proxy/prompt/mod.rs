//! The prompt: one question at a time, in the order they came, each decided by one key that was pressed after it was shown.
//! It decides through the inbox like everybody else, so it may also be told that somebody else was first, that the client
//! is gone or that time is up.

mod ask;
mod key;
mod reader;
mod relay;
mod result;
mod style;
mod tty;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ostler_door_sudo_proxy::{End, Question, words};
use ostler_engine::Terminal;
use tokio::sync::mpsc;

use super::front::Room;
use crate::daemon::Verdict;
use crate::output::Paint;
use crate::request::{Offer, Row, is_shown_whole, wrap};
use ask::Asking;
use key::KeyAnswer;
use style::Style;
use tty::Tty;

pub(super) use tty::{check, take};

/// A line for the person, at once: the daemon may be about to end. Nobody misses it where there is no terminal.
pub(super) fn notice(line: &str) {
    let _ = tty::say(&format!("{} {line}\n", Style::from_env().paint(Paint::Dim, "■")));
}

/// As the inbox counts it.
const SECONDS: u64 = 60;
/// A question that comes so soon after another one takes its place: somebody may be about to answer the other one.
const SAME_PLACE: Duration = Duration::from_secs(2);
const RULE: &str = "━━━━━━━━━━━━━━━━━━━━━━━━━";
/// Lines that wait while a question is on the screen; older ones are not shown.
const LINES_WAITING: usize = 64;

/// What the prompt is told.
pub(super) enum Event {
    /// Somebody must decide.
    Ask(Arc<Question>),
    /// An approved command runs.
    Running(String, Option<Arc<Terminal>>),
    /// A question is over.
    Over(String, End),
    /// A command runs without being asked about.
    Unattended(Arc<Question>),
}

/// The prompt's side of things.
pub(super) struct Prompt {
    room: Arc<Room>,
    events: mpsc::Receiver<Event>,
    waiting: VecDeque<Arc<Question>>,
    /// Lines that wait for a question to be settled: nothing stands below one.
    lines: VecDeque<Vec<Row>>,
    /// When the last question left the screen.
    left: Option<Instant>,
    style: Style,
}

impl Prompt {
    pub(super) fn new(room: Arc<Room>, events: mpsc::Receiver<Event>) -> Self {
        Self { room, events, waiting: VecDeque::new(), lines: VecDeque::new(), left: None, style: Style::from_env() }
    }

    /// Asks until nobody can tell it anything any more.
    pub(super) async fn run(mut self) {
        loop {
            while let Some(lines) = self.lines.pop_front() {
                self.print(&lines).await;
            }
            if let Some(question) = self.waiting.pop_front() {
                if let Err(error) = self.put(&question).await {
                    self.room.say(&format!("[{}] prompt i/o error: {error}", question.request.id));
                }
                continue;
            }
            match self.events.recv().await {
                Some(event) => self.take(event),
                None => return,
            }
        }
    }

    /// What happens while nothing is being asked, or to a question that is not on the screen.
    fn take(&mut self, event: Event) {
        match event {
            Event::Ask(question) => self.waiting.push_back(question),
            Event::Over(approval, end) => match self.waiting.iter().position(|waiting| waiting.approval == approval) {
                Some(place) => drop(self.waiting.remove(place)),
                None => self.later(result::lines(&end)),
            },
            Event::Unattended(question) => {
                let agent = if question.request.forward_agent { " (agent forwarded)" } else { "" };
                let line = words::pipeline(&question.request.pipeline);
                self.later(vec![Row::ours(Paint::Plain, format!("▶ {line}{agent}"))]);
            }
            Event::Running(..) => {}
        }
    }

    /// Shows these lines when no question is on the screen.
    fn later(&mut self, lines: Vec<Row>) {
        if self.lines.len() >= LINES_WAITING {
            self.lines.pop_front();
        }
        self.lines.push_back(lines);
    }

    /// Shows a question and waits until it is settled, here or elsewhere.
    async fn put(&mut self, question: &Arc<Question>) -> io::Result<()> {
        let tty = Tty::open()?;
        tty.foreground().await;
        let room = Arc::clone(&self.room);
        let quiet = room.quiet();
        let settled = self.answer(&tty, question).await;
        self.left = Some(Instant::now());
        let settled = settled?;
        let rule = self.style.paint(Paint::Head, RULE);
        tty.write(format!("\n→ {}\n{rule}\n", settled.label)).await?;
        drop(quiet);
        if settled.holds {
            self.hold(&tty, &question.approval).await?;
        }
        Ok(())
    }

    /// Waits for a key, or for word that the question is settled.
    async fn answer(&mut self, tty: &Tty, question: &Question) -> io::Result<Settled> {
        let offer = Offer { seconds: SECONDS, unattended: self.room.eligible };
        let replaces = self.left.is_some_and(|left| left.elapsed() < SAME_PLACE);
        let mut asking = Asking::show(tty, question, offer, self.style, replaces).await?;
        self.room.shown(&question.approval);
        let key = loop {
            tokio::select! {
                input = asking.wait() => if let Some(key) = asking.take(input).await? {
                    break key;
                },
                event = self.events.recv() => match event {
                    Some(Event::Over(approval, end)) if approval == question.approval => {
                        let label = elsewhere(&end);
                        self.later(result::lines(&end));
                        return Ok(Settled { label, holds: false });
                    }
                    Some(Event::Running(approval, _)) if approval == question.approval => {
                        return Ok(Settled { label: "Approved elsewhere".into(), holds: false });
                    }
                    Some(event) => self.take(event),
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                },
            }
        };
        drop(asking);
        Ok(self.decide(question, key::meaning(key, question.request.privileged)).await)
    }

    async fn decide(&self, question: &Question, pressed: KeyAnswer) -> Settled {
        let privileged = question.request.privileged;
        let (yes, label) = match pressed {
            KeyAnswer::No => (false, "Denied"),
            _ if !is_shown_whole(question) => (false, "Denied: the command is too long to be shown"),
            KeyAnswer::YesFromNowOn if self.room.eligible => (true, "Approved (unattended for this session)"),
            KeyAnswer::Yes | KeyAnswer::YesFromNowOn => (true, "Approved"),
        };
        if yes {
            self.room.approved_here(&question.approval);
        }
        match self.room.decide(question, yes, false).await {
            Verdict::Counts => {
                if yes && pressed == KeyAnswer::YesFromNowOn && self.room.eligible {
                    self.room.unattended.store(true, Ordering::Release);
                }
                Settled { label: label.into(), holds: yes && privileged }
            }
            Verdict::Expired => Settled { label: "Timeout".into(), holds: false },
            Verdict::Withdrawn => Settled { label: "Withdrawn: the client is gone".into(), holds: false },
            Verdict::Not(why) => Settled { label: crate::output::spelled(&why), holds: false },
        }
    }

    /// A privileged command has the terminal until it ends: sudo may ask for a password.
    async fn hold(&mut self, tty: &Tty, approval: &str) -> io::Result<()> {
        let mut terminal: Option<Arc<Terminal>> = None;
        loop {
            let passing = async {
                match &terminal {
                    Some(terminal) => relay::relay(tty, terminal).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = self.events.recv() => event,
                passed = passing => {
                    terminal = None;
                    passed?;
                    continue;
                }
            };
            match event {
                Some(Event::Running(id, given)) if id == approval => terminal = given,
                Some(Event::Over(id, end)) if id == approval => {
                    self.later(result::lines(&end));
                    return Ok(());
                }
                Some(event) => self.take(event),
                None => return Ok(()),
            }
        }
    }

    /// Shows lines where there is a terminal to show them on.
    async fn print(&self, lines: &[Row]) {
        let Ok(tty) = Tty::open() else { return };
        tty.foreground().await;
        let lines = wrap(lines, tty.size().0.saturating_sub(1));
        let text: String = lines.iter().map(|row| self.style.paint(row.paint, &row.text) + "\n").collect();
        // Nobody misses it on a terminal that is gone.
        let _ = tty.write(text).await;
    }
}

/// How a question on the screen ended.
struct Settled {
    label: String,
    /// Whether the command that follows has the terminal.
    holds: bool,
}

/// What to say of a question that was not settled by a key here.
fn elsewhere(end: &End) -> String {
    match end {
        End::Expired => "Timeout",
        End::Withdrawn => "Withdrawn: the client is gone",
        End::Denied => "Denied elsewhere",
        End::Ran { .. } | End::Failed(_) => "Approved elsewhere",
    }
    .into()
}
