//! Raw limits: the least a program must do for a row, each in a process of its own.
//! They are hidden modes of this program and must stay as bare as they are: what they leave out is the product's price.

mod adopt;
pub(crate) mod echo;
mod encode;
mod keeper;
mod replay;
mod stream;
pub(crate) mod websocket;

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Pid;

use crate::args::Args;
use crate::instance::Instance;

/// How long a bare program may take to listen; on a busy machine a thousand children of its own take a while.
const START_LIMIT: Duration = Duration::from_secs(120);

/// `bench raw NAME --socket PATH ...`.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let name = args.word().unwrap_or_default();
    let socket: PathBuf = args.required("--socket")?;
    match name.as_str() {
        "echo" => echo::run(&socket, args)?,
        "stream" => stream::run(&socket, args)?,
        "adopt" => adopt::run(&socket, args)?,
        "replay" => replay::run(&socket, args)?,
        "websocket" => websocket::run(&socket, args)?,
        _ => bail!("no raw limit is called {name}"),
    }
    Ok(0)
}

/// A raw limit that runs; ended when dropped.
pub(crate) struct Peer {
    child: Child,
    socket: PathBuf,
    pub(crate) started: Instant,
}

impl Peer {
    pub(crate) fn start(dir: &Path, name: &str, extra: &[&str]) -> Result<Self> {
        let socket = dir.join(format!("raw-{name}.sock"));
        // Left by the peer of an earlier pair.
        let _ = std::fs::remove_file(&socket);
        let started = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .args(["raw", name, "--socket"])
            .arg(&socket)
            .args(extra)
            .stdin(Stdio::null())
            .spawn()
            .context("start a raw limit")?;
        Ok(Self { child, socket, started })
    }

    /// As the user of this instance, with its limits.
    pub(crate) fn start_in(instance: &Instance, name: &str, extra: &[&str]) -> Result<Self> {
        let socket = instance.dir().join(format!("raw-{name}.sock"));
        let text = socket.display().to_string();
        let started = Instant::now();
        let words: Vec<&str> = ["raw", name, "--socket", &text].iter().chain(extra).copied().collect();
        Ok(Self { child: instance.start_tool(&words)?, socket, started })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Connects as soon as it listens.
    pub(crate) fn connect(&self) -> Result<UnixStream> {
        connect(&self.socket, START_LIMIT)
    }
}

impl Peer {
    /// Waits for a peer that ends with its client and has something to put away before.
    pub(crate) fn finish(mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("a raw limit did not end with its client");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Ending twice is no error worth a word.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects to a socket that may not be there yet.
pub(crate) fn connect(socket: &Path, limit: Duration) -> Result<UnixStream> {
    let deadline = Instant::now() + limit;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("nothing listens on {} after {limit:?}", socket.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

fn listen(socket: &Path) -> Result<UnixListener> {
    UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))
}
