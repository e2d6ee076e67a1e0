//! A private instance of the product: its own state, runtime and home folders, its own socket and token.
//! The product is driven from outside only: its launcher, its socket, signals to its pid.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::args::Args;
use crate::conn::{Conn, timespec};
use crate::procfs;
use crate::wire;

/// How long a launcher may take on a loaded machine before it counts as hung.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(20);

/// The token every client of a private instance sends.
pub(crate) const TOKEN: &str = "bench-token-0123456789";

/// Instances made so far: each has a folder of its own.
static CREATED: AtomicU32 = AtomicU32::new(0);

/// The user of the unprivileged rows.
const NOBODY: u32 = 65534;

/// What a plain login session gets as its soft descriptor limit.
const USUAL_NOFILE: u64 = 1024;

/// The product's binary, unless one is named: beside this program, which cargo put into the same folder.
pub(crate) fn default_binary() -> Result<PathBuf> {
    let me = std::env::current_exe().context("own path")?;
    let beside = me.with_file_name("ostler");
    if !beside.exists() {
        bail!("{} does not exist: build it with `cargo build --release`, or name one with --bin", beside.display());
    }
    Ok(beside)
}

pub(crate) struct Instance {
    dir: PathBuf,
    bin: PathBuf,
    /// This program, where the instance's user can run it.
    tool: PathBuf,
    /// Ours is root's: it runs as an ordinary user.
    as_nobody: bool,
    /// It starts with the soft descriptor limit of a plain login session.
    usual_limit: bool,
    keep: bool,
}

/// Who an instance runs as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Whoever runs this program.
    Caller,
    /// An ordinary user with the usual soft descriptor limit: root hides every such limit.
    Ordinary,
}

impl Instance {
    pub(crate) fn new(bin: &Path, label: &str) -> Result<Self> {
        Self::create(&std::env::temp_dir(), bin, label, Who::Caller)
    }

    /// As the rest of a command line says: of `--bin`, and left behind with `--keep-dir`.
    pub(crate) fn named(mut args: Args, label: &str) -> Result<Self> {
        let bin: Option<PathBuf> = args.value("--bin")?;
        let keep = args.flag("--keep-dir");
        args.finish()?;
        let mut instance = Self::new(&bin.map_or_else(default_binary, Ok)?, label)?;
        if keep {
            instance.keep();
            println!("  {}", instance.dir().display());
        }
        Ok(instance)
    }

    /// An instance that runs as an ordinary user (nobody, when we are root) with the usual soft descriptor limit.
    pub(crate) fn unprivileged(bin: &Path, label: &str) -> Result<Self> {
        Self::create(&std::env::temp_dir(), bin, label, Who::Ordinary)
    }

    fn create(place: &Path, bin: &Path, label: &str, who: Who) -> Result<Self> {
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let dir = place.join(format!("ostler-bench-{label}-{}-{number}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for part in ["state", "run", "home"] {
            fs::create_dir(dir.join(part))?;
        }
        let mut instance = Self {
            bin: fs::canonicalize(bin).with_context(|| format!("the product, {}", bin.display()))?,
            tool: std::env::current_exe()?,
            dir,
            as_nobody: who == Who::Ordinary && rustix::process::geteuid().is_root(),
            usual_limit: who == Who::Ordinary,
            keep: false,
        };
        if instance.as_nobody {
            instance.give_to_nobody()?;
        }
        Ok(instance)
    }

    /// The build folder may be out of an ordinary user's reach, so both programs are copied in.
    fn give_to_nobody(&mut self) -> Result<()> {
        for (program, name) in [(&mut self.bin, "ostler"), (&mut self.tool, "bench")] {
            let copy = self.dir.join(name);
            fs::copy(&program, &copy)?;
            *program = copy;
        }
        for path in [".", "state", "run", "home", "ostler", "bench"] {
            chown(self.dir.join(path), Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn tool(&self) -> &Path {
        &self.tool
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("rpc.sock")
    }

    /// The folder stays when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    /// A command of the product in this instance's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.bin);
        command
            .args(arguments)
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
            .env("HOME", self.dir.join("home"))
            // A plain shell: the login PATH is asked for at every start of the daemon.
            .env("SHELL", "/bin/sh")
            .env("OSTLER_STATE", self.dir.join("state"))
            .env("OSTLER_RUNTIME", self.dir.join("run"))
            .env("CLAUSTRUM_LOG_LEVEL", "warn")
            .stdin(Stdio::null());
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// This program as this instance's user, with its limits: what a raw limit of an unprivileged row runs as.
    pub(crate) fn start_tool(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(&self.tool);
        command.args(arguments).current_dir(&self.dir).stdin(Stdio::null());
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        self.spawn(&mut command)
    }

    /// A child gets the limit that its parent has at the fork.
    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let limit = self.usual_limit.then(lower_nofile).transpose()?;
        let child = command.spawn().with_context(|| format!("start {:?}", command.get_program()));
        drop(limit);
        child
    }

    /// Runs the launcher and does not wait for it.
    pub(crate) fn launch(&self) -> Result<Launcher> {
        let token = self.dir.join("token");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&token)?;
        file.write_all(TOKEN.as_bytes())?;
        if self.as_nobody {
            chown(&token, Some(NOBODY), Some(NOBODY))?;
        }
        let log = File::options().create(true).append(true).open(self.dir.join("daemon.log"))?;
        let (socket, token) = (self.socket(), token);
        let arguments = [
            "as",
            "claustrum",
            "-serve",
            "-socket",
            socket.to_str().context("socket path")?,
            "-token-file",
            token.to_str().context("token path")?,
        ];
        let mut command = self.command(&arguments);
        command.stdout(log.try_clone()?).stderr(log);
        let started = Instant::now();
        Ok(Launcher { child: self.spawn(&mut command)?, started })
    }

    /// Starts the daemon and waits until its socket answers.
    pub(crate) fn start(&self) -> Result<Daemon> {
        self.launch()?.wait_success(self)?;
        self.daemon()
    }

    /// Who listens on the socket.
    pub(crate) fn daemon(&self) -> Result<Daemon> {
        let stream = UnixStream::connect(self.socket()).context("connect to the daemon")?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).context("credentials of the daemon")?;
        Daemon::open(peer.pid)
    }

    pub(crate) fn dial(&self) -> Result<Conn> {
        Conn::dial(&self.socket()).context("connect to the daemon")
    }

    /// Asks the daemon to stop and kill its children, and waits until it is gone.
    pub(crate) fn shutdown(&self) -> Result<()> {
        let daemon = self.daemon()?;
        let mut conn = self.dial()?;
        conn.send(&wire::request(1, "server.shutdown", None, TOKEN));
        let deadline = Instant::now() + START_DEADLINE;
        while Instant::now() < deadline && conn.turn(Duration::from_millis(200), |_| ()).is_ok() {}
        daemon.wait_gone(START_DEADLINE)
    }

    /// The last lines the product wrote to its log, for a failure message.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.dir.join("daemon.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.keep {
            // A leftover folder in the temporary folder harms nobody; a failure here must not hide the real one.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Puts the soft limit back when dropped; the hard limit is never touched.
struct NofileGuard(rustix::process::Rlimit);

fn lower_nofile() -> Result<NofileGuard> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let mut lowered = before;
    lowered.current = Some(USUAL_NOFILE);
    setrlimit(Resource::Nofile, lowered)?;
    Ok(NofileGuard(before))
}

impl Drop for NofileGuard {
    fn drop(&mut self) {
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, self.0);
    }
}

/// The `-serve` command while it runs.
pub(crate) struct Launcher {
    child: Child,
    pub(crate) started: Instant,
}

impl Launcher {
    /// The daemon this launcher has started, before it listens: the launcher's child.
    pub(crate) fn early_daemon(&mut self) -> Result<Option<Daemon>> {
        let pid = Pid::from_child(&self.child);
        let deadline = Instant::now() + START_DEADLINE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the launcher (pid {pid}) started nothing within {START_DEADLINE:?}");
            }
            let child = procfs::children(pid).unwrap_or_default().into_iter().next();
            if let Some(child) = child {
                return Ok(Daemon::open(child).ok());
            }
            std::thread::yield_now();
        }
        Ok(None)
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let pid = Pid::from_child(&self.child);
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        if !wait_pidfd(&pidfd, START_DEADLINE)? {
            self.child.kill()?;
            self.child.wait()?;
            bail!("the launcher (-serve, pid {pid}) did not return within {START_DEADLINE:?}");
        }
        Ok(self.child.wait()?)
    }

    pub(crate) fn wait_success(&mut self, instance: &Instance) -> Result<()> {
        let status = self.wait()?;
        if !status.success() {
            bail!("the launcher (-serve) ended with {status}; the log ends with:\n{}", instance.log_tail());
        }
        Ok(())
    }
}

/// The running daemon, held by a descriptor that no other process can take over.
pub(crate) struct Daemon {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Daemon {
    fn open(pid: Pid) -> Result<Self> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).with_context(|| format!("open pid {pid}"))?;
        Ok(Self { pid, pidfd })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// SIGKILL, then waits until the kernel has ended it.
    pub(crate) fn kill(&self) -> Result<()> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => self.wait_gone(START_DEADLINE),
            Err(error) => Err(error).with_context(|| format!("kill pid {}", self.pid)),
        }
    }

    pub(crate) fn wait_gone(&self, limit: Duration) -> Result<()> {
        if !wait_pidfd(&self.pidfd, limit)? {
            bail!("pid {} was still there after {limit:?}", self.pid);
        }
        Ok(())
    }
}

/// Waits until the process behind a pidfd has ended; false when it has not in time.
pub(crate) fn wait_pidfd(pidfd: &OwnedFd, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut ready, Some(&timespec(left))) {
            Ok(n) if n > 0 => return Ok(true),
            Ok(_) if left.is_zero() => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
