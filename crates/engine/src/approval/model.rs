//! Every order of events that a small world allows, tried exhaustively with the very function that the inbox uses.
//!
//! The world: one request, two approvers (one of them names other content), its clock, an asker that may leave and come
//! back, a runner that starts a command at most once per key, another that waits to be told by a word that its ledger takes
//! once, and a daemon that may die between any two steps and forgets all but what it recorded. Its keeper may die with it: then
//! somebody may write a yes into the record, and nobody decides until a person has shown to be one. The properties are checked
//! in every state that can be reached; each seeded bug must break one.

use std::collections::{HashSet, VecDeque};

use super::machine::{Step, next};
use super::{Decision, Outcome, State};

const HASH: &str = "asked";
const OTHER: &str = "other";

/// Ways to get it wrong, each to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The command is started before the decision is recorded.
    StartsBeforeRecord,
    /// After a crash a yes is carried out again without asking whether it was.
    RunsAgainAfterCrash,
    /// A decision about other content counts.
    IgnoresHash,
    /// A decision after the deadline counts.
    ForgetsDeadline,
    /// The second answer replaces the first.
    LastWriterWins,
    /// A yes is carried out after the asker left.
    RunsForNobody,
    /// A yes from before a reboot is carried out after it.
    RunsAfterReboot,
    /// A runner that waits takes the end of its stdin for the word.
    RunsUntold,
    /// After a crash nobody looks into the ledger of the runner that waited.
    ForgetsTheLedger,
    /// After a crash a runner that waits is taken for one that runs.
    TakesWaitingForRunning,
    /// The runner that waits is told before the decision is recorded.
    TellsBeforeRecord,
    /// With keeper and daemon gone, what the record says still counts.
    BelievesTheFile,
    /// Who was hosted decides after that.
    DecidesWhileLocked,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    /// What the log says: all that survives.
    recorded: Recorded,
    /// What the daemon is about to start, in memory only.
    starting: bool,
    /// How often a command was started, and whether the keeper knows the key.
    started: u8,
    keeper_knows: bool,
    waiting: Waiting,
    asker: bool,
    expired_clock: bool,
    rebooted: bool,
    /// Keeper and daemon were lost, and nobody has shown since to be a person.
    locked: bool,
    /// What each approver was told.
    told: [Option<Vote>; 2],
    crashes: u8,
    /// A command was started while the asker was away, or when nothing was recorded.
    unlawful: bool,
}

/// The runner that waits. What it was told is in its ledger, which survives the daemon; the word to tell it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Waiting {
    /// There is none, or it was killed.
    None,
    /// It waits; the daemon knows the word.
    Untold,
    /// Its ledger has the word, and it has not read it yet.
    Told,
    /// It went.
    Gone,
}

/// What an approver said and heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Vote {
    counted: bool,
    about_this: bool,
    in_time: bool,
    while_locked: bool,
}

/// [`State`] without the parts that play no role here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Recorded {
    Pending,
    Accepted,
    Applied,
    Over,
    Denied,
    Expired,
    Withdrawn,
    Unknown,
}

fn full(recorded: Recorded) -> State {
    match recorded {
        Recorded::Pending => State::new(),
        Recorded::Accepted => State::Accepted { decision: Decision::Once },
        Recorded::Applied => State::Applied { outcome: None },
        Recorded::Over => State::Applied { outcome: Some(Outcome::Delivered) },
        Recorded::Denied => State::Denied { message: String::new(), interrupt: false },
        Recorded::Expired => State::Expired,
        Recorded::Withdrawn => State::Withdrawn { why: String::new() },
        Recorded::Unknown => State::Unknown,
    }
}

fn short(state: &State) -> Recorded {
    match state {
        State::Pending { .. } => Recorded::Pending,
        State::Accepted { .. } => Recorded::Accepted,
        State::Applied { outcome: None } => Recorded::Applied,
        State::Applied { .. } | State::Failed { .. } => Recorded::Over,
        State::Denied { .. } => Recorded::Denied,
        State::Expired => Recorded::Expired,
        State::Withdrawn { .. } => Recorded::Withdrawn,
        State::Unknown => Recorded::Unknown,
    }
}

impl World {
    fn begin() -> Self {
        Self {
            recorded: Recorded::Pending,
            starting: false,
            started: 0,
            keeper_knows: false,
            waiting: Waiting::None,
            asker: true,
            expired_clock: false,
            rebooted: false,
            locked: false,
            told: [None; 2],
            crashes: 0,
            unlawful: false,
        }
    }

    /// Takes a step through the real function; `false` if it refuses.
    fn record(&mut self, step: &Step<'_>) -> bool {
        match next(&full(self.recorded), step, HASH) {
            Ok(state) => {
                self.recorded = short(&state);
                true
            }
            Err(_) => false,
        }
    }

    /// Carries a yes out: tells who waits, or else has the keeper start one.
    fn carry_out(&mut self, bug: Bug) {
        match self.waiting {
            Waiting::Untold => self.tell(),
            Waiting::Told | Waiting::Gone if bug != Bug::ForgetsTheLedger => {}
            _ => self.start_command(bug),
        }
    }

    fn tell(&mut self) {
        self.waiting = Waiting::Told;
        self.note_law();
    }

    /// The runner reads what it was told, whoever lives.
    fn go(&mut self) {
        if self.waiting == Waiting::Told {
            self.waiting = Waiting::Gone;
            self.started += 1;
        }
    }

    fn note_law(&mut self) {
        let lawful = matches!(self.recorded, Recorded::Accepted | Recorded::Applied);
        self.unlawful |= !self.asker || !lawful;
    }

    fn is_carried_out(&self) -> bool {
        self.keeper_knows || matches!(self.waiting, Waiting::Told | Waiting::Gone)
    }

    /// Nobody needs who waits: the answer was no, or nobody asks any more.
    fn discard(&mut self) {
        if self.waiting == Waiting::Untold {
            self.waiting = Waiting::None;
        }
    }

    fn start_command(&mut self, bug: Bug) {
        // The keeper answers a key it knows with the process it started before.
        if !self.keeper_knows || bug == Bug::RunsAgainAfterCrash && self.crashes > 0 {
            self.started += 1;
            self.note_law();
        }
        self.keeper_knows = true;
    }

    fn decide(&self, approver: usize, hash: &str, decision: &Decision, bug: Bug) -> Self {
        let mut world = self.clone();
        if self.locked && bug != Bug::DecidesWhileLocked {
            // Refused, and free to come again.
            return world;
        }
        let in_time = !self.expired_clock || bug == Bug::ForgetsDeadline;
        if !in_time && world.recorded == Recorded::Pending {
            // The inbox settles what is late before it looks at a decision.
            world.record(&Step::Expired);
        }
        if bug == Bug::StartsBeforeRecord && world.recorded == Recorded::Pending && decision.is_yes() && hash == HASH {
            world.start_command(bug);
        }
        if bug == Bug::TellsBeforeRecord && world.recorded == Recorded::Pending && world.waiting == Waiting::Untold {
            world.tell();
        }
        let named = if bug == Bug::IgnoresHash { HASH } else { hash };
        if bug == Bug::LastWriterWins && matches!(world.recorded, Recorded::Denied | Recorded::Accepted) {
            world.recorded = Recorded::Pending;
        }
        let counted = world.record(&Step::Decided(decision, named));
        if world.recorded == Recorded::Denied {
            world.discard();
        }
        let (about_this, in_time, while_locked) = (hash == HASH, !self.expired_clock, self.locked);
        world.told[approver] = Some(Vote { counted, about_this, in_time, while_locked });
        world
    }

    fn successors(&self, bug: Bug) -> Vec<Self> {
        let mut after = Vec::new();
        let mut push = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            after.push(world);
        };
        push(&|world| world.expired_clock = true);
        push(&|world| {
            if world.expired_clock && world.record(&Step::Expired) {
                world.discard();
            }
        });
        // A runner is started to wait while somebody is asked, or reads at last what it was told.
        push(&|world| {
            if world.recorded == Recorded::Pending && world.asker && world.waiting == Waiting::None {
                world.waiting = Waiting::Untold;
            }
        });
        push(&|world| world.go());
        push(&|world| {
            world.asker = false;
            world.starting = false;
            world.discard();
            if bug != Bug::RunsForNobody {
                world.record(&Step::Withdrawn("left"));
            }
        });
        // Carrying out takes three steps of its own, and the daemon may die between any of them.
        push(&|world| {
            let alive = world.asker || bug == Bug::RunsForNobody;
            world.starting |= world.recorded == Recorded::Accepted && alive;
        });
        push(&|world| {
            if world.starting {
                world.carry_out(bug);
            }
        });
        push(&|world| {
            if world.starting && world.is_carried_out() {
                world.starting = !world.record(&Step::Applied);
            }
        });
        push(&|world| {
            if world.recorded == Recorded::Applied {
                world.record(&Step::Finished(&Outcome::Delivered));
            }
        });
        if self.crashes < 2 {
            push(&|world| world.crash(false, bug));
            push(&|world| world.crash(true, bug));
            push(&|world| world.lose_both(false, bug));
            push(&|world| world.lose_both(true, bug));
        }
        push(&|world| world.locked = false);
        if self.told[0].is_none() {
            after.push(self.decide(0, HASH, &Decision::Once, bug));
            after.push(self.decide(0, HASH, &Decision::deny(), bug));
        }
        if self.told[1].is_none() {
            after.push(self.decide(1, HASH, &Decision::Once, bug));
            after.push(self.decide(1, OTHER, &Decision::Once, bug));
        }
        after
    }

    /// The daemon dies, or the whole machine; what follows is what `recover` does.
    fn crash(&mut self, reboot: bool, bug: Bug) {
        self.crashes += 1;
        self.starting = false;
        if self.waiting == Waiting::Untold {
            self.started += u8::from(bug == Bug::RunsUntold);
            let counts = bug == Bug::TakesWaitingForRunning && self.recorded == Recorded::Accepted && !reboot;
            if counts {
                self.record(&Step::Applied);
            }
            self.waiting = Waiting::None;
        }
        if reboot {
            self.rebooted = true;
            self.keeper_knows = false;
            // Its ledger is from another boot, and whoever would have read it is gone.
            self.waiting = Waiting::None;
            if bug != Bug::RunsAfterReboot {
                self.record(&Step::Rebooted);
            }
            if self.recorded == Recorded::Pending {
                self.record(&Step::Withdrawn("restarted"));
            }
        } else if self.recorded == Recorded::Accepted && bug != Bug::RunsAgainAfterCrash {
            let seen = if bug == Bug::ForgetsTheLedger { self.keeper_knows } else { self.is_carried_out() };
            if seen {
                self.record(&Step::Applied);
            }
        }
    }

    /// Keeper and daemon die and the machine goes on. Nobody vouches for the record: a yes that nothing has followed from is
    /// asked again, one that was about to be carried out is unknown, and a `forged` one is among the first.
    fn lose_both(&mut self, forged: bool, bug: Bug) {
        self.crashes += 1;
        self.locked = true;
        let was_prepared = std::mem::take(&mut self.starting);
        if forged {
            self.record(&Step::Decided(&Decision::Once, HASH));
        }
        if self.waiting == Waiting::Untold {
            self.waiting = Waiting::None;
        }
        if self.recorded == Recorded::Accepted && bug != Bug::BelievesTheFile {
            if self.is_carried_out() {
                self.record(&Step::Applied);
            } else if was_prepared {
                self.record(&Step::Rebooted);
            } else {
                self.record(&Step::Suspended);
                self.told = [None; 2];
            }
        }
        // The next keeper knows no key.
        self.keeper_knows = false;
    }

    /// What must hold, in words.
    fn broken(&self) -> Option<&'static str> {
        let counted: Vec<&Vote> = self.told.iter().flatten().filter(|told| told.counted).collect();
        if self.started > 1 {
            return Some("executed twice");
        }
        if self.unlawful {
            return Some("executed without a recorded yes, or for nobody");
        }
        if counted.len() > 1 {
            return Some("two approvers were told that theirs counted");
        }
        if matches!(self.recorded, Recorded::Applied | Recorded::Over)
            && self.started == 0
            && self.waiting != Waiting::Told
            && !self.rebooted
        {
            return Some("said to be carried out, and nothing ran");
        }
        if self.started == 1 && counted.is_empty() {
            return Some("executed although nobody was told that it counted");
        }
        if counted.iter().any(|told| !told.about_this) {
            return Some("a decision about other content counted");
        }
        if counted.iter().any(|told| told.while_locked) {
            return Some("a decision counted of somebody who could not be told from who was hosted");
        }
        if counted.iter().any(|told| !told.in_time) {
            return Some("a decision after the deadline counted");
        }
        None
    }
}

/// Every state that can be reached, and the first property that one of them breaks.
fn explore(bug: Bug) -> (usize, Option<&'static str>) {
    let begin = World::begin();
    let mut seen = HashSet::from([begin.clone()]);
    let mut queue = VecDeque::from([begin]);
    while let Some(world) = queue.pop_front() {
        if let Some(why) = world.broken() {
            return (seen.len(), Some(why));
        }
        for after in world.successors(bug) {
            if seen.insert(after.clone()) {
                queue.push_back(after);
            }
        }
    }
    (seen.len(), None)
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let (states, broken) = explore(Bug::None);
    assert_eq!(broken, None);
    assert!(states > 300, "only {states} states: the world has shrunk");
}

#[test]
fn every_seeded_bug_is_found() {
    for bug in [
        Bug::StartsBeforeRecord,
        Bug::RunsAgainAfterCrash,
        Bug::IgnoresHash,
        Bug::ForgetsDeadline,
        Bug::LastWriterWins,
        Bug::RunsForNobody,
        Bug::RunsAfterReboot,
        Bug::RunsUntold,
        Bug::ForgetsTheLedger,
        Bug::TakesWaitingForRunning,
        Bug::TellsBeforeRecord,
        Bug::BelievesTheFile,
        Bug::DecidesWhileLocked,
    ] {
        let (_, broken) = explore(bug);
        assert!(broken.is_some(), "{bug:?} went unnoticed");
    }
}
