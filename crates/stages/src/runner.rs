//! From the approved file to the outcome. Everything that can be found wrong is found before the first stage begins.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use rustix::fs::Mode;
use rustix::process::umask;
use sha2::{Digest, Sha256};

use crate::STAGES_MAX;
use crate::capture::{capture, hex};
use crate::child::Child;
use crate::failure::{Failure, Stop};
use crate::launch::{Running, Way};
use crate::outcome::{FailKind, Outcome};
use crate::program::Program;
use crate::sink::Sink;
use crate::spec::{Elevate, Spec, Stage};
use crate::sudo::{self, Check, Sudo};
use crate::terminal::Terminal;

/// A request has at most 1 MiB, and no character of it takes more than six in JSON.
const SPEC_MAX: u64 = 8 * 1024 * 1024;

/// Longer than any limit that makes sense, and short enough for a clock to count.
const LIMIT_MAX: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// A command line, and all that can be made ready before anybody has said yes to it.
pub(crate) struct Loaded {
    spec: Spec,
    /// What there is to become root with. Why there is nothing is told after what is wrong with the command itself.
    root: Result<Root, Failure>,
}

/// How the stages become root, if they do.
enum Root {
    Never,
    /// Without asking anybody.
    Silent(Sudo),
    /// After a question on the terminal, which is lent to the group of the child.
    Asking(Sudo, Terminal, Child),
}

/// Runs what was loaded.
pub(crate) fn outcome(loaded: Result<Loaded, Failure>, sink: &mut Sink) -> Outcome {
    match loaded {
        Ok(Loaded { spec, root }) => run(&spec, root, sink).unwrap_or_else(|stop| stop.outcome(spec.limit)),
        Err(failure) => Stop::from(failure).outcome(std::time::Duration::ZERO),
    }
}

/// What the file says, if it is the file that was approved, and what it needs.
pub(crate) fn load(path: &Path, sha256_hex: &str) -> Result<Loaded, Failure> {
    let spec = read(path, sha256_hex)?;
    let root = Root::of(spec.elevate);
    Ok(Loaded { spec, root })
}

impl Root {
    fn of(elevate: Elevate) -> Result<Self, Failure> {
        match elevate {
            Elevate::No => Ok(Self::Never),
            Elevate::NeverAsk => Ok(Self::Silent(Sudo::find()?)),
            Elevate::AskOnTerminal => {
                let (sudo, terminal) = (Sudo::find()?, Terminal::own()?);
                let holder = sudo.take(&terminal)?;
                Ok(Self::Asking(sudo, terminal, holder))
            }
        }
    }
}

fn read(path: &Path, sha256_hex: &str) -> Result<Spec, Failure> {
    let bad = |message: String| Failure::new(FailKind::BadSpec, message);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SPEC_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| bad(format!("{}: {error}", path.display())))?;
    if bytes.len() as u64 > SPEC_MAX {
        return Err(bad(format!("{} is longer than any command that can be approved", path.display())));
    }
    if !hex(&Sha256::digest(&bytes)).eq_ignore_ascii_case(sha256_hex) {
        return Err(bad(format!("{} is not what was approved; nothing was run", path.display())));
    }
    let spec: Spec = serde_json::from_slice(&bytes).map_err(|error| bad(format!("{}: {error}", path.display())))?;
    check(&spec)?;
    Ok(spec)
}

fn check(spec: &Spec) -> Result<(), Failure> {
    let bad = |message: &str| Failure::new(FailKind::BadSpec, message);
    if spec.stages.is_empty() || spec.stages.len() > STAGES_MAX {
        return Err(bad(&format!("{} stages; between 1 and {STAGES_MAX} can be run", spec.stages.len())));
    }
    for (key, value) in &spec.env {
        let mut letters = key.bytes();
        let named = letters.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic());
        if !named || !letters.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) || value.contains('\0') {
            return Err(bad("a variable of the environment has a name or value that cannot be set"));
        }
    }
    for (index, stage) in spec.stages.iter().enumerate() {
        if !stage.program.is_absolute() || stage.argv.is_empty() || stage.argv.iter().any(|text| text.contains('\0')) {
            return Err(bad("a stage needs an absolute program and arguments without NUL").at(index));
        }
    }
    Ok(())
}

fn run(spec: &Spec, root: Result<Root, Failure>, sink: &mut Sink) -> Result<Outcome, Stop> {
    if spec.limit.is_zero() {
        return Err(Stop::TimedOut(Vec::new()));
    }
    let deadline = Instant::now() + spec.limit.min(LIMIT_MAX);
    umask(Mode::from_raw_mode(spec.umask & 0o777));
    // For root opened for the comparison only: sudo opens the path itself.
    let programs = open_all(spec)?;
    match root? {
        Root::Never => plain(spec, programs, sink, deadline),
        Root::Silent(sudo) => never_ask(spec, &sudo, sink, deadline),
        Root::Asking(sudo, _, holder) if spec.stages.len() == 1 => ask_once(spec, &sudo, &holder, sink, deadline),
        Root::Asking(sudo, terminal, holder) => ask_for_all(spec, &sudo, &terminal, &holder, sink, deadline),
    }
}

fn open_all(spec: &Spec) -> Result<Vec<Option<Program>>, Failure> {
    let open = |(index, stage): (usize, &Stage)| Program::open(stage).map_err(|failure| failure.at(index));
    spec.stages.iter().enumerate().map(open).collect()
}

fn plain(spec: &Spec, opened: Vec<Option<Program>>, sink: &mut Sink, deadline: Instant) -> Result<Outcome, Stop> {
    let mut programs = Vec::new();
    for ((index, program), stage) in opened.into_iter().enumerate().zip(&spec.stages) {
        let hidden =
            || Failure::new(FailKind::NotExecutable, format!("{}: permission denied", stage.program.display()));
        let program = program.ok_or_else(|| hidden().at(index))?;
        program.check_executable(stage).map_err(|failure| failure.at(index))?;
        programs.push(program);
    }
    let mut running = Running::start(spec, &Way::Plain(&programs))?;
    capture(&mut running, sink, deadline)?;
    Ok(done(&running))
}

/// One stage: sudo asks by itself. `-k` with a command: whatever was remembered does not count, and nothing will be.
fn ask_once(spec: &Spec, sudo: &Sudo, holder: &Child, sink: &mut Sink, deadline: Instant) -> Result<Outcome, Stop> {
    let mut running = Running::start(spec, &Way::Sudo { sudo, option: "-k", group: Some(holder.group()) })?;
    capture(&mut running, sink, deadline)?;
    Ok(done(&running))
}

/// Several stages: one password for all. They share the group that the terminal was lent to, so that a key such as ^C,
/// and the hang-up when we end, reach them all.
fn ask_for_all(
    spec: &Spec,
    sudo: &Sudo,
    terminal: &Terminal,
    holder: &Child,
    sink: &mut Sink,
    deadline: Instant,
) -> Result<Outcome, Stop> {
    sudo.authenticate(terminal, holder.group(), deadline)?;
    let check = Check { group: Some(holder.group()), deadline };
    let outcome = checked(spec, sudo, &check, sink);
    sudo.forget(&check);
    outcome
}

fn never_ask(spec: &Spec, sudo: &Sudo, sink: &mut Sink, deadline: Instant) -> Result<Outcome, Stop> {
    if spec.stages.len() > 1 {
        return checked(spec, sudo, &Check { group: None, deadline }, sink);
    }
    let mut running = Running::start(spec, &Way::Sudo { sudo, option: "-n", group: None })?;
    capture(&mut running, sink, deadline)?;
    if let ([child], [stderr, stdout]) = (running.children.as_slice(), running.streams.as_slice())
        && stdout.is_empty()
        && sudo.wanted_password(child.code.unwrap_or(-1), stderr.short(), deadline)?
    {
        return Err(sudo::password_needed().into());
    }
    Ok(done(&running))
}

fn checked(spec: &Spec, sudo: &Sudo, check: &Check, sink: &mut Sink) -> Result<Outcome, Stop> {
    sudo.check(spec, check)?;
    let mut running = Running::start(spec, &Way::Sudo { sudo, option: "-n", group: check.group })?;
    capture(&mut running, sink, check.deadline)?;
    Ok(done(&running))
}

fn done(running: &Running) -> Outcome {
    let exit_codes = running.children.iter().map(|child| child.code.unwrap_or(-1)).collect();
    let mut stderr: Vec<_> = running.streams.iter().map(|stream| stream.captured()).collect();
    let stdout = stderr.pop().unwrap_or_default();
    Outcome::Done { exit_codes, stdout, stderr }
}
