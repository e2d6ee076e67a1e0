//! Starts the daemon and kills it, again and again: before it listens, while it adopts, while it serves,
//! and right after a child was told to write as fast as it can.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::battery::{Battery, Progress};
use super::hosted::Hosted;
use super::victims::replace_keeper;
use crate::instance::Instance;
use crate::rng::Rng;

/// One line of progress in so much time.
const PROGRESS: Duration = Duration::from_secs(10);

/// Percent of kills that are aimed at the start of the daemon, before its socket answers.
const EARLY: u64 = 25;

/// Percent of the other kills that come just after a surge.
const SURGES: u64 = 60;

/// The last part of a run, in percent, in which children end: some while the daemon is dead.
const ENDGAME: u64 = 12;

pub(crate) struct Killer<'a> {
    instance: &'a Instance,
    battery: &'a Battery,
    progress: &'a Progress,
    rng: Rng,
    shown: Instant,
    /// Kills after which the launcher said that no daemon had answered.
    unborn: u64,
}

impl<'a> Killer<'a> {
    pub(crate) fn new(instance: &'a Instance, battery: &'a Battery, progress: &'a Progress, rng: Rng) -> Self {
        Self { instance, battery, progress, rng, shown: Instant::now(), unborn: 0 }
    }

    /// The daemon runs when this begins and is dead when it ends well.
    pub(crate) fn kill_all(&mut self, kills: u64) -> Result<()> {
        let daemon = self.instance.daemon()?;
        self.wait_and_surge();
        self.kill_keeper()?;
        daemon.kill()?;
        let endgame = kills - kills * ENDGAME / 100;
        for kill in 1..kills {
            if self.battery.findings.is_fatal() {
                return Ok(());
            }
            if kill >= endgame && self.rng.percent(30) {
                self.anyone().map_or(Ok(()), Hosted::quit)?;
            }
            self.kill_once()?;
            self.show(kill + 1, kills);
        }
        println!("  {} of {kills} kills came before the daemon had answered", self.unborn);
        Ok(())
    }

    fn kill_once(&mut self) -> Result<()> {
        let mut launcher = self.instance.launch()?;
        if self.rng.percent(EARLY) {
            if let Some(daemon) = launcher.early_daemon()? {
                std::thread::sleep(self.rng.micros(100, 6_000));
                daemon.kill()?;
            }
            // Whether it had answered before the kill is chance; that the launcher returns is not.
            if !launcher.wait()?.success() {
                self.unborn += 1;
            }
            return Ok(());
        }
        launcher.wait_success(self.instance)?;
        let daemon = self.instance.daemon()?;
        self.wait_and_surge();
        self.kill_keeper()?;
        daemon.kill()
    }

    /// The keeper, where it is its turn; the daemon lives and replaces it. Nobody to know it by: the children have ended.
    fn kill_keeper(&mut self) -> Result<()> {
        let alive = self.battery.children.iter().filter(|child| !child.is_quitting());
        let alive: Vec<i32> = alive.map(|child| child.identity.pid).collect();
        match self.battery.victims.keeper_first(&mut self.rng) {
            true => replace_keeper(&alive),
            false => Ok(()),
        }
    }

    fn wait_and_surge(&mut self) {
        let uptime = match self.rng.between(1, 100) {
            1..=45 => self.rng.micros(300, 8_000),
            46..=85 => self.rng.micros(5_000, 50_000),
            _ => self.rng.micros(50_000, 150_000),
        };
        std::thread::sleep(uptime);
        if self.rng.percent(SURGES) {
            for _ in 0..self.rng.between(1, 3) {
                let bytes = self.rng.between(128 << 10, 1 << 20);
                if let Some(Err(error)) = self.anyone().map(|child| child.surge(bytes)) {
                    self.battery.findings.fatal(&format!("surge: {error:#}"));
                }
            }
            std::thread::sleep(self.rng.micros(50, 2_500));
        }
    }

    fn anyone(&mut self) -> Option<&'a Hosted> {
        let children: Vec<&Hosted> = self.battery.everyone().collect();
        children.get(self.rng.size(0, children.len().saturating_sub(1))).copied()
    }

    fn show(&mut self, kill: u64, kills: u64) {
        if self.shown.elapsed() >= PROGRESS {
            self.shown = Instant::now();
            println!("  {kill}/{kills} kills, {} MB received by clients", self.progress.total() / 1_000_000);
        }
    }
}
