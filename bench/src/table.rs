//! The table: one line per row, and below it what each missed row says about itself.

use std::fmt::Write as _;

use crate::measure::{PAIRS_MIN, Pairs};

/// A promise of a row and whether it held.
pub(crate) struct Target {
    pub(crate) text: String,
    pub(crate) met: bool,
}

impl Target {
    pub(crate) fn at_most(value: f64, limit: f64, unit: &str) -> Self {
        Self { text: format!("<= {} {unit}", short(limit)), met: value <= limit }
    }

    /// Compared with the raw limit; a missing number never counts as met.
    pub(crate) fn ratio_at_most(ratio: f64, limit: f64) -> Self {
        Self { text: format!("<= {limit} x raw"), met: ratio <= limit }
    }

    pub(crate) fn ratio_at_least(ratio: f64, limit: f64) -> Self {
        Self { text: format!(">= {limit} x raw"), met: ratio >= limit }
    }

    pub(crate) fn cpu_at_most(ratio: Option<f64>, limit: f64) -> Self {
        Self { text: format!("CPU <= {limit} x raw"), met: ratio.is_some_and(|ratio| ratio <= limit) }
    }
}

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) raw: Option<f64>,
    pub(crate) ours: f64,
    pub(crate) ratio: Option<f64>,
    pub(crate) cpu_unit: &'static str,
    pub(crate) cpu_raw: Option<f64>,
    pub(crate) cpu_ours: Option<f64>,
    pub(crate) targets: Vec<Target>,
    /// There was time for so few pairs.
    pub(crate) few: Option<usize>,
    /// What the raw limit is.
    pub(crate) against: &'static str,
    /// Where the product's time went.
    pub(crate) profile: String,
}

impl Row {
    /// A row without a raw limit: its target stands alone.
    pub(crate) fn alone(name: impl Into<String>, unit: &'static str, ours: f64, target: Target) -> Self {
        Self {
            name: name.into(),
            unit,
            raw: None,
            ours,
            ratio: None,
            cpu_unit: "",
            cpu_raw: None,
            cpu_ours: None,
            targets: vec![target],
            few: None,
            against: "",
            profile: String::new(),
        }
    }

    pub(crate) fn paired(name: impl Into<String>, unit: &'static str, pairs: Pairs, targets: Vec<Target>) -> Self {
        Self {
            name: name.into(),
            unit,
            raw: Some(pairs.raw),
            ours: pairs.ours,
            ratio: Some(pairs.ratio),
            cpu_unit: "",
            cpu_raw: pairs.cpu_raw,
            cpu_ours: pairs.cpu_ours,
            targets,
            few: Some(pairs.count).filter(|count| *count < PAIRS_MIN),
            against: "",
            profile: String::new(),
        }
    }

    pub(crate) fn cpu(mut self, unit: &'static str) -> Self {
        self.cpu_unit = unit;
        self
    }

    pub(crate) fn against(mut self, raw: &'static str) -> Self {
        self.against = raw;
        self
    }

    pub(crate) fn profile(mut self, profile: String) -> Self {
        self.profile = profile;
        self
    }

    pub(crate) fn met(&self) -> bool {
        self.targets.iter().all(|target| target.met)
    }
}

/// Three significant digits, or whole numbers.
fn short(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "?".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn optional(value: Option<f64>, suffix: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{}{suffix}", short(value)))
}

const HEAD: [&str; 9] = ["row", "unit", "raw", "ours", "ours/raw", "CPU raw", "CPU ours", "target", ""];
/// Known before anything is measured, because a row is printed as soon as it is: the longest name, and numbers with units.
const WIDTHS: [usize; 9] = [60, 5, 8, 8, 8, 10, 10, 28, 4];

/// The names of the columns.
pub(crate) fn head() -> String {
    aligned(&HEAD.map(str::to_owned))
}

/// One row of the table.
pub(crate) fn line(row: &Row) -> String {
    let cpu = |value| if row.cpu_unit.is_empty() { "-".to_owned() } else { optional(value, row.cpu_unit) };
    let targets: Vec<&str> = row.targets.iter().map(|target| target.text.as_str()).collect();
    let met = if row.met() { "ok" } else { "MISS" };
    aligned(&[
        row.name.clone(),
        row.unit.to_owned(),
        optional(row.raw, ""),
        short(row.ours),
        optional(row.ratio, ""),
        cpu(row.cpu_raw),
        cpu(row.cpu_ours),
        targets.join(", "),
        row.few.map_or_else(|| met.to_owned(), |count| format!("{met}, pairs: {count}")),
    ])
}

/// What each missed row says about itself.
pub(crate) fn missed(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| !row.met()) {
        let missed: Vec<&str> = row.targets.iter().filter(|t| !t.met).map(|t| t.text.as_str()).collect();
        let _ = write!(text, "MISS {}: {}", row.name, missed.join(", "));
        if !row.against.is_empty() {
            let _ = write!(text, "; raw is {}", row.against);
        }
        let _ = writeln!(text, "; profile: {}", if row.profile.is_empty() { "-" } else { &row.profile });
    }
    text
}

/// Names to the left, numbers to the right.
fn aligned(cells: &[String; 9]) -> String {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let _ = match column {
            2..=6 => write!(text, "{cell:>width$}  "),
            _ => write!(text, "{cell:<width$}  "),
        };
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratio: f64) -> Pairs {
        Pairs {
            raw: 100.0,
            ours: 100.0 * ratio,
            ratio,
            cpu_raw: Some(1.0),
            cpu_ours: Some(2.0),
            cpu_ratio: Some(2.0),
            count: 9,
        }
    }

    #[test]
    fn a_missed_target_is_printed_with_its_row_and_profile() {
        let met = Row::paired("fast", "MB/s", pairs(0.9), vec![Target::ratio_at_least(0.9, 0.8)]);
        let missed = Row::paired("slow", "MB/s", pairs(0.5), vec![Target::ratio_at_least(0.5, 0.8)])
            .against("a loop")
            .profile("pump 1.00 s".into());
        assert!(line(&met).ends_with("ok") && line(&missed).ends_with("MISS"));
        let text = super::missed(&[met, missed]);
        assert_eq!(text.matches("MISS").count(), 1, "{text}");
        assert!(text.contains("MISS slow: >= 0.8 x raw; raw is a loop; profile: pump 1.00 s"), "{text}");
    }

    #[test]
    fn a_row_of_few_pairs_says_so() {
        let row = Row::paired("slow", "MB/s", Pairs { count: 1, ..pairs(0.9) }, vec![Target::ratio_at_least(0.9, 0.8)]);
        assert!(line(&row).ends_with("ok, pairs: 1"));
    }

    #[test]
    fn a_number_that_is_missing_never_meets_a_target() {
        assert!(!Target::ratio_at_least(f64::NAN, 0.8).met);
        assert!(!Target::ratio_at_most(f64::NAN, 1.35).met);
        assert!(!Target::at_most(f64::NAN, 10.0, "MB").met);
        assert!(!Target::cpu_at_most(None, 1.3).met);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let row = |name: &str| Row::alone(name, "MB", 9.0, Target::at_most(9.0, 10.0, "MB"));
        let lines = [head(), line(&row("a")), line(&row("a much longer name"))];
        let at: Vec<Option<usize>> = lines.iter().map(|line| line.find("MB").or(line.find("unit"))).collect();
        assert!(at.iter().all(|column| *column == at[0]), "{lines:?}");
    }
}
