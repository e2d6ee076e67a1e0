//! The keeper's bare fork, exec and wait: a real keeper, asked directly; no journal, no door.
//! Output pipes are made and closed again, because a hosted child has them too.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ostler_keeper::{Event, Exit, Hello, Keeper, SpawnSpec, Spawned, StdioKind};

use crate::args::Args;

/// No spawn of /bin/true takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

enum News {
    Spawned(Result<Spawned, String>, String),
    Exited(String, Exit),
    Lost,
}

pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let dir: PathBuf = args.required("--dir")?;
    args.finish()?;
    std::fs::create_dir_all(&dir)?;
    ostler_keeper::launch(&dir).context("start a keeper")?;
    let (sender, news) = channel();
    let events = sender.clone();
    let (keeper, _) = ostler_keeper::connect(&dir, Hello { program: "bench".to_owned() }, move |event| {
        let told = match event {
            Event::Exited { key, exit } => News::Exited(key, exit),
            Event::SpawnFailed { .. } | Event::KeeperLost => News::Lost,
        };
        // The receiver is gone only when this program ends.
        let _ = events.send(told);
    })
    .context("connect to the keeper")?;
    let listener = super::listen(socket)?;
    let mut last_key = 0_u64;
    loop {
        let (mut stream, _) = listener.accept()?;
        writeln!(stream, "{}", keeper.pid())?;
        let mut requests = BufReader::new(stream.try_clone()?).lines();
        while let Some(Ok(line)) = requests.next() {
            let Some((count, window)) = line.split_once(' ') else { bail!("wanted: COUNT WINDOW") };
            let (count, window): (u64, u64) = (count.parse()?, window.parse()?);
            let mut alive = HashMap::new();
            let (mut started, mut ended) = (0, 0);
            while ended < count {
                while started < count && started - ended < window {
                    last_key += 1;
                    started += 1;
                    spawn(&keeper, format!("k{last_key}"), sender.clone());
                }
                match news.recv_timeout(PATIENCE).context("the keeper is silent")? {
                    News::Spawned(Ok(spawned), key) => drop(alive.insert(key, spawned)),
                    News::Spawned(Err(why), key) => bail!("spawn of {key}: {why}"),
                    News::Exited(key, Exit::Code(0)) => {
                        keeper.ack(&key);
                        alive.remove(&key);
                        ended += 1;
                    }
                    News::Exited(key, exit) => bail!("{key} ended with {exit:?}"),
                    News::Lost => bail!("the keeper is lost"),
                }
            }
            writeln!(stream, "done")?;
        }
    }
}

fn spawn(keeper: &Keeper, key: String, news: Sender<News>) {
    let spec = SpawnSpec {
        program: "/bin/true".into(),
        argv: vec!["/bin/true".into()],
        cwd: "/".into(),
        stdio: [StdioKind::Pipe; 3],
        ..SpawnSpec::default()
    };
    let named = key.clone();
    keeper.spawn(&named, spec, Vec::new(), move |result| {
        let _ = news.send(News::Spawned(result.map_err(|error| error.to_string()), key));
    });
}
