//! A child that writes as fast as it is read: the source of every streaming row, raw or not.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::stdio::stdout;

use crate::args::Args;
use crate::code::{Alphabet, Code};

/// A usual pipe's size: one write fills it.
const BLOCK: usize = 64 << 10;

/// How long a paused flood waits to be told to go on.
const PAUSE_LIMIT: Duration = Duration::from_secs(120);

/// `bench flood --bytes N [--pause-at N --marker FILE]`: at the pause it creates FILE and goes on when FILE is gone;
/// when everything is written it creates FILE again.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let bytes: u64 = args.required("--bytes")?;
    let pause_at: Option<u64> = args.value("--pause-at")?;
    let marker: Option<PathBuf> = args.value("--marker")?;
    args.finish()?;
    let mut block = vec![0; BLOCK];
    Code::new(1, Alphabet::Binary).fill(0, &mut block);
    write(&block, pause_at.unwrap_or(0).min(bytes))?;
    if let Some(marker) = &marker {
        std::fs::write(marker, "")?;
        let deadline = Instant::now() + PAUSE_LIMIT;
        while marker.exists() {
            if Instant::now() > deadline {
                bail!("nobody removed {}", marker.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    write(&block, bytes.saturating_sub(pause_at.unwrap_or(0)))?;
    if let Some(marker) = marker {
        std::fs::write(marker, "")?;
    }
    Ok(0)
}

fn write(block: &[u8], mut left: u64) -> Result<()> {
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        let written = rustix::io::write(stdout(), block.get(..most).unwrap_or_default()).context("write")?;
        left -= written as u64;
    }
    Ok(())
}
