//! The keeper process: one thread, one poll loop. A turn serves whoever is ready and returns; no
//! call in it may block, and everything it remembers is bounded by the number of children.

mod begin;
mod child;
mod daemon;
mod errand;
mod greet;
mod groups;
mod guard;
mod import;
mod reap;
mod reexec;
mod spawn;
mod stdio;
mod verbs;

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::ftruncate;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::custody::Target;
use crate::sys;
use crate::wire::PACKET_MAX;
use begin::{Beginning, Origin};
use child::Children;
use daemon::{Broken, Daemon};
use errand::Errand;
use greet::Stranger;
use groups::Groups;
use guard::Guard;
use stdio::Spare;

/// A keeper without daemon, guard and children ends after this time: whoever comes later starts
/// another one and misses nothing. Long enough for a stand-in whose client starts it again at once.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Runs the keeper. To be called first thing by a program whose `argv[0]` is [`crate::NAME`];
/// descriptor 0 is the listening socket.
pub fn run() -> ExitCode {
    let server = match begin::beginning() {
        Beginning::Fresh => Server::begin(),
        Beginning::Resumed => Server::resume(),
        Beginning::Asked => {
            return match reexec::introduce() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
    };
    match server {
        Ok(server) => server.serve(),
        Err(_) => ExitCode::FAILURE,
    }
}

struct Server {
    listener: OwnedFd,
    /// `/dev/null`, for children that asked for it.
    null: OwnedFd,
    signals: OwnedFd,
    buffer: Vec<u8>,
    children: Children,
    daemon: Option<Daemon>,
    strangers: Vec<Stranger>,
    errands: Vec<Errand>,
    /// Trees that wait to be signalled by the next helper.
    targets: Vec<Target>,
    guard: Guard,
    groups: Groups,
    spare: Spare,
    origin: Origin,
    /// What the daemon wants the next one to know, and no file may.
    entrusted: Vec<u8>,
    /// The file that says that somebody is hosted here.
    note: Option<OwnedFd>,
    /// A program that is to take over, and the request that wants it.
    successor: Option<(u64, OwnedFd)>,
    /// The last daemon left on purpose.
    left: bool,
    asked_to_end: bool,
    /// Out of descriptors: nobody is let in before this.
    deaf_until: Option<Instant>,
    idle_since: Instant,
    /// How many children were acknowledged or abandoned.
    forgotten: u32,
    /// Until when our place in the queue of the out-of-memory killer is that of our children; nothing: it is our own.
    back_until: Option<Instant>,
}

/// Who is ready.
enum Ready {
    Start(Rc<str>),
    Watched(Rc<str>),
    Signals,
    Errand(usize),
    Daemon,
    Life,
    Stranger(usize),
    Listener,
}

impl Server {
    fn begin() -> Result<Server, Errno> {
        let (listener, null, origin) = begin::leave_home()?;
        Ok(Server {
            listener,
            null,
            signals: begin::take_office()?,
            buffer: vec![0; PACKET_MAX],
            children: Children::default(),
            daemon: None,
            strangers: Vec::new(),
            errands: Vec::new(),
            targets: Vec::new(),
            guard: Guard::default(),
            groups: Groups::begin(),
            spare: Spare::default(),
            origin,
            entrusted: Vec::new(),
            note: None,
            successor: None,
            left: false,
            asked_to_end: false,
            deaf_until: None,
            idle_since: Instant::now(),
            forgotten: 0,
            back_until: None,
        })
    }

    fn serve(mut self) -> ExitCode {
        while !self.is_over() {
            let ready = self.wait();
            // Positions in a list change when one is served: from the back, each is still right.
            for ready in ready.into_iter().rev() {
                self.attend(ready);
            }
            let now = Instant::now();
            self.recall_errands(now);
            self.end_overdue(now);
            self.send_strangers_away(now);
            self.watch_over(now);
            self.hunt();
            self.step_forward(now);
            self.tidy(now);
            self.flush(now);
            self.look_ahead();
            self.hand_over();
        }
        self.groups.end();
        // The last thing that it does may wait for a disk.
        if let Some(note) = self.note.filter(|_| !has_kin()) {
            let _ = ftruncate(note, 0);
        }
        ExitCode::SUCCESS
    }

    /// Nothing is left to be kept.
    fn is_over(&self) -> bool {
        let leaving = self.left || self.daemon.as_ref().is_some_and(|daemon| daemon.farewell);
        let lives = || self.children.iter().any(|(_, child)| child.exit.is_none());
        (leaving && self.children.is_empty() && !self.is_looking() && !has_kin())
            || (self.asked_to_end && self.daemon.is_none() && !lives())
            || (self.is_deserted() && self.idle_since.elapsed() > IDLE_MAX && !has_kin())
    }

    /// No daemon, none on its way, and no child: whoever comes now can start another keeper.
    fn is_deserted(&self) -> bool {
        self.daemon.is_none() && self.children.is_empty() && !self.guard.is_active()
    }

    fn attend(&mut self, ready: Ready) {
        match ready {
            Ready::Start(key) => self.look_at_start(&key),
            Ready::Watched(key) => self.look_at_watched(&key),
            Ready::Signals => {
                self.asked_to_end |= sys::drain_signals(&self.signals);
                self.reap();
            }
            Ready::Errand(index) => self.hear_errand(index),
            Ready::Daemon => self.hear_daemon(),
            Ready::Life => self.lost_died(),
            Ready::Stranger(index) => self.hear_stranger(index),
            Ready::Listener => self.let_in(),
        }
    }

    fn flush(&mut self, now: Instant) {
        if let Some(daemon) = &mut self.daemon
            && let Err(Broken) = daemon.flush(&mut self.children, now)
        {
            self.hear_last_words();
            self.lose_daemon();
        }
    }

    /// Makes ready for the next child while the one that was just born begins: whoever starts one often starts another.
    fn look_ahead(&mut self) {
        if !self.children.starting().is_empty() {
            self.spare.refill();
            self.groups.look_ahead();
        }
    }

    /// Waits until somebody is ready or something is due. Who is served last comes first.
    fn wait(&self) -> Vec<Ready> {
        let now = Instant::now();
        let mut names = Vec::new();
        let mut fds = Vec::new();
        let mut add = |name, fd, flags| {
            names.push(name);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        use std::os::fd::AsFd;
        if self.deaf_until.is_none_or(|until| until <= now) {
            add(Ready::Listener, self.listener.as_fd(), PollFlags::IN);
        }
        for (index, stranger) in self.strangers.iter().enumerate() {
            add(Ready::Stranger(index), stranger.socket.as_fd(), PollFlags::IN);
        }
        if let Some(life) = &self.guard.lost {
            add(Ready::Life, life.as_fd(), PollFlags::IN);
        }
        if let Some(daemon) = &self.daemon {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, daemon.is_listening());
            flags.set(PollFlags::OUT, daemon.wants_room(now));
            add(Ready::Daemon, daemon.socket.as_fd(), flags);
        }
        for (index, errand) in self.errands.iter().enumerate() {
            add(Ready::Errand(index), errand.result.as_fd(), PollFlags::IN);
        }
        add(Ready::Signals, self.signals.as_fd(), PollFlags::IN);
        for key in self.children.watched() {
            if let Some((key, child)) = self.children.get(key)
                && let Some(watch) = &child.watch
            {
                add(Ready::Watched(Rc::clone(key)), watch.as_fd(), PollFlags::IN);
            }
        }
        for key in self.children.starting() {
            if let Some((key, child)) = self.children.get(key)
                && let Some(start) = &child.start
            {
                let name = Ready::Start(Rc::clone(key));
                add(name, start.errors.as_fd(), PollFlags::IN);
            }
        }
        let timeout = self.next_deadline().map(|deadline| {
            // Rounded up, so that a deadline is over when we look.
            let left = deadline.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec::try_from(left).unwrap_or_default()
        });
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let ready: Vec<bool> = ready.collect();
        let mut ready = ready.into_iter();
        names.retain(|_| ready.next() == Some(true));
        names
    }

    fn next_deadline(&self) -> Option<Instant> {
        // What is over needs no waking: a deadline that nobody clears would turn the wait into a spin.
        let now = Instant::now();
        let idle = self.is_deserted().then(|| self.idle_since + IDLE_MAX).filter(|idle| *idle > now);
        let errands = self.errands.iter().map(|errand| errand.deadline);
        let strangers = self.strangers.iter().map(|stranger| stranger.deadline);
        let deaf = self.deaf_until.filter(|until| *until > now);
        let single = [
            idle,
            deaf,
            self.back_until,
            self.guard.due,
            self.groups.due,
            self.children.next_overdue(),
            self.daemon.as_ref().and_then(Daemon::retry_at),
        ];
        errands.chain(strangers).chain(single.into_iter().flatten()).min()
    }
}

/// Whether any process has us as its parent: what a child left behind is known by that to be hosted, so we stay with it.
fn has_kin() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}
