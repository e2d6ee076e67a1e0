//! Starting a process. Its folder and journal exist before the keeper forks, and are gone again if it cannot; a name that
//! was taken passes to the new process only once that process runs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_hooks::{fault, hook};
use ostler_journal::{Hold, Journal, PumpIo, PumpPty};
use ostler_keeper::{ChildIo, Own, SpawnSpec, Spawned, StdioKind, Step};
use ostler_story::Alias;
use tokio::sync::{oneshot, watch};

use super::end::KILL;
use super::gate::Pass;
use super::lasting::Lasting;
use super::registry::{Claim, Reservation};
use super::{About, Process, Registry, WinSize};
use crate::names::{Given, NameTaken};
use crate::{Engine, MayWait, id, lookup};

/// How long a disk thread waits for a fork. A fork takes less than a millisecond; one that hangs (a folder on a server that
/// is gone) must not keep a thread that others need.
const FORK_SOON: Duration = Duration::from_millis(50);
/// How long the same key waits for whoever is starting its process: longer than any folder that answers at all takes.
const SAME_KEY: Duration = Duration::from_secs(30);

/// What to start. Only values that were checked for meaning come this far.
#[derive(Debug, Default)]
pub struct SpawnRequest {
    /// A path, or a name to be looked up in the daemon's PATH.
    pub program: OsString,
    /// What it is shown as among processes, instead of its program.
    pub shown_as: Option<OsString>,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// Variables on top of the daemon's.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; the daemon's own folder if not given.
    pub cwd: Option<PathBuf>,
    /// The client's own name for it.
    pub alias: Option<Alias>,
    /// A name for people.
    pub name: Option<String>,
    /// On a terminal of this size instead of pipes.
    pub tty: Option<WinSize>,
    /// Input and output stay in memory.
    pub private: bool,
    /// Bound on what is kept of its output while it runs.
    pub live_max: Option<u64>,
    /// The caller's key: the same key again gives the same process.
    pub key: Option<String>,
    /// Its stderr is a terminal of its own session that [`Engine::command`] gives access to, never journaled: where sudo asks
    /// for a password.
    pub relayed_terminal: bool,
    /// The exit by which it says that it did nothing, see [`SpawnSpec::void_exit`].
    pub void_exit: Option<i32>,
    /// The session whose agent it is: its stdin is that session's alone, and is kept while it is.
    pub session: Option<String>,
    /// The session whose agent's own screen it is.
    pub screen_of: Option<String>,
    /// The session or process that it is started from, if that is hosted.
    pub owner: Option<String>,
}

/// Why nothing was started. Nothing is left behind and no name has changed hands.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Somebody alive is called that already.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// No such command in the daemon's PATH.
    #[error("{0:?} is not in PATH")]
    NotInPath(OsString),
    /// A NUL byte in the command, an argument or the folder.
    #[error("{}: a command cannot contain a NUL byte", program.display())]
    NulInCommand {
        /// The file that was to be executed.
        program: PathBuf,
    },
    /// A NUL byte, or an empty name, in a variable.
    #[error("an environment variable contains a NUL byte")]
    NulInEnvironment,
    /// The system refused.
    #[error("{}: {source}", program.display())]
    Refused {
        /// The file that was to be executed.
        program: PathBuf,
        /// Whether the folder was the trouble, not the file.
        in_cwd: bool,
        /// What the system said.
        source: io::Error,
    },
    /// The process folder could not be made.
    #[error("nothing could be stored: {0}")]
    Journal(#[source] io::Error),
    /// The keeper is gone, and no other came in time.
    #[error("not started: a part of ostler died and did not come back. Try again, or see `ostler doctor`")]
    KeeperGone,
    /// The engine stops.
    #[error("not started: ostler is stopping")]
    Stopping,
    /// The keeper died while it was at it. What was asked for has an id, its name and its key, and a journal that says what
    /// is known of it.
    #[error("a part of ostler died while starting {program:?}; it may have run. See `ostler ps -a`, {id}")]
    Unsure {
        /// Under which it is listed.
        id: String,
        /// What was to be started.
        program: String,
    },
}

/// A folder and journal made ready before the fork.
struct Prepared {
    dir: PathBuf,
    journal: Arc<Journal>,
}

impl Engine {
    /// Starts a process, under a name that nobody alive has.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Process, SpawnError> {
        self.start_process(request, true).await
    }

    /// Starts one of our own, whose name is made of an id and never given to another.
    pub(crate) async fn spawn_own(&self, request: SpawnRequest) -> Result<Process, SpawnError> {
        self.start_process(request, false).await
    }

    async fn start_process(&self, request: SpawnRequest, asks_for_name: bool) -> Result<Process, SpawnError> {
        let registry = &self.inner;
        let pass = registry.gate.enter().ok_or(SpawnError::Stopping)?;
        let reserved = match &request.key {
            None => None,
            Some(key) => match reserve(registry, key, &request.program).await? {
                Ok(reserved) => Some(reserved),
                Err(known) => return Ok(known),
            },
        };
        // After the key: who asks again is told of the process that has the name.
        let given = request.name.as_deref().filter(|_| asks_for_name);
        let given = given.map(|name| self.take_name(name, None)).transpose()?;
        let inherited = self.environment();
        inherited.settled().await;
        let program = lookup::executable(&request.program, &inherited.path())
            .map_err(|lookup::NotInPath(name)| SpawnError::NotInPath(name))?;
        check(&request, &program)?;
        let environment = inherited.merged(&request.env);
        let joiner = self.joiner();
        let folder = folder(request.cwd.as_deref(), || joiner.map_or_else(own_folder, |joiner| joiner.cwd.clone()));
        let about = describe(&request, folder).map_err(SpawnError::Journal)?;
        let spec = SpawnSpec {
            program: program.clone(),
            argv: std::iter::once(request.shown_as.unwrap_or(request.program)).chain(request.args).collect(),
            env: environment,
            cwd: about.cwd.clone(),
            stdio: stdio(request.tty, request.relayed_terminal),
            umask: joiner.map(|joiner| joiner.umask),
            own: if request.tty.is_some() || request.relayed_terminal { Own::Session } else { Own::Group },
            nofile: joiner.map(|joiner| joiner.nofile).or(registry.config.child_nofile),
            limits: joiner.map(|joiner| joiner.limits.clone()).unwrap_or_default(),
            void_exit: request.void_exit,
            within: None,
            meta: about.for_keeper(),
            given: Vec::new(),
        };
        let (registry, private) = (Arc::clone(registry), request.private);
        if registry.may_be_silent(&about) && !about.is_long() {
            // It touches no disk, so nobody waits for a thread that may.
            let prepared = prepare(&registry, &about).map_err(SpawnError::Journal)?;
            hook!("spawn.prepared");
            let asked = Asked::of(registry, about, program, spec, prepared, (pass, reserved, given));
            return asked.map_err(SpawnError::Journal)?.see_through().await;
        }
        let unsure = SpawnError::Unsure { id: about.id.clone(), program: about.program.clone() };
        let asking = blocking(move || {
            let prepared = prepare(&registry, &about)?;
            if private || about.is_long() {
                // The keeper will not know all of it, or is all that would.
                registry
                    .roll
                    .describe(&about.id, &about.for_roll())
                    .inspect_err(|_| clear(&registry, &prepared.dir, &about.id))?;
            }
            hook!("spawn.prepared");
            let mut asked = Asked::of(registry, about, program, spec, prepared, (pass, reserved, given))?;
            Ok(match asked.answer_soon() {
                Some(answer) => Ok(asked.finish(answer)),
                None => Err(asked),
            })
        });
        // On its own: who asked may go meanwhile.
        let seen_through = tokio::spawn(async move {
            // Cancelled: it had not begun when everything ended.
            let stopping = |error| cancelled(&error, SpawnError::Stopping).unwrap_or(SpawnError::Journal(error));
            match asking.await.map_err(stopping)? {
                Ok(done) => done,
                Err(asked) => asked.see_through().await,
            }
        });
        seen_through.await.unwrap_or(Err(unsure))
    }
}

/// The right to start the process of this key, or the process: of whoever asked for the same at the same time, one starts it
/// and the others wait.
async fn reserve(
    registry: &Arc<Registry>,
    key: &str,
    program: &OsStr,
) -> Result<Result<Reservation, Process>, SpawnError> {
    let deadline = tokio::time::Instant::now() + SAME_KEY;
    loop {
        let mut over = match registry.claim(key) {
            // The same question gets the same answer, for as long as nobody knows another.
            Claim::Known(process) if process.about().unsure => {
                let (id, program) = (process.about().id.clone(), process.about().program.clone());
                return Err(SpawnError::Unsure { id, program });
            }
            Claim::Known(process) => return Ok(Err(process)),
            Claim::Ours(reserved) => return Ok(Ok(reserved)),
            Claim::Starting(over) => over,
        };
        // Nothing is ever said there: it ends.
        if tokio::time::timeout_at(deadline, over.changed()).await.is_err() {
            let source = io::Error::new(io::ErrorKind::TimedOut, "the same key is still being started");
            return Err(SpawnError::Refused { program: program.into(), in_cwd: false, source });
        }
    }
}

/// What a spawn holds until its process is known: the way in, its key, its name.
type Held = (Pass, Option<Reservation>, Option<Given>);

/// What a keeper answers to a spawn.
pub(super) type SpawnResult = Result<Spawned, ostler_keeper::SpawnError>;

/// A spawn that the keeper has been asked for.
pub(super) struct Asked {
    pub(super) registry: Arc<Registry>,
    pub(super) about: About,
    program: PathBuf,
    spec: SpawnSpec,
    dir: PathBuf,
    pub(super) journal: Arc<Journal>,
    told: oneshot::Receiver<SpawnResult>,
    /// What was told already, and is not the end of it.
    heard: Option<SpawnResult>,
    pub(super) keepers: watch::Receiver<u32>,
    /// Goes last: whoever waits for the same key then finds its process, and whoever waits for the end all that began.
    _held: Held,
}

impl Asked {
    fn of(
        registry: Arc<Registry>,
        about: About,
        program: PathBuf,
        spec: SpawnSpec,
        prepared: Prepared,
        held: Held,
    ) -> io::Result<Self> {
        let Prepared { dir, journal } = prepared;
        // Subscribed before anybody is asked, so that no keeper is missed.
        let (keepers, told) = (registry.later_keepers(), oneshot::channel().1);
        let mut asked = Self { registry, about, program, spec, dir, journal, told, heard: None, keepers, _held: held };
        if let Err(error) = asked.ask() {
            clear(&asked.registry, &asked.dir, &asked.about.id);
            return Err(error);
        }
        Ok(asked)
    }

    /// Asks the keeper of the moment.
    pub(super) fn ask(&mut self) -> io::Result<()> {
        let (tell, told) = oneshot::channel();
        let asker = std::thread::current();
        let journal = &self.journal;
        let held = match self.registry.may_be_silent(&self.about) {
            true => Vec::new(),
            false => {
                std::iter::once(journal.ledger_reader()?).chain(journal.held()?).chain(journal.relays()?).collect()
            }
        };
        self.told = told;
        self.registry.keeper().spawn(&self.about.id, &self.spec, held, move |result| {
            let _ = tell.send(result);
            asker.unpark();
        });
        Ok(())
    }

    /// What the keeper that was asked last says, however long it takes.
    pub(super) async fn answer(&mut self) -> SpawnResult {
        match self.heard.take() {
            Some(answer) => answer,
            None => (&mut self.told).await.unwrap_or(Err(ostler_keeper::SpawnError::KeeperGone { begun: true })),
        }
    }

    /// Waits for the answer on this thread, which goes on with it at once; nothing when it takes longer than usual, or when
    /// only the next keeper knows it.
    fn answer_soon(&mut self) -> Option<SpawnResult> {
        let deadline = Instant::now() + FORK_SOON;
        loop {
            match self.told.try_recv() {
                Ok(answer @ Err(ostler_keeper::SpawnError::KeeperGone { .. })) => {
                    self.heard = Some(answer);
                    return None;
                }
                Ok(answer) => return Some(answer),
                Err(oneshot::error::TryRecvError::Closed) => {
                    self.heard = Some(Err(ostler_keeper::SpawnError::KeeperGone { begun: true }));
                    return None;
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Waits for the answer, however long it takes, and goes on with it. Who asked may go meanwhile: what was asked for is seen
    /// through all the same.
    async fn see_through(mut self) -> Result<Process, SpawnError> {
        let unsure = SpawnError::Unsure { id: self.about.id.clone(), program: self.about.program.clone() };
        let seen = Lasting::new(async move {
            match self.answer_of_some_keeper().await {
                Ok(spawned) => {
                    hook!("spawn.forked");
                    Ok(Ok(begin(&self.registry, self.about, self.journal, spawned, self.spec.stdio.first().copied())))
                }
                answer => blocking(move || Ok(self.finish(answer))).await,
            }
        });
        seen.await.map_err(|error| cancelled(&error, unsure).unwrap_or(SpawnError::Journal(error)))?
    }

    /// Touches the disk where it failed.
    fn finish(self, answer: SpawnResult) -> Result<Process, SpawnError> {
        match answer {
            Ok(spawned) => {
                hook!("spawn.forked");
                Ok(begin(&self.registry, self.about, self.journal, spawned, self.spec.stdio.first().copied()))
            }
            Err(error) => {
                // Not heard of, but started: the keeper held it when we came back.
                if let Some(process) = self.registry.get(&self.about.id) {
                    self.registry.started(&process);
                    return Ok(process);
                }
                if error == (ostler_keeper::SpawnError::KeeperGone { begun: true }) {
                    return self.search();
                }
                clear(&self.registry, &self.dir, &self.about.id);
                if error == (ostler_keeper::SpawnError::KeeperGone { begun: false }) && self.registry.gate.is_closed() {
                    return Err(SpawnError::Stopping);
                }
                Err(refusal(error, self.program))
            }
        }
    }
}

/// Removes the folder of what was not started. It may never have been made (private), and a leftover is cleared at the next
/// start.
fn clear(registry: &Registry, dir: &Path, id: &str) {
    let _ = std::fs::remove_dir_all(dir);
    let _ = registry.roll.forget(id);
}

/// What to say where work did not go wrong, but was not done because everything ends.
fn cancelled(error: &io::Error, then: SpawnError) -> Option<SpawnError> {
    let lost = error.get_ref()?.downcast_ref::<tokio::task::JoinError>()?;
    lost.is_cancelled().then_some(then)
}

/// Runs what touches the disk on a thread where it may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    MayWait::pool(|_| work()).await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
}

fn check(request: &SpawnRequest, program: &Path) -> Result<(), SpawnError> {
    let nul = |text: &OsStr| text.as_bytes().contains(&0);
    let cwd = request.cwd.as_deref().unwrap_or(Path::new("")).as_os_str();
    if nul(&request.program) || nul(cwd) || request.args.iter().any(|arg| nul(arg)) {
        return Err(SpawnError::NulInCommand { program: program.to_owned() });
    }
    match request.env.iter().any(|(name, value)| nul(name) || nul(value)) {
        true => Err(SpawnError::NulInEnvironment),
        false => Ok(()),
    }
}

fn describe(request: &SpawnRequest, cwd: PathBuf) -> io::Result<About> {
    let text = |bytes: &OsString| bytes.to_string_lossy().into_owned();
    let mut about = About::new(id::process()?, text(&request.program), request.args.iter().map(text).collect(), cwd);
    about.alias.clone_from(&request.alias);
    about.name.clone_from(&request.name);
    about.key.clone_from(&request.key);
    about.tty = request.tty.is_some();
    about.relayed = request.relayed_terminal;
    about.private = request.private;
    about.live_max = request.live_max;
    about.session.clone_from(&request.session);
    about.screen_of.clone_from(&request.screen_of);
    about.owner.clone_from(&request.owner);
    Ok(about)
}

/// Where a process starts: a relative folder is meant from where it would start if nobody said. The keeper, which forks it, is elsewhere.
fn folder(asked: Option<&Path>, usual: impl FnOnce() -> PathBuf) -> PathBuf {
    match asked {
        Some(path) if path.is_absolute() => path.to_owned(),
        Some(path) => usual().join(path),
        None => usual(),
    }
}

/// The daemon's own folder. One that was deleted under it is nobody's any more: then the folder that has its name now, the
/// user's home, or the root.
fn own_folder() -> PathBuf {
    let named = || {
        let link = std::fs::read_link("/proc/self/cwd").ok()?;
        Some(PathBuf::from(link.to_str()?.strip_suffix(" (deleted)")?))
    };
    std::env::current_dir()
        .ok()
        .or_else(|| named().filter(|folder| folder.is_dir()))
        .or_else(|| std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.is_dir()))
        .unwrap_or_else(|| "/".into())
}

/// The size of a terminal that only sudo's question is read on.
const RELAYED: StdioKind = StdioKind::Pty { rows: 24, cols: 80 };

fn stdio(tty: Option<WinSize>, relayed: bool) -> [StdioKind; 3] {
    match tty {
        None if relayed => [StdioKind::Pipe, StdioKind::Pipe, RELAYED],
        None => [StdioKind::Pipe, StdioKind::Pipe, StdioKind::Pipe],
        Some(WinSize { rows, cols }) => {
            let pty = StdioKind::Pty { rows, cols };
            [pty, pty, pty]
        }
    }
}

fn prepare(registry: &Registry, about: &About) -> io::Result<Prepared> {
    let (dir, options) = (registry.dir_of(&about.id), registry.journal_options(about));
    if let Some(errno) = fault!("spawn.prepare") {
        return Err(io::Error::from_raw_os_error(errno));
    }
    if registry.may_be_silent(about) {
        let journal = Journal::later(&dir, options, &registry.roll, None);
        return Ok(Prepared { dir, journal });
    }
    let journal = match about.private {
        true => Journal::in_memory(options)?,
        false => Journal::create_on(&dir, options, &registry.roll)?,
    };
    Ok(Prepared { dir, journal })
}

fn begin(
    registry: &Arc<Registry>,
    mut about: About,
    journal: Arc<Journal>,
    mut spawned: Spawned,
    size: Option<StdioKind>,
) -> Process {
    about.runs_as(spawned.pid, spawned.start_ticks);
    match about.private {
        true => note_private(registry, &about),
        // The keeper holds the same description, so nothing is lost before it is said.
        false => journal.to_be_described(about.encode()),
    }
    if about.relayed {
        registry.keep_terminal(&about.id, &mut spawned.io);
    }
    let io = registry.pump_io(&about, spawned.io);
    let hosted = registry.pumps.host(Arc::clone(&journal), io, false);
    registry.close_stdin_with(&hosted, &about.id);
    let process = registry.enter(about, spawned.start_ticks, journal, Some(hosted));
    if let Some(StdioKind::Pty { rows, cols }) = size.filter(|_| process.about().tty) {
        process.begins_with(WinSize { rows, cols });
    }
    registry.started(&process);
    process
}

/// Writes down how the kernel knows a process of which nothing else is on the disk: without its keeper nobody would find it.
fn note_private(registry: &Registry, about: &About) {
    let (roll, id, said) = (Arc::clone(&registry.roll), about.id.clone(), about.for_roll());
    let note = move || {
        if let Err(error) = roll.describe(&id, &said) {
            tracing::warn!("{id}: would not be found without its keeper: {error}");
        }
    };
    match tokio::runtime::Handle::try_current() {
        // Not on a thread that others wait for.
        Ok(runtime) => drop(MayWait::pool_of(&runtime, move |_| note())),
        Err(_) => note(),
    }
}

impl Registry {
    /// A process whose alias went to a newer one can no longer be reached by its client: its tree ends.
    pub(super) fn supersede(&self, old: &Process) {
        let mut about = old.described();
        about.alias = None;
        let roll = Arc::clone(&self.roll);
        let withdraw = move || {
            if let Err(error) = roll.describe(&about.id, &about.encode()) {
                tracing::warn!("{}: alias not withdrawn: {error}", about.id);
            }
        };
        match tokio::runtime::Handle::try_current() {
            _ if old.about().private => {}
            // Not on a thread that others wait for.
            Ok(runtime) => drop(MayWait::pool_of(&runtime, move |_| withdraw())),
            Err(_) => withdraw(),
        }
        if old.is_running() {
            old.kill(KILL);
        }
    }

    /// Whether a process gets files only when it has something to say or to hear. A terminal always has, a session's input is
    /// kept, and what may stall has its pipes from the start.
    fn may_be_silent(&self, about: &About) -> bool {
        let plain = !about.private && !about.tty && !about.relayed && about.session.is_none();
        plain && !self.roll.is_remote() && self.keeper().holds_later()
    }

    /// What the pumps need of a child. The keeper holds the ledger first, then memory files (private) or relays; one that holds
    /// nothing is given the ledger with the first byte of input.
    pub(super) fn pump_io(self: &Arc<Self>, about: &About, io: ChildIo) -> PumpIo {
        let mut held = io.held.into_iter();
        let ledger = held.next();
        let hold = (ledger.is_none() && io.stdin.is_some()).then(|| self.hold_later(&about.id));
        PumpIo {
            stdout: io.stdout,
            stderr: io.stderr,
            stdin: io.stdin,
            ledger,
            hold,
            pty: io.pty.map(|pty| PumpPty {
                master: pty.master,
                relay_read: pty.relay_read,
                relay_write: pty.relay_write,
            }),
            relays: if about.private { Vec::new() } else { held.collect() },
        }
    }

    fn hold_later(self: &Arc<Self>, id: &str) -> Hold {
        let (registry, id) = (Arc::downgrade(self), id.to_owned());
        Box::new(move |fd, done| match registry.upgrade() {
            Some(registry) => registry.keeper().hold(&id, fd, move |outcome| done(outcome.is_ok())),
            None => done(false),
        })
    }

    /// Closing stdin takes both ends: the pump's, and the keeper's copy.
    pub(super) fn close_stdin_with(self: &Arc<Self>, hosted: &ostler_journal::Hosted, id: &str) {
        let (registry, id) = (Arc::downgrade(self), id.to_owned());
        hosted.on_close_stdin(Box::new(move || {
            if let Some(registry) = registry.upgrade() {
                registry.keeper().close_stdin(&id);
            }
        }));
    }
}

fn refusal(error: ostler_keeper::SpawnError, program: PathBuf) -> SpawnError {
    match error {
        ostler_keeper::SpawnError::KeeperGone { .. } => SpawnError::KeeperGone,
        ostler_keeper::SpawnError::Refused(why) => SpawnError::Journal(io::Error::other(why)),
        ostler_keeper::SpawnError::Failed { step, errno } => {
            SpawnError::Refused { program, in_cwd: step == Step::Chdir, source: io::Error::from_raw_os_error(errno) }
        }
    }
}
