//! Points in time as people give them: how long ago, a date, or a time of the day.

use std::time::Duration;

use ostler_api::Timestamp;

use super::helper;
use crate::config::parse_duration;

const EXPECTED: &str = "10m, 2h or 3d ago, a time of the day (14:30), or a date (2026-01-31T14:30:00Z)";

/// Reads `10m`, `14:30`, `14:30:05`, or an RFC 3339 date. A time of the day is the last one that has been.
pub(super) fn parse_since(text: &str) -> Result<Timestamp, String> {
    let now = Timestamp::now();
    if let Some(time) = Timestamp::parse(text) {
        return Ok(time);
    }
    if is_clock(text) {
        return clock(text, now).ok_or_else(|| format!("`date` does not say when {text} was; give a date"));
    }
    match parse_duration(text) {
        Ok(ago) => Ok(before(now, ago)),
        Err(_) => Err(format!("expected {EXPECTED}")),
    }
}

fn before(now: Timestamp, ago: Duration) -> Timestamp {
    Timestamp::from_micros(now.as_micros().saturating_sub(u64::try_from(ago.as_micros()).unwrap_or(u64::MAX)))
}

fn is_clock(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &&str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    (2..=3).contains(&parts.len()) && parts.iter().all(number)
}

/// The machine's own `date` knows its time zone, and when clocks are changed there.
fn clock(text: &str, now: Timestamp) -> Option<Timestamp> {
    let at = |day: &str| {
        let said = helper::output("date", &[&format!("--date={day} {text}"), "+%s"])?;
        let seconds: u64 = said.trim().parse().ok()?;
        Some(Timestamp::from_secs(seconds))
    };
    at("today").filter(|today| *today <= now).or_else(|| at("yesterday"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_given_in_the_ways_that_people_have() {
        let now = Timestamp::now().as_micros();
        let ago = |text: &str| now.saturating_sub(parse_since(text).unwrap().as_micros()) / 1_000_000;
        assert!(ago("10m").abs_diff(600) <= 2 && ago("2h").abs_diff(7200) <= 2 && ago("3d").abs_diff(259_200) <= 2);
        assert_eq!(parse_since("2026-01-31T14:30:00Z").unwrap().to_string(), "2026-01-31T14:30:00.000000Z");
        for clock in ["00:00", "23:59", "12:30:05"] {
            assert!(ago(clock) <= 25 * 3600, "{clock} is the last one that has been");
        }
        for wrong in ["", "soon", "25:61", "1:2:3:4", "14:", "-5m"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
