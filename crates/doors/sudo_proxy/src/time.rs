//! The age of a request: an ISO 8601 time, fresh on arrival. A time is read whole or not at all; a piece that cannot be
//! read is never passed over, because the text is shown to whoever approves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Older requests are refused: what was captured must not be useful later.
const OLDEST: u64 = 60;
/// Clocks differ a little. A time further ahead would keep a captured request fresh for longer than ids are remembered.
const NEWEST: u64 = 60;
const DAY: u64 = 86_400;

/// Why a time does not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not given.
    #[error("missing time field")]
    Missing,
    /// Not a time.
    #[error("malformed time field")]
    Malformed,
    /// Too long ago.
    #[error("request too old: {0}s (max {OLDEST}s)")]
    TooOld(u64),
    /// Too far ahead.
    #[error("request time is {0}s in the future (max {NEWEST}s)")]
    TooNew(u64),
}

/// Refuses what is not a time close to `now`.
pub(crate) fn check_fresh(text: &str, now: SystemTime) -> Result<(), TimeError> {
    if text.is_empty() {
        return Err(TimeError::Missing);
    }
    let time = parse(text).ok_or(TimeError::Malformed)?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    match (now.checked_sub(time), time.saturating_sub(now)) {
        (Some(age), _) if age > OLDEST => Err(TimeError::TooOld(age)),
        (_, ahead) if ahead > NEWEST => Err(TimeError::TooNew(ahead)),
        _ => Ok(()),
    }
}

/// Whole seconds since 1970 of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|±HH:MM]`; without a zone it is UTC.
fn parse(text: &str) -> Option<u64> {
    let (date, rest) = text.trim_matches([' ', '\t']).split_once('T')?;
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at_checked(zone_at)?;
    let [year, month, day] = numbers(date, '-')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    // A leap second is a second.
    let possible = (1970..=9999).contains(&year) && hour < 24 && minute < 60 && second <= 60;
    if !possible || !(1..=days_in(year, month)?).contains(&day) || !is_number(fraction) {
        return None;
    }
    let seconds = days_before(year, month, day)? * DAY + hour * 3600 + minute * 60 + second;
    match zone.split_at_checked(1) {
        None | Some(("Z", "")) => Some(seconds),
        Some(("+", offset)) => seconds.checked_sub(offset_seconds(offset)?),
        Some(("-", offset)) => seconds.checked_add(offset_seconds(offset)?),
        Some(_) => None,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Option<u64> {
    is_number(text).then(|| text.parse().ok()).flatten()
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut next = || number(parts.next()?);
    let found = [next()?, next()?, next()?];
    parts.next().is_none().then_some(found)
}

/// `HH:MM`, `HHMM` or `HH`.
fn offset_seconds(text: &str) -> Option<u64> {
    let (hours, minutes) = match (text.split_once(':'), text.len()) {
        (Some(parts), _) => parts,
        (None, 4) => text.split_at_checked(2)?,
        (None, _) => (text, "0"),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> Option<u64> {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if is_leap(year) { 29 } else { 28 }),
        _ => None,
    }
}

/// Days from 1970-01-01 to this date.
fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    let last = year.checked_sub(1)?;
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(last) - leaps(1969);
    let months: u64 = (1..month).filter_map(|month| days_in(year, month)).sum();
    Some(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-02-13T14:30:00Z
    const NOW: u64 = 1_770_993_000;

    fn check(text: &str) -> Result<(), TimeError> {
        check_fresh(text, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    #[test]
    fn a_fresh_time_passes_with_or_without_a_zone() {
        for fresh in ["2026-02-13T14:30:00Z", "2026-02-13T14:29:00Z", "2026-02-13T14:31:00Z", "2026-02-13T14:30:00"] {
            assert_eq!(check(fresh), Ok(()), "{fresh}");
        }
    }

    #[test]
    fn fractional_seconds_are_read() {
        for fresh in ["2026-02-13T14:30:00.5Z", "2026-02-13T14:29:59.999999999Z", "2026-02-13T14:30:00.0+00:00"] {
            assert_eq!(check(fresh), Ok(()), "{fresh}");
        }
        assert_eq!(check("2026-02-13T14:30:00.Z"), Err(TimeError::Malformed));
    }

    #[test]
    fn an_offset_is_a_true_offset() {
        for fresh in ["2026-02-13T23:30:00+09:00", "2026-02-13T09:00:00-0530", "2026-02-14T00:30:00+10"] {
            assert_eq!(check(fresh), Ok(()), "{fresh}");
        }
        // The same digits under another offset are another time.
        assert_eq!(check("2026-02-13T14:30:00+09:00"), Err(TimeError::TooOld(9 * 3600)));
        assert_eq!(check("2026-02-13T14:30:00-09:00"), Err(TimeError::TooNew(9 * 3600)));
    }

    #[test]
    fn what_is_old_or_far_ahead_is_refused_with_its_distance() {
        assert_eq!(check("2026-02-13T14:28:59Z"), Err(TimeError::TooOld(61)));
        assert_eq!(check("2026-02-13T14:31:01Z"), Err(TimeError::TooNew(61)));
        assert_eq!(check("2000-01-01T00:00:00Z").unwrap_err().to_string(), "request too old: 824308200s (max 60s)");
        assert!(matches!(check("3000-01-01T00:00:00Z"), Err(TimeError::TooNew(_))));
    }

    #[test]
    fn an_absent_time_is_told_apart_from_a_malformed_one() {
        assert_eq!(check("").unwrap_err().to_string(), "missing time field");
        assert_eq!(check(" ").unwrap_err().to_string(), "malformed time field");
    }

    #[test]
    fn nothing_in_a_time_is_passed_over() {
        for bad in [
            "yesterday",
            "2026-04-30",
            "2026-04-30T12:00",
            "2026-13-01T00:00:00Z",
            "2026-00-15T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-15T25:00:00Z",
            "2026-01-15T12:61:00Z",
            "2026-01-15T12:00:61Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "99999999999999999999-01-01T00:00:00Z",
            "1770993000",
            "2026-02-13 14:30:00Z",
            "\u{1b}[8m-2026-02-13T14:30:00Z",
            "2026-02-13T14:30:00ZZ",
            "2026-02-13T14:30:00Zx",
            "2026-02-13T14:30:00+9:0x",
            "2026-02-13T14:30:00+24:00",
            "2026-02-13T14:30:00+é",
            "T",
        ] {
            assert_eq!(check(bad), Err(TimeError::Malformed), "{bad}");
        }
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        let seconds = |text| parse(text).unwrap();
        assert_eq!(seconds("1970-01-01T00:00:00Z"), 0);
        assert_eq!(seconds("2000-03-01T00:00:00Z"), 951_868_800);
        assert_eq!(seconds("2024-02-29T23:59:60Z"), 1_709_251_200);
        assert_eq!(seconds("9999-12-31T23:59:59Z"), 253_402_300_799);
    }
}
