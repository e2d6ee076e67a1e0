//! The bare hand-over: a keeper with many children gives all of them to a new connection.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::keeper::{BareKeeper, News};
use crate::args::Args;

/// All descriptors of all children come at once; a daemon raises its limit too.
fn raise_nofile() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Serves one client: every line is answered with the milliseconds of one hand-over.
pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let dir: PathBuf = args.required("--dir")?;
    let children: usize = args.required("--children")?;
    args.finish()?;
    raise_nofile()?;
    let mut keeper = BareKeeper::launch(&dir)?;
    for child in 0..children {
        keeper.spawn(format!("s{child}"), &["/bin/sleep", "3600"]);
        // One by one: the descriptors of the last are closed before the next are sent.
        while !matches!(keeper.next()?, News::Spawned(..)) {}
    }
    let listener = super::listen(socket)?;
    let (mut stream, _) = listener.accept()?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        line?;
        let started = Instant::now();
        let adopted = keeper.reconnect()?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        ensure!(adopted.len() == children, "{} of {children} children came back", adopted.len());
        writeln!(stream, "{milliseconds}")?;
    }
    Ok(())
}
