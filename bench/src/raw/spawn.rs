//! The keeper's bare fork, exec and wait: a real keeper, asked directly; no journal, no door.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ostler_keeper::Exit;

use super::keeper::{BareKeeper, News};
use crate::args::Args;

/// Serves one client: every line `COUNT WINDOW` is that many spawns, and `done`.
pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let dir: PathBuf = args.required("--dir")?;
    args.finish()?;
    let mut keeper = BareKeeper::launch(&dir)?;
    let listener = super::listen(socket)?;
    let (mut stream, _) = listener.accept()?;
    writeln!(stream, "{}", keeper.pid())?;
    let mut last_key = 0_u64;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        let Some((count, window)) = line.split_once(' ') else { bail!("wanted: COUNT WINDOW") };
        let (count, window): (u64, u64) = (count.parse()?, window.parse()?);
        // Pipes are closed when their child has ended, as a host would.
        let mut open = HashMap::new();
        let (mut started, mut ended) = (0, 0);
        while ended < count {
            while started < count && started - ended < window {
                last_key += 1;
                started += 1;
                keeper.spawn(format!("k{last_key}"), &["/bin/true"]);
            }
            match keeper.next()? {
                News::Spawned(key, spawned) => drop(open.insert(key, spawned)),
                News::Exited(key, Exit::Code(0)) => {
                    open.remove(&key);
                    ended += 1;
                }
                News::Exited(key, exit) => bail!("{key} ended with {exit:?}"),
            }
        }
        writeln!(stream, "done")?;
    }
    Ok(())
}
