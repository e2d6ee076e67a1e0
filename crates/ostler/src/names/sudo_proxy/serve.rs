//! The foreground daemon: an engine of its own behind one socket, its terminal the place where a person decides. It ends as
//! it is asked to: by a client, exit code 0; by a signal, with that very signal and the socket gone.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ostler_door_mcp::Registry;
use ostler_door_rpc::{Bound, accept_each};
use ostler_door_sudo_proxy::{Door, Settings};
use ostler_engine::{Claim, Ending, Environment, Retention, approval};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::fail;
use super::flags::Flags;
use super::front::{Front, Room};
use super::prompt::Prompt;
use crate::config::Config;
use crate::daemon::{Asked, Host, HostError, LogWriter, Native, Plan};
use crate::instances::DoorRecord;
use crate::paths::Paths;

/// The longest path that clients can connect to.
const SOCKET_MAX: usize = 107;
/// Output of commands is somebody's secret: kept only for as long as a client may come back for its answer.
const KEEP_OUTPUT: Duration = Duration::from_secs(60);

/// Why it ends.
enum Over {
    Signal(i32),
    Asked(Asked),
}

pub(super) fn run(flags: &Flags, socket: &Path) -> ExitCode {
    let log = LogWriter::to_stderr();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::ERROR)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(log.clone())
        .finish();
    // A second call would keep the first logger, which is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let (flags, socket, sink) = (flags.clone(), socket.to_owned(), log.clone());
    let over = crate::daemon::run_to_end(async move { serve(&flags, &socket, &sink).await });
    log.flush();
    crate::exclusive::give_back();
    match over.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(Over::Asked(_)) => ExitCode::SUCCESS,
        Ok(Over::Signal(signal)) => {
            // Whoever waits for us sees which signal it was.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            ExitCode::FAILURE
        }
        Err(message) => fail(&message),
    }
}

async fn serve(flags: &Flags, socket: &Path, log: &LogWriter) -> Result<Over, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut signals = Signals::catch().map_err(|error| text(&error))?;
    let running = || format!("sudo-proxy is already running on {}", socket.display());
    let listener = listen(socket, flags.socket.is_some(), running)?;
    let paths = Paths::from_env().map_err(|error| text(&error))?;
    let config = Config::load(paths.config_file()).map_err(|error| text(&error))?;
    if !config.approvals.requesters.is_empty() {
        listener.admit(&config.approvals.requesters).map_err(|error| text(&error))?;
    }
    let place = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    let instance = crate::daemon::instance_of_socket("sudo-proxy", &place);
    let lease = Host::claim(&paths, &instance, Claim::IfFree).map_err(|error| match error {
        HostError::Held { .. } => running(),
        error => error.to_string(),
    })?;
    let host = lease.open(plan()).await.map_err(|error| text(&error))?;
    let config = crate::daemon::confirmed(host.engine(), config, Vec::new()).await;
    crate::daemon::forward(host.engine(), host.dir(), &config.audit.forward);
    let eligible =
        flags.unattended_eligible.unwrap_or_else(|| Registry::from_env().load_or_empty().policy.unattended_eligible);
    let room = Arc::new(Room::new(host.engine().inbox().clone(), eligible, flags.verbose, log.clone()));
    let settings = crate::daemon::sudo_proxy_settings(&config.approvals);
    if flags.verbose {
        greet(&room, socket, &settings);
    }
    if room.may_decide() {
        super::prompt::take();
    }
    let (front, events) = Front::new(Arc::clone(&room));
    let door = Door::new(host.engine().clone(), settings, Arc::new(front));
    let own = DoorRecord {
        name: "sudo-proxy".into(),
        address: place.display().to_string(),
        connect: format!("sudo-request --socket {} COMMAND", place.display()),
    };
    let native = Native::beside(&host, own);
    let over = tokio::select! {
        () = accept_each("sudo-proxy:", &listener, |stream| door.admit(stream)) => Over::Asked(Asked::Stop),
        () = Prompt::new(room, events).run() => Over::Asked(Asked::Stop),
        () = door.stop_requested() => Over::Asked(Asked::Stop),
        asked = Native::serve_beside(native) => Over::Asked(asked),
        over = signals.next() => over,
    };
    drop(listener);
    let ending = match over {
        Over::Asked(asked) => asked.ending(),
        Over::Signal(_) => Ending::Kill,
    };
    host.stop(ending).await;
    Ok(over)
}

/// The socket; `chosen` says that somebody named this very path.
fn listen(socket: &Path, chosen: bool, running: impl Fn() -> String) -> Result<Bound, String> {
    if socket.as_os_str().len() > SOCKET_MAX {
        return Err("path must be shorter than SUN_LEN".into());
    }
    // A name alone is a file in the current folder.
    let place = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    ostler_door_rpc::bind(&place).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => match is_socket(&place) {
            true => running(),
            false => format!("{} is not a socket; it was left as it is", place.display()),
        },
        io::ErrorKind::NotFound if !chosen && std::env::var_os("XDG_RUNTIME_DIR").is_none() => {
            let folder = place.ancestors().skip(1).find(|folder| !folder.exists()).unwrap_or(&place);
            format!("{}: {error}; set XDG_RUNTIME_DIR, or choose a place with --socket PATH", folder.display())
        }
        _ => error.to_string(),
    })
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn plan() -> Plan {
    Plan {
        retention: Retention { after_exit: KEEP_OUTPUT, ..Retention::default() },
        // A person at the prompt decides what is too much; clients of this protocol expect to be asked every time.
        approvals: approval::Settings { fatigue: None, ..approval::Settings::default() },
        ..Plan::of_stand_in("sudo-proxy", Environment::of_this_process(&["OSTLER_PROCESS"]))
    }
}

fn greet(room: &Room, socket: &Path, settings: &Settings) {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    room.say(&format!("sudo-proxy listening on {}", socket.display()));
    let local = set("DISPLAY") || set("WAYLAND_DISPLAY");
    room.say(if local { "mode: local (TUI + pkexec)" } else { "mode: remote (TUI + sudo)" });
    if settings.ssh_agent.is_some() {
        room.say("ssh agent forwarding: available");
    }
}

/// The signals that end it.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    leave: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            leave: signal(SignalKind::from_raw(ostler_engine::LEAVE.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Over {
        tokio::select! {
            _ = self.interrupt.recv() => Over::Signal(SIGINT),
            _ = self.terminate.recv() => Over::Signal(SIGTERM),
            _ = self.hangup.recv() => Over::Signal(SIGHUP),
            _ = self.quit.recv() => Over::Signal(SIGQUIT),
            _ = self.leave.recv() => Over::Asked(Asked::Leave),
        }
    }
}
