//! Fuzzing on stable Rust: the targets of `fuzz/`, driven by seeded mutations of built-in examples.
//! It knows nothing about coverage; a minute of it in every test run catches what a careless change lets in.

mod daemon;
mod examples;
pub(crate) mod journal;
pub(crate) mod lines;
mod mutate;
pub(crate) mod porcelain;
pub(crate) mod transcripts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::args::Args;
use crate::instance;
use mutate::Mutator;

/// One input takes microseconds to milliseconds; beyond this it counts as hung.
const HUNG: Duration = Duration::from_secs(20);

/// A target takes one input and fails (by an error or a panic) if something is wrong.
type Target = Box<dyn FnMut(&[u8]) -> Result<()>>;

/// `bench fuzz --target NAME [--seconds N] [--seed S] [--bin PATH]`.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let name: String = args.required("--target")?;
    let seconds: u64 = args.value("--seconds")?.unwrap_or(60);
    let seed: u64 = args.value("--seed")?.unwrap_or(1);
    let bin: Option<PathBuf> = args.value("--bin")?;
    args.finish()?;
    let (examples, mut target): (Vec<Vec<u8>>, Target) = match name.as_str() {
        "lines" => (examples::lines(), Box::new(|input| lines::check(input).map_err(anyhow::Error::msg))),
        "journal" => {
            let workshop = journal::Workshop::new().context("a folder for journals")?;
            (examples::journals(), Box::new(move |input| workshop.check(input).map_err(anyhow::Error::msg)))
        }
        "transcripts" => {
            let home = transcripts::Home::new().context("a folder for transcripts")?;
            (examples::transcripts(), Box::new(move |input| home.check(input).map_err(anyhow::Error::msg)))
        }
        "porcelain" => {
            (examples::porcelain(), Box::new(|input| porcelain::porcelain(input).map_err(anyhow::Error::msg)))
        }
        "ignores" => (examples::ignores(), Box::new(|input| porcelain::ignores(input).map_err(anyhow::Error::msg))),
        "daemon" => {
            let bin = bin.map_or_else(instance::default_binary, Ok)?;
            let mut daemon = daemon::Daemon::start(&bin)?;
            (examples::requests(), Box::new(move |input| daemon.check(input)))
        }
        _ => bail!("no target is called {name}; there are lines, journal, transcripts, porcelain, ignores, daemon"),
    };
    let count = watch(&name);
    let mut mutator = Mutator::new(seed, examples);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < deadline {
        let input = mutator.next();
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let failed = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some("panicked".to_owned()),
        };
        if let Some(why) = failed {
            let path = std::env::temp_dir().join(format!("ostler-fuzz-{name}-{seed}"));
            std::fs::write(&path, &input)?;
            println!("FAILED {why}");
            println!(
                "fuzz {name}: the input, number {} with --seed {seed}, is in {}",
                count_of(&count),
                path.display()
            );
            return Ok(1);
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    println!("fuzz {name}: {} inputs in {seconds} s, seed {seed}, no failure", count_of(&count));
    Ok(0)
}

fn count_of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Ends the program when one input takes for ever; the count of inputs that were done.
fn watch(name: &str) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let (seen, name) = (Arc::clone(&count), name.to_owned());
    std::thread::spawn(move || {
        let mut last = u64::MAX;
        loop {
            let now = count_of(&seen);
            if now == last {
                println!("FAILED fuzz {name}: input number {now} takes longer than {HUNG:?}");
                std::process::exit(1);
            }
            last = now;
            std::thread::sleep(HUNG);
        }
    });
    count
}
