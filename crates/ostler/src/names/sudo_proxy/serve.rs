//! The foreground daemon: one socket, its terminal the place where a person decides, in front of the engine of `ostler up` where
//! that runs, else of its own. It ends as it is asked to: by a client, exit code 0; by a signal, with that very signal and the socket gone.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ostler_door_mcp::Registry;
use ostler_door_rpc::{Bound, accept_each};
use ostler_door_sudo_proxy::{Door, Settings};
use ostler_engine::{Claim, Ending, Environment, Retention};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use super::desk::{Desk, There};
use super::fail;
use super::flags::Flags;
use super::front::{Front, Room};
use super::joined::Joined;
use super::prompt::Prompt;
use crate::config::Config;
use crate::daemon::{Asked, Handed, Host, HostError, Invitation, KEEP_OUTPUT, LogWriter, Native, Plan};
use crate::instances::DoorRecord;
use crate::paths::Paths;

/// The longest path that clients can connect to.
const SOCKET_MAX: usize = 107;
/// Whether it joined is said where somebody wants to know, why not in any case.
const JOINING: &str = "ostler::daemon::joining";

/// Why it ends.
enum Over {
    Signal(i32),
    Asked(Asked),
}

pub(super) fn run(flags: &Flags, socket: &Path) -> ExitCode {
    let log = LogWriter::to_stderr();
    let joining = if flags.verbose { Level::INFO } else { Level::WARN };
    let level = Targets::new().with_default(Level::ERROR).with_target(JOINING, joining);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_target(false);
    // A second call would keep the first logger, which is as good.
    let _ = tracing_subscriber::registry().with(lines.with_writer(log.clone()).with_filter(level)).try_init();
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
    let ours = Host::claim(&paths, &instance, Claim::IfFree).map_err(|error| match error {
        HostError::Held { .. } => running(),
        error => error.to_string(),
    })?;
    let own = DoorRecord {
        name: "sudo-proxy".into(),
        address: place.display().to_string(),
        connect: format!("sudo-request --socket {} COMMAND", place.display()),
    };
    if let Some(invitation) = Invitation::find(&ours).await {
        let endpoint = Some(ours.endpoint().map_err(|error| text(&error))?);
        let settings = Settings { endpoint, ..crate::daemon::sudo_proxy_settings(&config.approvals) };
        let handed = Handed::SudoProxy { settings: settings.clone() };
        if let Some(holder) = invitation.accept(None, &environment(), &listener, own.clone(), handed).await {
            let (desk, said) = There::new();
            let (room, front, prompt) = enter(flags, socket, log, Desk::There(desk), &settings);
            let mut signal = None;
            let asked = async {
                match signals.next().await {
                    Over::Signal(number) => {
                        signal = Some(number);
                        Asked::Stop
                    }
                    Over::Asked(asked) => asked,
                }
            };
            let over = tokio::select! {
                over = holder.hold_for(listener, asked, Joined::new(room, front, said)) => over?,
                () = prompt.run() => return Ok(Over::Asked(Asked::Leave)),
            };
            ours.left(over.asked);
            return Ok(signal.map_or(Over::Asked(over.asked), Over::Signal));
        }
    }
    let host = ours.open(plan()).await.map_err(|error| text(&error))?;
    let asked = config.loosening();
    let config = crate::daemon::confirmed(host.engine(), config, asked).await;
    crate::daemon::forward(host.engine(), host.dir(), &config.audit.forward);
    let settings = crate::daemon::sudo_proxy_settings(&config.approvals);
    let desk = Desk::Here(host.engine().inbox().clone());
    let (_, front, prompt) = enter(flags, socket, log, desk, &settings);
    let door = Door::new(host.engine().clone(), settings, Arc::new(front));
    let native = Native::beside(&host, own);
    let over = tokio::select! {
        () = accept_each("sudo-proxy:", &listener, |stream| door.admit(stream)) => Over::Asked(Asked::Stop),
        () = prompt.run() => Over::Asked(Asked::Stop),
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

/// The place where a person decides, and what the door tells it.
fn enter(flags: &Flags, socket: &Path, log: &LogWriter, desk: Desk, settings: &Settings) -> (Arc<Room>, Front, Prompt) {
    let eligible =
        flags.unattended_eligible.unwrap_or_else(|| Registry::from_env().load_or_empty().policy.unattended_eligible);
    let room = Arc::new(Room::new(desk, eligible, flags.verbose, log.clone()));
    if flags.verbose {
        greet(&room, socket, settings);
    }
    if room.may_decide() {
        super::prompt::take();
    }
    let (front, events) = Front::new(Arc::clone(&room));
    (Arc::clone(&room), front, Prompt::new(room, events))
}

fn environment() -> Environment {
    Environment::of_this_process(&["OSTLER_PROCESS"])
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
        ..Plan::of_stand_in("sudo-proxy", environment())
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
