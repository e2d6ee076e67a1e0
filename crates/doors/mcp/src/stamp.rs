//! What every request carries anew: a random id and the time of day.

use std::io;

use ostler_api::Timestamp;

/// A version 4 UUID, from the kernel.
pub(crate) fn fresh_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim_end().to_owned())
}

/// The time of day as requests carry it: `YYYY-MM-DDTHH:MM:SSZ`.
pub fn now_iso8601() -> String {
    seconds(Timestamp::now())
}

fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_utc() {
        assert_eq!(seconds(Timestamp::from_micros(951_827_696_500_000)), "2000-02-29T12:34:56Z");
    }

    #[test]
    fn ids_are_version_4_uuids_and_differ() {
        let id = fresh_id().unwrap();
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
        assert!(parts[2].starts_with('4'), "{id}");
        assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        assert!(id.chars().all(|c| c == '-' || c.is_ascii_hexdigit() && !c.is_ascii_uppercase()), "{id}");
        assert_ne!(id, fresh_id().unwrap());
    }
}
