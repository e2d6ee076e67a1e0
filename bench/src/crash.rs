//! The crash battery: kills the daemon, its keeper, or both at random moments. While one of them lives, nobody notices;
//! of what both took along it is counted whether that was said.
//!
//! Eight children write position-coded streams, four clients follow them through the claustrum socket, reconnect with
//! their last sequence number and resend stdin blindly. What the clients received is compared with what each child
//! says it wrote (a file the product never sees), never with the journal.
//!
//! The battery must be able to fail. Its control is the product with a pump that reads and writes instead of splicing:
//! `cargo build --release -p ostler --features lossy-pump --target-dir target/lossy`, then
//! `cargo run --release -p bench -- crash --kills 60 --seed 1 --bin target/lossy/release/ostler` must report loss.

mod battery;
mod both;
mod client;
mod feeder;
mod findings;
mod hosted;
mod killer;
mod replay;
mod terminal;
mod terminal_client;
mod track;
mod victims;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::args::Args;
use crate::instance::{self, Instance};
use crate::rng::Rng;
use battery::Battery;
use victims::Victims;

/// `bench crash --kills N --seed S [--victims WHO] [--bin PATH] [--keep-dir]`; the exit code of the program.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let kills: u64 = args.value("--kills")?.unwrap_or(60);
    let seed: u64 = args.value("--seed")?.unwrap_or(1);
    let victims: Victims = args.value("--victims")?.unwrap_or(Victims::Daemon);
    let bin: Option<PathBuf> = args.value("--bin")?;
    let keep = args.flag("--keep-dir");
    args.finish()?;
    let bin = bin.map_or_else(instance::default_binary, Ok)?;
    let mut instance = Instance::new(&bin, "crash")?;
    println!(
        "crash battery: {kills} kills of {victims:?}, seed {seed}, {} in {}",
        bin.display(),
        instance.dir().display()
    );

    let started = Instant::now();
    let mut battery = Battery::new(&instance, victims);
    let (single, double) = victims.share(kills);
    let mut bytes = 0;
    if single > 0 {
        let outcome = battery.spawn_children(&instance, seed).and_then(|()| battery.run(&instance, single, seed));
        if let Err(error) = &outcome {
            battery.findings.fatal(&format!("{error:#}"));
        }
        bytes = outcome.unwrap_or_default();
        battery.clean_up(&instance);
    }
    let toll = match double {
        0 => None,
        rounds => Some(both::run(&instance, rounds, Rng::new(seed).fork(2000))),
    };
    if let Some(Err(error)) = &toll {
        battery.findings.fatal(&format!("both at once: {error:#}"));
        battery.clean_up(&instance);
    }
    let toll = toll.and_then(Result::ok);

    println!("took {:.1} s", started.elapsed().as_secs_f64());
    let clean = battery.findings.is_clean() && toll.as_ref().is_none_or(|toll| toll.untold == 0);
    if !clean {
        println!("FAILED with --seed {seed}; everything is kept in {}", instance.dir().display());
    }
    if keep || !clean {
        instance.keep();
    }
    let tail = toll.map(|toll| format!(" {}", toll.last_line())).unwrap_or_default();
    println!("{}{tail}", battery.findings.last_line(kills, bytes));
    Ok(u8::from(!clean))
}
