//! What the daemon is and who is here.

use serde_json::{Value, json};

use crate::{DoorState, PROTOCOL, name_of};

pub(super) fn status(shared: &DoorState) -> Value {
    let sessions = shared.sessions();
    let settings = &shared.settings;
    json!({
        "server_version": settings.version,
        "protocol_version": PROTOCOL,
        "active_sessions": sessions.len(),
        "session_ids": sessions.iter().map(name_of).collect::<Vec<_>>(),
        "config_dir": settings.config_dir,
        "local_ipc_endpoint": settings.socket,
    })
}

/// The process is looked at through the kernel's eyes.
pub(super) fn health(shared: &DoorState) -> Value {
    let uptime = shared.started.elapsed().as_secs_f64();
    json!({
        "status": "ok",
        "pid": shared.settings.pid,
        "uptime_seconds": uptime as u64,
        "process": {"cpu_percent": cpu_seconds().map(|used| used / uptime.max(0.001) * 100.0), "rss_bytes": rss_bytes()},
    })
}

fn rss_bytes() -> Option<u64> {
    let figures = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = figures.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9)
}

pub(super) fn guests(shared: &DoorState) -> Value {
    let guests = shared.presence.guests();
    let guest = |guest: &crate::presence::Guest| {
        json!({
            "tui_id": guest.id,
            "connected_at_unix": guest.since.as_micros() / 1_000_000,
            "peer_label": guest.label,
            "transport": guest.transport,
        })
    };
    json!({"tuis": guests.iter().map(guest).collect::<Vec<_>>()})
}
