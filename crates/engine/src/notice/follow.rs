//! The thread that tells: it follows the feed, looks at what entries are about, and asks the board who is due.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use ostler_journal::{EventCursor, EventStep};
use ostler_story::Exit;
use ostler_workspace::{Durable, read_small, replace};

use super::board::{Board, NAMED_MAX, Now, Standing, VERSION};
use super::{For, Memory, Notices, Rules, Ways, What, answer, held, notice, words};
use crate::approval::{AskKind, Bound, clock};
use crate::feed::{Change, Filter, Kind, Opened, Position};
use crate::process::{Doing, Need};
use crate::{Engine, MayWait, Process};

/// Beside the feed: what was told, and how far the feed was read.
const FILE: &str = "notices.json";
/// All subjects and notices that are remembered are less.
const FILE_MAX: u64 = 8 << 20;
/// How often the claims of terminal programs are looked at, while any runs.
const CLAIMS_EVERY: Duration = Duration::from_secs(1);
/// How long nothing is looked at while nothing happens.
const REST: Duration = Duration::from_secs(60);
/// How long news are gathered before they are read.
const GATHER: Duration = Duration::from_millis(100);
/// Entries of the feed that are read before what they are about is looked at.
const BATCH: usize = 1000;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// A claim, and the end of a program, in the order of a program's states.
const CLAIMED: u64 = 1;
const EXITED: u64 = 2;

pub(super) fn run(wait: &MayWait, notices: &Notices, engine: &Engine, rules: &Rules, ways: &Arc<dyn Ways>) {
    let mut follower = match Follower::open(wait, notices, engine, rules, ways) {
        Ok(follower) => follower,
        Err(error) => return tracing::error!("nobody is told of anything: {error}"),
    };
    while let Err(error) = follower.follow() {
        // What was not read is read then: nothing is lost, it is only late.
        tracing::warn!("notices: {error}");
        if !notices.wait(wait, REST) {
            return;
        }
    }
}

struct Follower<'a> {
    wait: &'a MayWait,
    notices: &'a Notices,
    engine: &'a Engine,
    rules: &'a Rules,
    ways: &'a Arc<dyn Ways>,
    cursor: EventCursor,
    /// What was told of the entry that comes first.
    told: Option<(u64, u64)>,
}

impl<'a> Follower<'a> {
    fn open(
        wait: &'a MayWait,
        notices: &'a Notices,
        engine: &'a Engine,
        rules: &'a Rules,
        ways: &'a Arc<dyn Ways>,
    ) -> io::Result<Self> {
        let file = engine.inner.config.dir.join(FILE);
        let feed = engine.feed();
        let (board, fresh) = match read(&file) {
            Some(board) => (board, false),
            None => (Board::new(feed.newest(wait)?.to_string(), clock::wall_ms()), true),
        };
        let after: Position = board.after.parse().unwrap_or_default();
        let Opened { cursor, told, gap, .. } = feed.read_after(wait, after)?;
        notices.publish(&board, feed);
        *held(&notices.shared.memory) = Some(Memory { board, file });
        let follower = Self { wait, notices, engine, rules, ways, cursor, told };
        if fresh || gap.is_some() {
            follower.look_at_all();
        }
        Ok(follower)
    }

    /// Until it is over, or the feed cannot be read.
    fn follow(&mut self) -> io::Result<()> {
        let ring = self.notices.clone();
        let subscription = self.cursor.journal().subscribe(Arc::new(move || ring.ring()));
        let (mut claims, mut looked) = (true, None);
        loop {
            subscription.arm();
            self.read_on()?;
            if looked.is_none_or(|at: Instant| at.elapsed() >= CLAIMS_EVERY) {
                (claims, looked) = (self.look_at_claims(), Some(Instant::now()));
            }
            let next = self.tell().map_or(REST, Duration::from_millis);
            if !self.notices.wait(self.wait, if claims { next.min(CLAIMS_EVERY) } else { next }) {
                return Ok(());
            }
            // What comes at once is read at once: nobody is told so soon that it would matter.
            std::thread::sleep(GATHER);
        }
    }

    /// Takes what the feed has, and looks at what it is about.
    fn read_on(&mut self) -> io::Result<()> {
        let (feed, filter) = (self.engine.feed(), Filter::default());
        let mut payload = Vec::new();
        loop {
            let (mut touched, mut entries) = (Vec::new(), 0);
            while entries < BATCH {
                payload.clear();
                match self.cursor.next_blocking(&mut payload)? {
                    EventStep::Event(head) => {
                        touched.extend(feed.changes(&head, &payload, self.told, &filter).iter().filter_map(subject));
                        entries += 1;
                    }
                    EventStep::Gap { .. } => self.look_at_all(),
                    EventStep::UpToDate | EventStep::WouldBlock => break,
                }
            }
            if entries == 0 {
                return Ok(());
            }
            let (mut changed, mut seen) = (false, BTreeSet::new());
            // They are looked at as they are now: the last change of each is the one that made them so.
            for (id, time_ms, gone) in touched.into_iter().rev() {
                if seen.insert(id.clone()) {
                    changed |= self.look_at(&id, time_ms, gone);
                }
            }
            let position = Position::after(self.cursor.position()).to_string();
            // Where nothing changed it is not written down: what is read twice says the same twice.
            self.note(changed, |board| (board.after, board.read_ms) = (position, clock::wall_ms()));
        }
    }

    /// Changes the board, and writes it down if it is to be.
    fn note(&self, write_it: bool, change: impl FnOnce(&mut Board)) {
        self.notices.remember(self.wait, |memory| {
            change(&mut memory.board);
            if write_it {
                memory.write();
            }
        });
    }

    /// What a subject stands in now; `true` if that is new.
    fn look_at(&self, id: &str, time_ms: u64, gone: bool) -> bool {
        let mut changed = false;
        if gone {
            self.note(false, |board| changed = board.forget(id));
            return changed;
        }
        let standing = match id.chars().next() {
            Some('s') => {
                let standing = self.engine.sessions().get(id).and_then(|session| session.attention());
                standing.map(|(what, mark)| Standing { what, mark })
            }
            Some('p') => match self.engine.inner.process(id) {
                // Its claims say more.
                Some(process) if process.is_running() => return false,
                process => process.and_then(|process| exited(&process)),
            },
            _ => self.asked(id),
        };
        self.note(false, |board| changed = board.take(id, standing, time_ms));
        changed
    }

    /// A request that no session asks: those of sessions are theirs.
    fn asked(&self, id: &str) -> Option<Standing> {
        let approval = self.engine.inbox().peek(id)?;
        if !approval.state.is_pending() || approval.ask.bound == Bound::Session {
            return None;
        }
        let what = match approval.ask.kind {
            AskKind::Question => For::Question,
            AskKind::Command | AskKind::ToolUse => For::Permission,
        };
        Some(Standing { what: What::Needs(what), mark: [approval.asked_at, 0, 0, 0] })
    }

    /// Looks for what the feed cannot tell any more. What needs somebody counts; what ended before it was read last is nobody's
    /// news.
    fn look_at_all(&self) {
        let sessions = self.engine.sessions().list().into_iter().map(|session| session.view());
        let sessions = sessions.map(|view| (view.id, view.activity_ms));
        let ended = |process: Process| {
            let exit_ns = process.bounds().exit.as_ref().map(|exit| exit.time_ns)?;
            Some((process.id().to_owned(), exit_ns / NANOS_PER_MILLI))
        };
        let processes = self.engine.list().into_iter().filter_map(ended);
        let asked = self.engine.inbox().pending().into_iter().map(|approval| (approval.id, approval.asked_at));
        for (id, since_ms) in sessions.chain(processes).chain(asked) {
            self.look_at(&id, since_ms, false);
            self.note(false, |board| board.skip(&id));
        }
    }

    /// What terminal programs claim, of which no feed tells; `true` while any runs.
    fn look_at_claims(&self) -> bool {
        let follows = |process: &Process| process.about().tty && process.is_running() && !process.is_waiting();
        let running: Vec<Process> = self.engine.list().into_iter().filter(follows).collect();
        for process in &running {
            let claimed = claimed(process);
            let id = process.id();
            self.notices.remember(self.wait, |memory| {
                let board = &mut memory.board;
                // The same said again is the same.
                let same = |standing: &Standing| {
                    let known = board.subjects.get(id);
                    known.is_some_and(|known| (known.what, known.mark[3]) == (standing.what, standing.mark[3]))
                };
                let since_ms = claimed.map_or(0, |standing| standing.mark[1]);
                if !claimed.as_ref().is_some_and(same) && board.take(id, claimed, since_ms) {
                    memory.write();
                }
            });
        }
        !running.is_empty()
    }

    /// Tells whoever is to be told; gives the milliseconds after which to look again.
    fn tell(&self) -> Option<u64> {
        let now_ms = clock::wall_ms();
        let now = Now { ms: now_ms, minute: self.ways.minute(now_ms) };
        let onlookers = self.notices.onlookers();
        let look = |memory: &mut Memory| {
            let due = memory.board.due(&now, self.rules, |id| onlookers.looked(id, now_ms));
            if due.seen {
                memory.write();
            }
            due
        };
        let mut due = self.notices.remember(self.wait, look)?;
        if due.of.is_empty() {
            return due.next_ms;
        }
        due.of.truncate(NAMED_MAX);
        let answer = match due.of.as_slice() {
            [(id, _)] if self.rules.content && self.rules.answer => answer::answerable(self.wait, self.engine, id),
            _ => None,
        };
        let (answer, whole) = answer.unzip();
        let text = words::text(self.engine, &due.of, self.rules.content, whole);
        let sent = self.notices.remember(self.wait, |memory| {
            let sent = memory.board.tell(&due.of, text, answer, now_ms);
            // What cannot be written is told all the same: somebody waits for it.
            memory.write();
            self.notices.publish(&memory.board, self.engine.feed());
            sent
        })?;
        hook!("notice.noted");
        let (number, notices, feed) = (sent.number, self.notices.clone(), self.engine.feed().clone());
        let came = move |way: &str, result: Result<String, String>| {
            if let Err(why) = &result {
                tracing::warn!("notice {number} by {way}: {why}");
            }
            if let Some(memory) = &mut *held(&notices.shared.memory) {
                memory.board.came(number, way, result);
                memory.write();
                notices.publish(&memory.board, &feed);
            }
        };
        self.ways.send(&notice(&sent), Arc::new(came));
        Some(1)
    }
}

/// What a terminal program claims, as far as somebody is to be told.
fn claimed(process: &Process) -> Option<Standing> {
    let claim = process.claim()?;
    let what = match claim.doing {
        Doing::NeedsYou(Some(Need::Permission)) => What::Needs(For::Permission),
        Doing::NeedsYou(Some(Need::Question)) => What::Needs(For::Question),
        Doing::NeedsYou(Some(Need::Auth)) => What::Needs(For::Login),
        Doing::NeedsYou(None) => What::Needs(For::Something),
        // A shell says of every command how it ended.
        Doing::Failed if claim.reported => What::Failed,
        Doing::Done if claim.reported => What::Ended,
        _ => return None,
    };
    let mut words = std::hash::DefaultHasher::new();
    (&claim.title, &claim.message).hash(&mut words);
    Some(Standing { what, mark: [CLAIMED, claim.since_ms, 0, words.finish()] })
}

/// What a change is about, when it was, and whether that is deleted.
fn subject(change: &Change) -> Option<(String, u64, bool)> {
    let id = match change.kind {
        Kind::SessionMade | Kind::SessionSaid | Kind::SessionChanged => return None,
        Kind::SessionForgotten => return change.session.clone().map(|id| (id, 0, true)),
        Kind::ProcessForgotten => return change.process.clone().map(|id| (id, 0, true)),
        _ => change.process.as_ref().or(change.approval.as_ref()).or(change.session.as_ref())?,
    };
    Some((id.clone(), change.time_ns / NANOS_PER_MILLI, false))
}

/// How a terminal program ended; of others nobody is told, nor of a failure that somebody has seen or wanted.
fn exited(process: &Process) -> Option<Standing> {
    let about = process.about();
    if !about.tty || about.relayed || process.is_waiting() || process.is_superseded() {
        return None;
    }
    let what = match process.exit()? {
        Exit::Code(0) => What::Ended,
        _ if process.has_failed_unseen() => What::Failed,
        _ => return None,
    };
    Some(Standing { what, mark: [EXITED, 0, 0, 0] })
}

fn read(file: &Path) -> Option<Board> {
    let text = match read_small(file, FILE_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!("{}: {error}; notices begin anew", file.display());
            return None;
        }
    };
    match serde_json::from_str::<Board>(&text) {
        Ok(board) if board.version <= VERSION => Some(board),
        _ => {
            tracing::warn!("{}: not readable by this version; notices begin anew", file.display());
            None
        }
    }
}

impl Memory {
    /// Replaced in one step. What cannot be written is told again by a later daemon, at worst.
    fn write(&self) {
        // These types always serialise.
        let text = serde_json::to_vec(&self.board).unwrap_or_default();
        if let Err(error) = replace(&self.file, &self.file.with_extension("new"), &text, Durable::No) {
            tracing::warn!("{}: {error}", self.file.display());
        }
    }
}
