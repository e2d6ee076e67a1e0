//! The server: one port, in front of the engine of `ostler up` where that runs, else of its own. A second one for the same
//! repository is refused; a stop that was asked for ends the agents, and their sessions are there again after the next start.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_door_cdev::{Pairing, Reach, Settings};
use ostler_door_web::{Exposure, ExternalUrl, NotAnOrigin};
use ostler_engine::{Claim, Ending, Environment};
use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::config::Values;
use super::{Start, fail, version};
use crate::config::Config;
use crate::daemon::{
    Handed, Host, HostError, Invitation, LogWriter, Native, OwnCdev, OwnDoor, Plan, Signals, cdev_record,
};
use crate::paths::Paths;

/// What is served, where, and how.
struct Wanted {
    repo: PathBuf,
    address: SocketAddr,
    settings: Settings,
    /// Nobody looks at what is printed.
    headless: bool,
}

pub(super) fn run(start: Start, values: Values) -> ExitCode {
    let wanted = match wanted(start, values) {
        Ok(wanted) => wanted,
        Err(message) => return fail(&message),
    };
    let log = LogWriter::to_stderr();
    let level = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    log.take_events(level.unwrap_or_else(|| Targets::new().with_default(Level::INFO)));
    let served = crate::daemon::run_to_end(async move { serve(&wanted).await });
    log.flush();
    match served.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

/// What the flags and the environment mean together; flags count first.
fn wanted(start: Start, values: Values) -> Result<Wanted, String> {
    let folder = start.repo.or(values.repo).unwrap_or_else(|| ".".into());
    let repo = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    if !repo.is_dir() {
        return Err(format!("{} is no folder", repo.display()));
    }
    let host = match start.host.as_deref() {
        None => values.host,
        Some("localhost") => [127, 0, 0, 1].into(),
        Some(host) => host.parse().map_err(|_| format!("--host {host}: expected an IP address"))?,
    };
    let url = start.external_url.or(values.external_url);
    if let Some(url) = &url {
        url.parse::<ExternalUrl>().map_err(|error: NotAnOrigin| format!("--external-url {url}: {error}"))?;
    }
    if values.certificate.is_some() != values.key.is_some() {
        return Err("CDEV_SECURITY_TLS_CERT and CDEV_SECURITY_TLS_KEY belong together: set both".to_owned());
    }
    let is_local = host.to_canonical().is_loopback();
    let reach =
        Reach { url, certificate: values.certificate.zip(values.key), insecure_lan: start.insecure_lan && !is_local };
    if !is_local && !reach.is_open() {
        return Err(format!(
            "other machines could connect to {host}, and nothing would protect what they say. Choose one: --external-url \
             (a tunnel or proxy in front of it), CDEV_SECURITY_TLS_CERT and CDEV_SECURITY_TLS_KEY, or --insecure-lan"
        ));
    }
    let pairing = Pairing {
        approval: !start.insecure_pairing && (values.approval || !is_local || reach.is_open()),
        insecure: start.insecure_pairing,
        local_decides: true,
        token: values.token,
        ..Pairing::default()
    };
    let settings = Settings {
        version: version(),
        repo: Some(repo.clone()),
        heartbeat: values.heartbeat,
        pairing,
        rate: values.limited.then_some(values.rate),
        origins: values.origins,
        reach,
        shutdown_ends: values.shutdown_ends,
        shell: values.shell,
        claude: values.claude,
        max_file_bytes: values.file_kb.saturating_mul(1024),
        max_diff_bytes: values.diff_kb.saturating_mul(1024),
    };
    let address = SocketAddr::new(host, start.port.unwrap_or(values.port));
    Ok(Wanted { repo, address, settings, headless: start.headless })
}

impl Wanted {
    fn listen(&self) -> Result<TcpListener, String> {
        TcpListener::bind(self.address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!("{}: another program listens there; choose one: --port", self.address),
            _ => format!("{}: {error}", self.address),
        })
    }

    /// Says where the server is: its page is for a browser on this machine, what others scan there leads them to `exposure`.
    fn announce(&self, exposure: &Exposure, bound: SocketAddr) {
        tracing::info!("serving {} on {bound}", self.repo.display());
        if self.headless {
            return;
        }
        let mut lines = format!("Pair a device: {}/pair\n", exposure.from_here(bound));
        if let Some(url) = exposure.from_elsewhere(bound) {
            lines.push_str(&format!("From elsewhere: {url}\n"));
        }
        // Whoever reads it may have left.
        let _ = io::stdout().write_all(lines.as_bytes()).and_then(|()| io::stdout().flush());
    }
}

async fn serve(wanted: &Wanted) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let signals = Signals::catch().map_err(|error| text(&error))?;
    let paths = Paths::from_env().map_err(|error| text(&error))?;
    let config = Config::load(paths.config_file()).map_err(|error| text(&error))?;
    // What cannot be served must not begin to be.
    let exposure = wanted.settings.exposure().map_err(|error| text(&error))?;
    let listener = wanted.listen()?;
    let bound = listener.local_addr().map_err(|error| text(&error))?;
    let instance = crate::daemon::instance_name("cdev", &wanted.repo);
    let ours = Host::claim(&paths, &instance, Claim::IfFree).map_err(|error| held(error, &wanted.repo))?;
    let record = cdev_record(&exposure, bound);
    if let Some(invitation) = Invitation::find(&ours).await {
        let handed = Handed::Cdev { settings: wanted.settings.clone() };
        let environment = Environment::of_this_process(&["OSTLER_PROCESS"]);
        let joined = invitation.accept(Some(&config.sessions), &environment, &listener, record.clone(), handed).await;
        if let Some(holder) = joined {
            wanted.announce(&exposure, bound);
            let over = holder.hold(listener, signals.next()).await?;
            ours.left(over.asked);
            return Ok(());
        }
    }
    let host = ours.open(Plan::of_agents("cdev", &config)).await.map_err(|error| text(&error))?;
    crate::daemon::settle(&host, config).await;
    let opened =
        listener.try_clone().and_then(|own| OwnCdev::open(host.engine().clone(), own, wanted.settings.clone()));
    let mut door = match opened {
        Ok(door) => door,
        Err(error) => {
            host.stop(Ending::Keep).await;
            return Err(error.to_string());
        }
    };
    door.welcome_back().await;
    wanted.announce(&exposure, bound);
    drop(listener);
    let native = Native::beside(&host, record);
    let asked = tokio::select! {
        asked = door.serve() => asked,
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    Box::new(door).end(asked).await;
    host.stop(asked.ending()).await;
    Ok(())
}

fn held(error: HostError, repo: &Path) -> String {
    match error {
        HostError::Held { pid, .. } => {
            let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
            format!("a cdev is already serving {}{pid}", repo.display())
        }
        error => error.to_string(),
    }
}
