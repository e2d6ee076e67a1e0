//! Points in time on the wire: RFC 3339 in UTC with microseconds.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS: u64 = 1_000_000;
const DAY: u64 = 86_400;

/// A moment after 1970, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(MICROS))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos / 1000)
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long ago this was; zero for a moment to come.
    pub fn elapsed(self) -> Duration {
        Duration::from_micros(Self::now().0.saturating_sub(self.0))
    }

    /// How long it is until then; zero for a moment that has passed.
    pub fn left(self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(Self::now().0))
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't', ' '])?;
        let zone_at = rest.find(['Z', 'z', '+', '-'])?;
        let (clock, zone) = rest.split_at_checked(zone_at)?;
        let [year, month, day] = numbers(date, '-')?;
        let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let [hour, minute, second] = numbers(whole, ':')?;
        let sane = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if !sane || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
        let micros = digits.fold(0, |micros, digit| micros * 10 + u64::from(digit - b'0'));
        let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
        let shifted = match zone {
            "Z" | "z" => seconds,
            _ => {
                let (sign, offset) = zone.split_at_checked(1)?;
                let (hours, minutes) = offset.split_once(':')?;
                let shift = hours.parse::<u64>().ok()? * 3600 + minutes.parse::<u64>().ok()? * 60;
                if sign == "+" { seconds.checked_sub(shift)? } else { seconds + shift }
            }
        };
        Some(Self(shifted * MICROS + micros))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    /// Digit by digit: lists hold thousands, and the formatting of numbers would be most of their cost.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / MICROS, self.0 % MICROS);
        let (year, month, day) = civil_from_days(seconds / DAY);
        let clock = seconds % DAY;
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let fields = [(4, year), (7, month), (10, day), (13, hour), (16, minute), (19, second), (26, micros)];
        for (end, mut value) in fields {
            let before = text.get_mut(..end).into_iter().flatten().rev();
            for digit in before.take_while(|byte| byte.is_ascii_digit()) {
                *digit += u8::try_from(value % 10).unwrap_or_default();
                value /= 10;
            }
        }
        out.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not an RFC 3339 time"))
    }
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut next = || {
        let part = parts.next()?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u64>().ok())?
    };
    let found = [next()?, next()?, next()?];
    parts.next().is_none().then_some(found)
}

/// Days since 1970-01-01 of a Gregorian date (years counted from March, so that leap days come last).
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_print_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_827_696_000_001, "2000-02-29T12:34:56.000001Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (4_102_444_800_000_000, "2100-01-01T00:00:00.000000Z"),
        ];
        for (micros, text) in cases {
            assert_eq!(Timestamp(micros).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(micros)), "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_survives_the_round_trip() {
        for day in 0..146_097 {
            let moment = Timestamp(day * DAY * MICROS + 1);
            assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn zones_and_fractions_are_understood_and_nonsense_is_not() {
        assert_eq!(Timestamp::parse("1970-01-01T01:00:00+01:00"), Some(Timestamp(0)));
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00.5Z"), Some(Timestamp(500_000)));
        for bad in ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00", "1970-01-01T00:00:00.éZ"] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }
}
