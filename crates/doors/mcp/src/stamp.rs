//! What every request carries anew: a random id and the time of day.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};

const DAY: u64 = 86_400;

/// A version 4 UUID from the kernel's random numbers.
pub(crate) fn fresh_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    // Below 256 bytes the kernel never gives fewer than asked for.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let bits = u128::from_be_bytes(bytes);
    let version = bits & !(0xf << 76) | 0x4 << 76;
    let variant = version & !(0x3 << 62) | 0x2 << 62;
    let hex = format!("{variant:032x}");
    let mut id = String::with_capacity(36);
    for (at, digit) in hex.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(digit);
    }
    Ok(id)
}

/// The time of day as requests carry it: `YYYY-MM-DDTHH:MM:SSZ`.
pub fn now_iso8601() -> String {
    iso8601(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn iso8601(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / DAY);
    let of_day = seconds % DAY;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day % 3600 / 60, of_day % 60)
}

/// Days since 1970-01-01 as a Gregorian date. Years begin in March here, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_era = days + 719_468;
    let (era, of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_gregorian_and_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_794_741_484, "2026-11-15T11:18:04Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(iso8601(seconds), text);
        }
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
