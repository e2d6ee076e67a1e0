//! Times as transcripts write them.

use ostler_story::Json;

use crate::json;

/// The member `timestamp`, as `2026-01-31T10:20:30.123Z`.
pub(super) fn of(line: &Json) -> Option<u64> {
    millis(json::text(line, &["timestamp"])?)
}

/// Milliseconds since 1970; nothing for what is no such time in UTC.
pub(super) fn millis(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u64>().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 60 || !text.ends_with('Z') {
        return None;
    }
    // Days from the civil calendar, with the year beginning in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let milli = if text.get(19..20) == Some(".") { number(20, 23).unwrap_or(0) } else { 0 };
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_what_is_none_is_not_guessed() {
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2026-11-17T03:30:01.737Z"), Some(1_794_886_201_737));
        assert_eq!(millis("2024-02-29T23:59:59.001Z"), Some(1_709_251_199_001));
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "20é6-01-01T00:00:00Z"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }
}
