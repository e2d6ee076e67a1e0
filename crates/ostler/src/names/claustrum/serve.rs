//! `-serve`: the launcher, which waits until the daemon answers and ends with its verdict, and the daemon itself.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use ostler_door_claustrum::{Config, Door};
use ostler_door_rpc::{Occupant, accept_each};
use ostler_engine::{Claim, Ending, Environment};

use super::flags::Flags;
use super::token::Token;
use super::{complain, fail, log, token, version};
use crate::daemon::{Asked, Handed, Host, HostError, Invitation, Launched, Native, Ours, Plan, Signals};
use crate::instances::DoorRecord;
use crate::paths::Paths;

/// Tells the re-executed program that it is the daemon. Never passed on to children.
const SENTINEL: &str = "CLAUSTRUM_DAEMON_CHILD";
/// What children of the daemon see, as they always have.
const MARKER: &str = "CLAUDE_SSH_DAEMON_CHILD";
/// For the clients of a daemon; a daemon neither reads nor passes it on.
const CLIENT_TOKEN: &str = "CLAUDE_RPC_TOKEN";
/// A daemon that has not answered by then never will.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What the daemon says to its launcher.
const READY: &[u8] = b"ready";

pub(crate) fn run(flags: &Flags, socket: &Path, home: &Path) -> ExitCode {
    if flags.token_file.is_empty() && flags.token_fd < 0 {
        return fail("daemonized child requires --token-file or --token-fd");
    }
    let result = match std::env::var_os(SENTINEL) {
        Some(_) => Launched::by_launcher()
            .map_err(|error| format!("daemonize: {error}"))
            .and_then(|launched| serve(flags, socket, home, launched)),
        None => launch(flags, socket),
    };
    result.unwrap_or_else(|message| fail(&message))
}

/// Starts this program again as the daemon and waits for its first word.
fn launch(flags: &Flags, socket: &Path) -> Result<ExitCode, String> {
    let token = match flags.token_file.is_empty() {
        true => token::from_descriptor(flags.token_fd).map_err(|error| match error.raw_os_error() {
            Some(_) => format!("read --token-fd: read token-fd: {}", ostler_door_claustrum::errno_text(&error)),
            None => format!("read --token-fd: {error}"),
        })?,
        false => String::new(),
    };
    let daemonize = |error: io::Error| format!("daemonize: {error}");
    let (mut ours, theirs) = UnixStream::pair().map_err(daemonize)?;
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(called_as) = words.next() {
        command.arg0(called_as);
    }
    let mut daemon = command
        .args(words)
        .env(SENTINEL, "1")
        .env(MARKER, "1")
        .env_remove(CLIENT_TOKEN)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .map_err(daemonize)?;
    // Drops the command's copy of the daemon's end, so that its death is noticed.
    drop(command);
    let handed = ours.write_all(token.as_bytes()).and_then(|()| ours.shutdown(Shutdown::Write));
    let mut verdict = Vec::new();
    let heard = ours.set_read_timeout(Some(READY_WITHIN)).and_then(|()| ours.read_to_end(&mut verdict));
    if verdict == READY {
        return Ok(ExitCode::SUCCESS);
    }
    if heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        return Err(format!("timeout waiting for daemon to accept on {}", socket.display()));
    }
    // The daemon has said on standard error what is wrong, and ends with the code that says it again.
    let code = daemon.wait().map_err(daemonize)?.code().and_then(|code| u8::try_from(code).ok());
    match (code, handed) {
        (Some(0) | None, Err(error)) => Err(daemonize(error)),
        (code, _) => Ok(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(1))),
    }
}

fn serve(flags: &Flags, socket: &Path, home: &Path, mut launched: Launched) -> Result<ExitCode, String> {
    let token = match flags.token_file.as_str() {
        "" => token::from_launcher(launched.launcher()).map_err(|error| format!("read --token-fd: {error}"))?,
        path => token::from_file(Path::new(path)).map_err(|error| match error.raw_os_error() {
            Some(_) => {
                // A folder can be opened.
                let call = if error.kind() == io::ErrorKind::IsADirectory { "read" } else { "open" };
                format!("read --token-file: {call} {path}: {}", ostler_door_claustrum::errno_text(&error))
            }
            None => format!("read --token-file: {path}: {error}"),
        })?,
    };
    let writer = log::start();
    let (flags, socket, home) = (flags.clone(), socket.to_owned(), home.to_owned());
    let served = crate::daemon::run_to_end(async move { host(&flags, token, &socket, &home, launched).await });
    writer.flush();
    match served.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(message) => {
            complain(&message);
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn host(flags: &Flags, mut token: Token, given: &Path, home: &Path, launched: Launched) -> Result<(), String> {
    let paths = Paths::from_env().map_err(|error| error.to_string())?;
    let socket = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    let instance = crate::daemon::instance_of_socket("claustrum", &socket);
    let signals = Signals::catch().map_err(|error| error.to_string())?;
    let taken = |error: io::Error| bind_error(given, &error);
    let lease = claim(&paths, &instance, &socket, taken)?;
    if let Some(pid) = lease.replaced {
        tracing::info!("[Server] taking over from pid {pid}");
    }
    let listener = ostler_door_rpc::bind(&socket).map_err(taken)?;
    let own = DoorRecord {
        name: "claustrum".into(),
        address: socket.display().to_string(),
        connect: format!("claustrum -bridge -socket {}", socket.display()),
    };
    let environment = || Environment::of_this_process(&[SENTINEL, CLIENT_TOKEN, "CLAUSTRUM_TOKEN_PIPE"]);
    // Its counters are asked for here, and are not handed over.
    let invitation = match flags.metrics_addr.is_empty() {
        true => Invitation::find(&lease).await,
        false => None,
    };
    if let Some(invitation) = invitation {
        let endpoint = lease.endpoint().map_err(|error| error.to_string())?;
        let config = Config { token: token.text.clone(), version: version(), endpoint, home: Some(home.to_owned()) };
        let handed = Handed::Claustrum { config, keep_children: flags.keep_children };
        if let Some(holder) = invitation.accept(None, &environment(), &listener, own.clone(), handed).await {
            announce(flags, token, given, launched)?;
            let over = holder.hold(listener, signals.next()).await?;
            if let Some(running) = over.abandoned {
                abandoned(running);
            }
            lease.left(over.asked);
            return Ok(());
        }
    }
    let host = lease.open(Plan::of_stand_in("claustrum", environment())).await.map_err(|error| error.to_string())?;
    let config = Config {
        token: std::mem::take(&mut token.text),
        version: version(),
        endpoint: host.endpoint("claustrum").map_err(|error| error.to_string())?,
        home: Some(home.to_owned()),
    };
    let door = Door::new(host.engine().clone(), config);
    if !flags.metrics_addr.is_empty() {
        serve_metrics(&flags.metrics_addr, &door).await;
    }
    announce(flags, token, given, launched)?;
    crate::daemon::extract_login_path(host.engine());
    let native = Native::beside(&host, own);
    let asked = tokio::select! {
        () = accept_each("[Server]", &listener, |stream| door.admit(stream)) => Asked::Stop,
        () = door.shutdown_requested() => Asked::Stop,
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    drop(listener);
    let ending = match asked {
        Asked::Stop if flags.keep_children => Ending::Abandon,
        asked => asked.ending(),
    };
    let running = host.stop(ending).await;
    if ending == Ending::Abandon {
        abandoned(running);
    }
    Ok(())
}

fn abandoned(running: usize) {
    tracing::info!("[Server] -keep-children: leaving {running} running child process(es) alive across shutdown");
}

/// The token is in use, and clients may come.
fn announce(flags: &Flags, mut token: Token, given: &Path, mut launched: Launched) -> Result<(), String> {
    token.used().map_err(|error| {
        format!("remove --token-file: {}: {}", flags.token_file, ostler_door_claustrum::errno_text(&error))
    })?;
    // Launcher and reader may be gone; the daemon is there all the same.
    let _ = writeln!(io::stdout(), "Claustrum remote server listening on {}", given.display());
    let _ = io::stdout().flush();
    let _ = launched.launcher().write_all(READY);
    Ok(())
}

/// Claims the instance. A living daemon of ours leaves only for one that can listen in its place: whoever else has the
/// path is noticed before that daemon is asked to go.
fn claim(paths: &Paths, instance: &str, socket: &Path, taken: impl Fn(io::Error) -> String) -> Result<Ours, String> {
    let mut known = None;
    loop {
        let holder = match Host::claim(paths, instance, Claim::IfFree) {
            Err(HostError::Held { pid, .. }) => pid,
            claimed => return claimed.map_err(|error| error.to_string()),
        };
        match ostler_door_rpc::look(socket).map_err(&taken)? {
            // Someone who takes no connections is most likely that daemon, and hung: that is when it must be replaced.
            Occupant::Free | Occupant::Listener(None) => break,
            Occupant::Listener(pid) if pid == holder => break,
            // Of several that start at once another one may have taken over between the two looks.
            Occupant::Listener(pid) if known != Some((holder, pid)) => known = Some((holder, pid)),
            Occupant::Listener(_) | Occupant::Occupied => return Err(taken(rustix::io::Errno::ADDRINUSE.into())),
        }
    }
    Host::claim(paths, instance, Claim::TakeOver).map_err(|error| error.to_string())
}

fn bind_error(socket: &Path, error: &io::Error) -> String {
    format!("listen unix: {}: bind: {}", socket.display(), ostler_door_claustrum::errno_text(error))
}

async fn serve_metrics(address: &str, door: &Door) {
    // Without a host: on every address of the machine.
    let place = if address.starts_with(':') { format!("[::]{address}") } else { address.to_owned() };
    match tokio::net::TcpListener::bind(place).await {
        Ok(listener) => {
            tracing::info!("[Server] metrics: serving Prometheus counters on {address}/metrics");
            tokio::spawn(ostler_door_claustrum::serve_metrics(listener, door.counters()));
        }
        Err(error) => tracing::error!("[Server] metrics: listen {address}: {error}"),
    }
}
