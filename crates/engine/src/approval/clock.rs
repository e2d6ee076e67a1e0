//! Time as deadlines count it: since boot, also while the machine sleeps.

use std::time::SystemTime;

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine was started.
pub(crate) fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Milliseconds since 1970, for people.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The name of this boot; without one, every start counts as another.
pub(crate) fn boot_id() -> String {
    named_boot().unwrap_or_else(|| format!("unknown, asked at {}", wall_ms()))
}

/// The name of this boot, where the kernel tells.
pub(crate) fn named_boot() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}
