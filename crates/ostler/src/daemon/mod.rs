//! Wiring: claims an instance, starts its engine, opens its doors, leaves on signals.
//! What is here knows every part and none of their insides.

mod door_socket;
mod doors;
mod forward;
mod host;
mod joining;
mod launched;
mod limits;
mod log_writer;
mod native;
mod notices;
mod open_doors;
mod port_file;
mod port_sign;
mod service;
mod signals;
mod up;

pub(crate) use door_socket::{DoorSocket, Folder};
pub(crate) use doors::{
    Handed, OwnCdev, OwnCodecast, OwnDoor, OwnZeroclaw, cdev_record, door_names, sudo_proxy_settings,
};
pub(crate) use forward::{forward, forwarded};
pub(crate) use host::{Host, HostError, Ours, Plan, extract_login_path};
pub(crate) use joining::{
    Answering, Decide, Invitation, KEEP_OUTPUT, SOCKET as JOIN_SOCKET, SURFACE, Said, Told, UNATTENDED, Verdict,
};
pub(crate) use launched::Launched;
pub(crate) use log_writer::LogWriter;
pub(crate) use native::Native;
pub(crate) use notices::desktop;
pub(crate) use port_file::PortFile;
pub(crate) use port_sign::{PortSign, SIGN_VERB, put_up as put_up_port_sign, show_port};
pub(crate) use signals::{Asked, Signals};
pub(crate) use up::{Options, run};

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ostler_engine::{Engine, MayWait};
use sha2::{Digest, Sha256};

use crate::config::Config;

/// Two: one busy connection must not hold up the others, and pumps have threads of their own.
const WORKERS: usize = 2;

/// A buffer that is mapped by itself: more than any batch of a stream, less than a reply that a person would call large.
const LARGE: u32 = 256 * 1024;

/// Runs a daemon to its end, on the threads that doors live on. All of it: what the calling thread would wait for itself, each
/// accepted connection among it, reached it through one of those threads.
pub(crate) fn run_to_end<T: Send + 'static>(daemon: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    ostler_keeper::tame_allocator(LARGE);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("doors")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(runtime.spawn(daemon));
    runtime.shutdown_background();
    ended.map_err(io::Error::other)
}

/// Loosening settings that matter to a program beside `ostler up` that hosts agents.
const BESIDE: [&str; 2] = ["approvals.fatigue", "audit.forward"];

/// What a program that hosts agents takes of the settings once its engine runs.
pub(crate) async fn settle(host: &Host, config: Config) {
    let asked = config.loosening().into_iter().filter(|(name, _)| BESIDE.contains(&name.as_str())).collect();
    let config = confirmed(host.engine(), config, asked).await;
    be_patient(host.engine(), &config).await;
    forward(host.engine(), host.dir(), &config.audit.forward);
}

/// How often the same may be asked, as a person wants it; until then as it usually is.
async fn be_patient(engine: &Engine, config: &Config) {
    let (inbox, fatigue) = (engine.inbox().clone(), config.approvals.fatigue);
    if let Err(lost) = MayWait::pool(move |wait| inbox.set_fatigue(wait, fatigue)).await {
        tracing::error!("approvals.fatigue: {lost}");
    }
}

/// The settings without those of `asked` that nobody has confirmed to this instance. What a door's own file asks for waits like
/// them; the door looks whether it was confirmed.
pub(crate) async fn confirmed(engine: &Engine, config: Config, asked: Vec<(String, String)>) -> Config {
    let (inbox, wanted) = (engine.inbox().clone(), asked.clone());
    let read = MayWait::pool(move |wait| inbox.settings(wait, wanted).map_err(|error| error.to_string())).await;
    let waiting = read.unwrap_or_else(|lost| Err(lost.to_string())).unwrap_or_else(|error| {
        tracing::error!("what was confirmed cannot be read: {error}");
        asked
    });
    for (setting, value) in &waiting {
        tracing::warn!("{setting} = {value} does not count until you confirm it: ostler config confirm {setting}");
    }
    config.without(&waiting)
}

/// The instance of a drop-in: one per user and place, by whatever name the place is reached.
pub(crate) fn instance_name(door: &str, place: &Path) -> String {
    let uid = rustix::process::getuid().as_raw();
    let digest = Sha256::digest([uid.to_string().as_bytes(), b"\0", place.as_os_str().as_encoded_bytes()].concat());
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{door}-{hex}")
}

/// The instance of a drop-in behind a socket: the same socket is the same instance, by whatever path it is named.
pub(crate) fn instance_of_socket(door: &str, socket: &Path) -> String {
    match (socket.parent().and_then(|folder| folder.canonicalize().ok()), socket.file_name()) {
        (Some(folder), Some(name)) => instance_name(door, &folder.join(name)),
        _ => instance_name(door, socket),
    }
}

/// Replaces a file that is nobody else's business.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
