//! Starts the stages: each one's stdout is the next one's stdin, the first reads nothing, no shell, no descriptor beyond
//! the first three.

use std::io::{PipeReader, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::capture::Stream;
use crate::child::Child;
use crate::failure::Failure;
use crate::frame::Kind;
use crate::kin::Kin;
use crate::outcome::FailKind;
use crate::program::Program;
use crate::spec::{Spec, Stage};
use crate::sudo::Sudo;

/// How a stage is started.
pub(crate) enum Way<'a> {
    /// By descriptor, as the user that we are.
    Plain(&'a [Program]),
    /// Through sudo with this option, in this group (or in one of its own).
    Sudo { sudo: &'a Sudo, option: &'a str, group: Option<Pid> },
}

/// Everything that was started.
pub(crate) struct Running {
    pub(crate) children: Vec<Child>,
    /// Stderr of each stage, in order, then stdout of the last.
    pub(crate) streams: Vec<Stream>,
    /// What the stages became root with, if they did.
    sudo: Option<Sudo>,
}

/// A killed process ends at once, unless it is stuck in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// What a command of root has to end by itself.
const TERM_WAIT: Duration = Duration::from_secs(1);

/// Between two looks at who is left.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// sudo gives the command two seconds between its last two signals.
const ALRM_WAIT: Duration = Duration::from_secs(6);

impl Running {
    /// Starts all stages, or none: what had begun when one failed is killed.
    pub(crate) fn start(spec: &Spec, way: &Way) -> Result<Self, Failure> {
        let sudo = match way {
            Way::Sudo { sudo, .. } => Some((*sudo).clone()),
            Way::Plain(_) => None,
        };
        let mut running = Self { children: Vec::new(), streams: Vec::new(), sudo };
        running.start_all(spec, way)?;
        Ok(running)
    }

    /// Ends the stages; gives back those of which something lives on. Never kills sudo itself, which would leave its
    /// command running with nobody to end it: sudo passes TERM on, and takes ALRM as the order to end its command by all
    /// means. That command's own children it leaves to us.
    pub(crate) fn end(&mut self) -> Result<Vec<usize>, Failure> {
        let Some(sudo) = self.sudo.clone() else {
            self.children.iter().for_each(|child| child.signal_group(Signal::KILL));
            return self.living(KILL_WAIT);
        };
        let mut kin = Kin::of(self.children.len());
        for (signal, wait) in [(Signal::TERM, TERM_WAIT), (Signal::ALARM, ALRM_WAIT)] {
            kin.look(&self.children);
            let unfinished = self.children.iter().filter(|child| child.code.is_none());
            unfinished.for_each(|child| child.signal(signal));
            if self.living(wait)?.is_empty() {
                break;
            }
        }
        kin.look(&self.children);
        // Ourselves first, which is enough where we are root; then by sudo, where it needs no password for that.
        for kill in [None, Some(&sudo)] {
            let living = kin.living();
            if !living.is_empty() && self.kill_groups(&living, kill) {
                wait_for(KILL_WAIT, || kin.living().is_empty());
            }
        }
        Ok(kin.living())
    }

    /// Kills the groups of these stages; whether any was reached. Each is still that stage's own: its first process was not
    /// collected.
    fn kill_groups(&self, stages: &[usize], sudo: Option<&Sudo>) -> bool {
        let children = stages.iter().filter_map(|&index| self.children.get(index));
        let mut groups: Vec<Pid> = children.map(Child::group).collect();
        groups.dedup();
        let killed = groups.into_iter().filter(|group| match sudo {
            Some(sudo) => sudo.kill_group(*group, Instant::now() + KILL_WAIT),
            None => kill_process_group(*group, Signal::KILL).is_ok(),
        });
        killed.count() > 0
    }

    /// Who has not ended after `wait`.
    fn living(&mut self, wait: Duration) -> Result<Vec<usize>, Failure> {
        let until = Instant::now() + wait;
        let mut living = Vec::new();
        for (index, child) in self.children.iter_mut().enumerate() {
            if child.wait(until)?.is_none() {
                living.push(index);
            }
        }
        Ok(living)
    }

    fn start_all(&mut self, spec: &Spec, way: &Way) -> Result<(), Failure> {
        let last = spec.stages.len().saturating_sub(1);
        let mut before: Option<PipeReader> = None;
        for (index, stage) in spec.stages.iter().enumerate() {
            let no_pipe = |error| Failure::system("making a pipe", error).at(index);
            let (out, out_end) = pipe().map_err(no_pipe)?;
            let (err, err_end) = pipe().map_err(no_pipe)?;
            let stdin = before.take().map_or_else(Stdio::null, Stdio::from);
            let stdio = [stdin, Stdio::from(out_end), Stdio::from(err_end)];
            self.children.push(start_one(spec, index, stage, way, stdio).map_err(|failure| failure.at(index))?);
            self.streams.push(Stream::new(Kind::Stderr, index, err));
            if index == last {
                self.streams.push(Stream::new(Kind::Stdout, index, out));
            } else {
                before = Some(out);
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    /// Nothing goes on that nobody watches. What the stages left in the background is not theirs any more.
    fn drop(&mut self) {
        if self.children.iter().any(|child| child.code.is_none()) {
            let _ = self.end();
        }
    }
}

/// Waits until it is so, or no longer.
fn wait_for(patience: Duration, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !is_so() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn start_one(spec: &Spec, index: usize, stage: &Stage, way: &Way, stdio: [Stdio; 3]) -> Result<Child, Failure> {
    let started = match way {
        Way::Sudo { sudo, option, group } => Child::start(connect(&mut sudo.stage(option, spec, stage), stdio), *group),
        Way::Plain(programs) => {
            let program = programs.get(index).ok_or_else(|| Failure::system("finding a program", "none"))?;
            let mut command = Command::new(program.path());
            let name = stage.argv.first().map(String::as_str).unwrap_or_default();
            command.arg0(name).args(stage.argv.iter().skip(1)).current_dir(&spec.cwd).env_clear();
            command.envs(spec.env.iter().map(|(key, value)| (key, value)));
            program.shared(|| Child::start(connect(&mut command, stdio), None))?
        }
    };
    started.map_err(|error| {
        Failure::new(FailKind::NotExecutable, format!("{} could not be started: {error}", stage.program.display()))
    })
}

fn connect(command: &mut Command, [stdin, stdout, stderr]: [Stdio; 3]) -> &mut Command {
    command.stdin(stdin).stdout(stdout).stderr(stderr)
}
