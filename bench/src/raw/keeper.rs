//! A real keeper without a daemon: what the raw limit of adopting stands on.
//! Its children and it end with the value; a keeper that is deserted would wait for a daemon for ever.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ostler_keeper::{Adopted, Event, Hello, Keeper, Scope, SpawnSpec, Spawned, StdioKind};

/// No answer of a keeper takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// SIGKILL.
const KILL: i32 = 9;

pub(crate) enum News {
    Spawned(String, Result<Spawned, String>),
    Exited(String),
}

pub(crate) struct BareKeeper {
    dir: PathBuf,
    /// Nothing only between two connections.
    keeper: Option<Keeper>,
    sender: Sender<News>,
    news: Receiver<News>,
    alive: HashSet<String>,
}

impl BareKeeper {
    pub(crate) fn launch(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        ostler_keeper::launch(dir).context("start a keeper")?;
        let (sender, news) = channel();
        let (keeper, _) = connect(dir, &sender)?;
        Ok(Self { dir: dir.to_owned(), keeper: Some(keeper), sender, news, alive: HashSet::new() })
    }

    /// Lets go of the keeper and comes back as a new daemon would: with everything it holds.
    pub(crate) fn reconnect(&mut self) -> Result<Vec<Adopted>> {
        drop(self.keeper.take());
        let (keeper, adopted) = connect(&self.dir, &self.sender)?;
        self.keeper = Some(keeper);
        Ok(adopted)
    }

    /// With the pipes that a hosted child has.
    pub(crate) fn spawn(&mut self, key: String, words: &[&str]) {
        let spec = SpawnSpec {
            program: words.first().copied().unwrap_or_default().into(),
            argv: words.iter().map(Into::into).collect(),
            cwd: "/".into(),
            stdio: [StdioKind::Pipe; 3],
            ..SpawnSpec::default()
        };
        let (sender, named) = (self.sender.clone(), key.clone());
        self.alive.insert(key.clone());
        let Some(keeper) = &self.keeper else { return };
        keeper.spawn(&key, &spec, Vec::new(), move |result| {
            // The receiver is gone only when this program ends.
            let _ = sender.send(News::Spawned(named, result.map_err(|error| error.to_string())));
        });
    }

    pub(crate) fn next(&mut self) -> Result<News> {
        let news = self.news.recv_timeout(PATIENCE).context("the keeper is silent")?;
        match &news {
            News::Exited(key) => {
                if let Some(keeper) = &self.keeper {
                    keeper.ack(key);
                }
                self.alive.remove(key);
            }
            News::Spawned(key, Err(why)) => bail!("spawn of {key}: {why}"),
            News::Spawned(_, Ok(_)) => {}
        }
        Ok(news)
    }
}

impl Drop for BareKeeper {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.clone() else { return };
        for key in &self.alive {
            keeper.signal(key, KILL, Scope::Group, |_| ());
        }
        while !self.alive.is_empty() && self.next().is_ok() {}
        keeper.farewell();
    }
}

/// Repeats while the keeper has not noticed yet that we had left.
fn connect(dir: &Path, sender: &Sender<News>) -> Result<(Keeper, Vec<Adopted>)> {
    loop {
        let events = sender.clone();
        let hello = Hello { program: "bench".to_owned() };
        let connected = ostler_keeper::connect(dir, hello, move |event| {
            if let Event::Exited { key, .. } = event {
                let _ = events.send(News::Exited(key));
            }
        });
        match connected {
            Err(ostler_keeper::ConnectError::Busy { .. }) => std::thread::yield_now(),
            other => return other.context("connect to the keeper"),
        }
    }
}
