//! Sizes and durations as people write them.

use std::time::Duration;

const SIZES: &[(&str, u64)] = &[
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
];

const DURATIONS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// `512`, `64KiB`, `1.5 GiB`, `10MB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = if unit.is_empty() { Some(1) } else { find(SIZES, &unit) };
    factor
        .and_then(|factor| scale(number, factor))
        .ok_or_else(|| "expected a size such as 512, 64KiB, 2GiB or 10MB".to_owned())
}

/// `200ms`, `5s`, `10m`, `24h`, `7d`, `0`. A number alone would be guessed at, so it needs its unit.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let factor = if unit.is_empty() && number == "0" { Some(1) } else { find(DURATIONS, &unit) };
    factor
        .and_then(|factor| scale(number, factor))
        .map(Duration::from_millis)
        .ok_or_else(|| "expected a duration such as 200ms, 5s, 10m, 24h or 7d".to_owned())
}

/// `1.5 GiB`: three digits are enough for a person.
pub(crate) fn show_size(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => {
            let value = bytes as f64 / *size as f64;
            if value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
        }
        None => format!("{bytes} B"),
    }
}

/// `45s`, `12m`, `3h 20m`, `2d 4h`: the two largest parts.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => pair(seconds / 3_600, 'h', seconds / 60 % 60, 'm'),
        _ => pair(seconds / 86_400, 'd', seconds / 3_600 % 24, 'h'),
    }
}

fn pair(large: u64, large_unit: char, small: u64, small_unit: char) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit} {small}{small_unit}") }
}

fn split(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim().to_ascii_lowercase())
}

fn find(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

fn scale(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64KiB", 65_536),
            ("1.5 GiB", 1_610_612_736),
            ("10mb", 10_000_000),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "GiB", "5 apples", "-1", "1e3", "99999999999TiB", "..", "1.2.3k"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("5").is_err() && parse_duration("soon").is_err());
    }

    #[test]
    fn people_are_shown_two_parts_at_most() {
        assert_eq!(show_duration(Duration::from_secs(12_000)), "3h 20m");
        assert_eq!(show_duration(Duration::from_secs(7_200)), "2h");
        assert_eq!(show_duration(Duration::from_secs(59)), "59s");
        assert_eq!(show_size(1_610_612_736), "1.5 GiB");
        assert_eq!(show_size(12), "12 B");
    }
}
