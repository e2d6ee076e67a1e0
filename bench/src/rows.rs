//! The rows of the table, a family to a file. A row that cannot be measured is a missed row, never a missing one.

mod agents;
mod cdev;
mod decisions;
mod feed;
mod history;
mod memory;
mod replay;
mod rpc;
mod search;
mod sessions;
mod slow_reader;
mod spawn;
mod start;
mod stream;
mod web;
mod workspace;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::args::Args;
use crate::instance;
use crate::measure::Pairs;
use crate::table::{self, Row, Target};

pub(crate) use decisions::stamp;
pub(crate) use sessions::agent;
pub(crate) use web::offer;

/// What every family gets.
pub(crate) struct Bench {
    pub(crate) bin: PathBuf,
    /// Another program, measured by turns with it instead of a raw limit.
    beside: Option<PathBuf>,
    pub(crate) pairs: usize,
    /// Smaller sizes: for a first look, not for a verdict.
    pub(crate) quick: bool,
    rows: RefCell<Vec<Row>>,
}

impl Bench {
    /// One size for a real run, a smaller one for a quick look.
    pub(crate) fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// The program that stands where raw limits stand elsewhere.
    fn other(&self) -> Result<&Path> {
        self.beside.as_deref().context("--beside is required")
    }

    /// Prints a row that was measured; whoever stops the program has what it found so far.
    pub(crate) fn show(&self, row: Row) {
        println!("{}", table::line(&row));
        self.rows.borrow_mut().push(row);
    }
}

type Family = fn(&Bench) -> Result<()>;

const FAMILIES: [(&str, Family); 16] = [
    ("rpc", rpc::rows),
    ("web", web::rows),
    ("cdev", cdev::rows),
    ("stream", stream::rows),
    ("replay", replay::rows),
    ("spawn", spawn::rows),
    ("memory", memory::rows),
    ("slow-reader", slow_reader::rows),
    ("start", start::rows),
    ("decisions", decisions::rows),
    ("sessions", sessions::rows),
    ("feed", feed::rows),
    ("workspace", workspace::rows),
    ("search", search::rows),
    ("history", history::rows),
    ("agents", agents::rows),
];

/// What two programs are compared by.
const BESIDE: [(&str, Family); 2] = [("stream", stream::beside), ("spawn", spawn::beside)];

/// "No slower": what two runs of one and the same program differ by on a quiet machine.
const NO_SLOWER: f64 = 0.95;
const NO_DEARER: f64 = 1.05;

/// The program is no slower than the other, and needs no more CPU.
fn no_slower(measured: &Pairs) -> Vec<Target> {
    vec![Target::ratio_at_least(measured.ratio, NO_SLOWER), Target::cpu_at_most(measured.cpu_ratio, NO_DEARER)]
}

/// The whole table; exit code 1 when a row missed its target.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let quick = args.flag("--quick");
    let pairs: usize = args.value("--pairs")?.unwrap_or(if quick { 3 } else { 9 });
    let only: Option<String> = args.value("--rows")?;
    let bin: Option<PathBuf> = args.value("--bin")?;
    let beside: Option<PathBuf> = args.value("--beside")?;
    args.finish()?;
    let bin = bin.map_or_else(instance::default_binary, Ok)?;
    let families: &[(&str, Family)] = if beside.is_some() { &BESIDE } else { &FAMILIES };
    let wanted: Vec<&str> = only.as_deref().map_or_else(Vec::new, |names| names.split(',').collect());
    if let Some(unknown) = wanted.iter().find(|name| !families.iter().any(|(known, _)| known == *name)) {
        let names: Vec<&str> = families.iter().map(|(name, _)| *name).collect();
        bail!("no rows are called {unknown}; there are {}", names.join(", "));
    }
    let raw = beside.as_ref().map_or_else(|| "raw limit".to_owned(), |other| format!("{} (raw)", other.display()));
    let bench = Bench { bin, beside, pairs, quick, rows: RefCell::default() };
    println!("{}, median of at most {pairs} pairs, {raw} and product by turns", bench.bin.display());
    println!("{}", table::head());
    let began = Instant::now();
    for (name, family) in families.iter().copied() {
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let started = Instant::now();
        if let Err(error) = family(&bench) {
            let broken = Target { text: "measured".to_owned(), met: false };
            bench.show(Row::alone(name, "-", f64::NAN, broken).profile(format!("not measured: {error:#}")));
        }
        eprintln!("  {name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    let rows = bench.rows.take();
    print!("{}", table::missed(&rows));
    let missed = rows.iter().filter(|row| !row.met()).count();
    println!("{} rows, {missed} missed, {:.1} minutes", rows.len(), began.elapsed().as_secs_f64() / 60.0);
    Ok(u8::from(missed > 0))
}
