//! A process that can be found by a port. Head nodes ask `lsof -ti :PORT -sTCP:LISTEN` whose daemon listens there, and a daemon
//! shows its sockets to nobody. So a helper that has no secret listens on the same port of another loopback address. It never
//! holds the daemon's own listener: an agent could take that from it and answer our clients. It is hosted like every helper,
//! because an agent can take it over whole.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ostler_engine::Engine;
use ostler_engine::brief::Brief;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The first argument of such a process.
pub(crate) const SIGN_VERB: &str = "__port";
/// The keeper ends helpers after an hour; then there is another.
const LASTS: Duration = Duration::from_secs(3500);
/// How soon there is another when one was ended.
const AGAIN: Duration = Duration::from_secs(1);
/// Addresses to try: one of them may be somebody else's, or the daemon's before us.
const ADDRESSES: [IpAddr; 9] = [
    loopback(2),
    loopback(3),
    loopback(4),
    loopback(5),
    loopback(6),
    loopback(7),
    loopback(8),
    loopback(9),
    // Where the daemon listens on every address of the other kind.
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// The right to look into every process, which makes lsof find the daemon itself: a second answer would only confuse.
const SYS_PTRACE: u32 = 19;

const fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// Such a process is there while this is, and while the daemon and the owner of the door live.
pub(crate) struct PortSign(Arc<()>);

/// Keeps such a process for a port of the process `owner`.
pub(crate) fn put_up(engine: &Engine, port: u16, owner: u32) -> PortSign {
    let sign = PortSign(Arc::default());
    if !ostler_keeper::shield::is_raised() || may_look_everywhere() {
        return sign;
    }
    let (forker, wanted) = (engine.forker(), Arc::downgrade(&sign.0));
    let started = std::thread::Builder::new().name("port-sign".into()).spawn(move || {
        let (port, pid, owner) = (port.to_string(), std::process::id().to_string(), owner.to_string());
        while wanted.strong_count() > 0 {
            let mut sign = Brief::new("/proc/self/exe", &[SIGN_VERB, &port, &pid, &owner], LASTS);
            sign.env.clear();
            sign.cwd = "/".into();
            match forker.run(&sign) {
                Ok(ran) if ran.said.is_empty() => {}
                Ok(ran) => tracing::warn!("port {port}: {}", String::from_utf8_lossy(&ran.said).trim()),
                Err(error) => tracing::debug!("port {port}: {error}"),
            }
            std::thread::sleep(AGAIN);
        }
    });
    if let Err(error) = started {
        tracing::warn!("lsof will not find this daemon by its port: {error}");
    }
    sign
}

fn may_look_everywhere() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & (1 << SYS_PTRACE) != 0)
}

/// Is such a process: listens and says nothing, until the daemon or the owner of the door is gone.
pub(crate) fn show_port(port: &OsStr, daemon: &OsStr, owner: &OsStr) -> ExitCode {
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let port = number(port).and_then(|port| u16::try_from(port).ok());
    let process = |text| number(text).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let (Some(port), Some(daemon), Some(owner)) = (port, process(daemon), process(owner)) else {
        return ExitCode::from(2);
    };
    let open = |pid| pidfd_open(pid, PidfdFlags::empty());
    let (Ok(daemon), Ok(owner)) = (open(daemon), open(owner)) else { return ExitCode::SUCCESS };
    let Some(listener) = ADDRESSES.iter().find_map(|address| TcpListener::bind((*address, port)).ok()) else {
        eprintln!("lsof will not find this daemon by its port: no other loopback address has it free");
        // Nobody frees one soon.
        let _ = poll(&mut [&daemon, &owner].map(|process| PollFd::new(process, PollFlags::IN)), None);
        return ExitCode::FAILURE;
    };
    loop {
        let mut watched =
            [daemon.as_fd(), owner.as_fd(), listener.as_fd()].map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
        let _ = poll(&mut watched, None);
        let [ended, left, came] = watched.map(|one| !one.revents().is_empty());
        if ended || left {
            return ExitCode::SUCCESS;
        }
        if came {
            // Nothing is said here; whoever comes is sent away at once.
            drop(listener.accept());
        }
    }
}
