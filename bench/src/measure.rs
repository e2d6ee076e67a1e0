//! Pairs of samples: the product and its raw limit by turns, so that a noisy minute hits both.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Pid;

use crate::procfs::{self, Cpu};

/// One timed run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// In the unit of its row.
    pub(crate) value: f64,
    /// CPU seconds of the measured process, divided by what the row counts.
    pub(crate) cpu: Option<f64>,
}

impl Sample {
    pub(crate) fn of(value: f64) -> Self {
        Self { value, cpu: None }
    }
}

/// The medians of some pairs; ratios are ours to raw, taken pair by pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    pub(crate) raw: f64,
    pub(crate) ours: f64,
    pub(crate) ratio: f64,
    pub(crate) cpu_raw: Option<f64>,
    pub(crate) cpu_ours: Option<f64>,
    pub(crate) cpu_ratio: Option<f64>,
    /// How many there were.
    pub(crate) count: usize,
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How long the pairs of one row may take together: the whole table is there within ten minutes.
const ROW_WITHIN: Duration = Duration::from_secs(15);
/// Fewer say little, so these may take longer.
pub(crate) const PAIRS_MIN: usize = 3;
/// But not longer than this, on a machine that is busy with other things: the row says how few there were.
const ROW_AT_MOST: Duration = Duration::from_secs(30);

/// What a row has left of its time.
pub(crate) struct RowTime(Instant);

impl RowTime {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether there is time for another turn after so many; there always is for the first.
    pub(crate) fn allows(&self, taken: usize) -> bool {
        let within = if taken < PAIRS_MIN { ROW_AT_MOST } else { ROW_WITHIN };
        taken == 0 || self.0.elapsed() <= within
    }
}

/// Takes `count` pairs, or as many as there is time for; every second one begins with the product.
pub(crate) fn pairs(
    count: usize,
    raw: impl FnMut() -> Result<Sample>,
    ours: impl FnMut() -> Result<Sample>,
) -> Result<Pairs> {
    let time = RowTime::begin();
    by_turns(count, |taken| time.allows(taken), raw, ours)
}

/// All `count` of them, however long that takes.
pub(crate) fn all_pairs(
    count: usize,
    raw: impl FnMut() -> Result<Sample>,
    ours: impl FnMut() -> Result<Sample>,
) -> Result<Pairs> {
    by_turns(count, |_| true, raw, ours)
}

fn by_turns(
    count: usize,
    allows: impl Fn(usize) -> bool,
    mut raw: impl FnMut() -> Result<Sample>,
    mut ours: impl FnMut() -> Result<Sample>,
) -> Result<Pairs> {
    let mut taken = Vec::new();
    for turn in (0..count.max(1)).take_while(|turn| allows(*turn)) {
        if turn % 2 == 0 {
            let limit = raw()?;
            taken.push((limit, ours()?));
        } else {
            let product = ours()?;
            taken.push((raw()?, product));
        }
    }
    Ok(summarise(&taken))
}

/// What some pairs say together.
pub(crate) fn summarise(taken: &[(Sample, Sample)]) -> Pairs {
    let over = |pick: &dyn Fn(&(Sample, Sample)) -> Option<f64>| median(taken.iter().filter_map(pick).collect());
    Pairs {
        raw: over(&|(raw, _)| Some(raw.value)).unwrap_or(f64::NAN),
        ours: over(&|(_, ours)| Some(ours.value)).unwrap_or(f64::NAN),
        ratio: over(&|(raw, ours)| Some(ours.value / raw.value)).unwrap_or(f64::NAN),
        cpu_raw: over(&|(raw, _)| raw.cpu),
        cpu_ours: over(&|(_, ours)| ours.cpu),
        cpu_ratio: over(&|(raw, ours)| Some(ours.cpu? / raw.cpu?)),
        count: taken.len(),
    }
}

/// The CPU time that a process uses while something is measured.
pub(crate) struct CpuMeter {
    pid: Pid,
    start: Cpu,
}

impl CpuMeter {
    pub(crate) fn start(pid: Pid) -> Result<Self> {
        Ok(Self { pid, start: procfs::cpu(pid)? })
    }

    pub(crate) fn seconds(&self) -> Result<f64> {
        Ok(procfs::cpu(self.pid)?.since(self.start).total())
    }
}

/// Where a process spent its CPU time, heaviest threads first: what a missed row says about itself.
pub(crate) fn profile(pid: Pid) -> String {
    let mut threads = procfs::threads(pid).unwrap_or_default();
    threads.sort_by(|(_, a), (_, b)| b.total().total_cmp(&a.total()));
    let lines: Vec<String> = threads
        .iter()
        .filter(|(_, cpu)| cpu.total() > 0.0)
        .take(4)
        .map(|(name, cpu)| format!("{name} {:.2} s (system {:.0} %)", cpu.total(), 100.0 * cpu.system / cpu.total()))
        .collect();
    if lines.is_empty() { "no CPU time in any thread".to_owned() } else { lines.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_ignores_one_bad_pair() {
        let samples = |values: [f64; 3]| values.map(Sample::of);
        let taken: Vec<_> = samples([10.0, 10.0, 1000.0]).into_iter().zip(samples([20.0, 30.0, 40.0])).collect();
        let pairs = summarise(&taken);
        assert!((pairs.ratio - 2.0).abs() < 1e-9);
        assert!((pairs.raw - 10.0).abs() < 1e-9 && (pairs.ours - 30.0).abs() < 1e-9);
        assert!(pairs.cpu_ratio.is_none());
    }

    #[test]
    fn a_row_has_one_turn_at_least_and_few_when_they_take_long() {
        let long_ago = |within: Duration| RowTime(Instant::now().checked_sub(within).unwrap());
        let most = |time: RowTime| (0..9).take_while(|taken| time.allows(*taken)).count();
        assert_eq!(most(RowTime::begin()), 9);
        assert_eq!(most(long_ago(ROW_WITHIN)), PAIRS_MIN);
        assert_eq!(most(long_ago(ROW_AT_MOST)), 1);
    }

    #[test]
    fn pairs_are_taken_by_turns() {
        let order = std::cell::RefCell::new(String::new());
        let note = |letter: char| {
            order.borrow_mut().push(letter);
            Ok(Sample::of(1.0))
        };
        pairs(3, || note('r'), || note('o')).unwrap();
        assert_eq!(order.into_inner(), "roorro");
    }
}
