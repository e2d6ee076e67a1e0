//! How many processes the kernel's limits allow.

use rustix::process::{Resource, getrlimit};

use super::Check;

/// Descriptors the daemon needs for one running process: three pipes, four journal files, the ledger.
const PER_PROCESS: u64 = 8;
/// Descriptors for everything else.
const BASE: u64 = 100;
/// Fewer than this and somebody will hit it.
const PROCESSES_MIN: u64 = 200;
/// Three pipes of sixteen pages each.
const PAGES_PER_PROCESS: u64 = 48;

pub(super) fn checks() -> Vec<Check> {
    vec![descriptors(), pipes(), callers()]
}

/// Whether who connects can be told from who has its number later.
fn callers() -> Check {
    let held = std::os::unix::net::UnixStream::pair().map(|(ours, _theirs)| ostler_keeper::peer_process(&ours).is_ok());
    if held.unwrap_or(false) {
        Check::good("callers", "callers are identified by the kernel")
    } else {
        Check::weak("callers", "Linux before 6.5: a caller that ends at once may be mistaken for another process")
    }
}

fn descriptors() -> Check {
    let limit = getrlimit(Resource::Nofile);
    let show = |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| value.to_string());
    let text = format!("soft {}, hard {}", show(limit.current), show(limit.maximum));
    // The daemon and the keeper raise soft to hard; children get the soft limit back.
    let room = limit.maximum.unwrap_or(u64::MAX).saturating_sub(BASE) / PER_PROCESS;
    if room < PROCESSES_MIN {
        Check::weak(
            "descriptors",
            format!(
                "{text}: room for about {room} processes at once; raise the hard limit (LimitNOFILE=, limits.conf)"
            ),
        )
    } else if room > 1_000_000 {
        Check::good("descriptors", format!("{text}: enough"))
    } else {
        Check::good("descriptors", format!("{text}: room for about {room} processes at once"))
    }
}

fn pipes() -> Check {
    let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let Some(pages) = number("/proc/sys/fs/pipe-user-pages-soft") else {
        return Check::weak("pipes", "the kernel does not tell the limit");
    };
    if pages == 0 || rustix::process::geteuid().is_root() {
        return Check::good("pipes", "no limit for this user");
    }
    let room = pages / PAGES_PER_PROCESS;
    Check::good("pipes", format!("{pages} pages: above about {room} processes output gets slower; nothing is lost"))
}
