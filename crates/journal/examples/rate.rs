//! How fast the pump is, beside the bare loop it is built on: `rate [MiB] [directory] [part of a name]`.
//!
//! On a busy machine most runs say how busy it is, so the best of several is printed: wall time, and the processor time
//! of this process per gigabyte. `SYNC_MS` sets how often the pump syncs (the bare loop never does); 0 = never.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::{Simd, general_purpose::PAD};
use ostler_journal::{Cursor, FRAME_MAX, Journal, Kind, PumpConfig, PumpIo, Pumps, Step};
use ostler_story::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

const ROUNDS: usize = 7;

/// Moves so many bytes through a journal in this directory; sends them on, or not.
type Run = fn(u64, &Path, bool);

fn main() {
    let mut args = std::env::args().skip(1);
    let size = args.next().map_or(1024, |arg| arg.parse::<u64>().unwrap()) << 20;
    let base = args.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let only = args.next().unwrap_or_default();
    let dir = Path::new(&base).join(format!("ostler-rate-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let runs: [(&str, Run, bool); 4] = [
        ("bare splice + index", bare, false),
        ("pump alone", pump, false),
        ("bare, read back, base64, socket", bare, true),
        ("pump, cursor, base64, socket", pump, true),
    ];
    let mut best = [(f64::MAX, f64::MAX); 4];
    for _ in 0..ROUNDS {
        for ((what, run, send), best) in runs.iter().zip(&mut best) {
            if what.contains(&only) {
                let (start, cpu) = (Instant::now(), cpu_seconds());
                run(size, &dir.join("journal"), *send);
                best.0 = best.0.min(start.elapsed().as_secs_f64());
                best.1 = best.1.min(cpu_seconds() - cpu);
                std::fs::remove_dir_all(dir.join("journal")).unwrap();
            }
        }
    }
    let mega = size as f64 / 1e6;
    for ((what, ..), (wall, cpu)) in runs.iter().zip(best) {
        println!("{what:<34} {:>6.0} MB/s   {:.3} s/GB", mega / wall, cpu / mega * 1e3);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<f64> =
        stat.rsplit(')').next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
    (fields[10] + fields[11]) / 100.0
}

/// A child that writes `size` bytes, and the read end of its stdout.
fn source(size: u64) -> OwnedFd {
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec dd if=/dev/zero bs=64k count={} 2>/dev/null", size >> 16)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = OwnedFd::from(child.stdout.take().unwrap());
    std::thread::spawn(move || child.wait());
    fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
    pipe
}

/// Somebody who reads a socket to its end.
fn drain() -> (UnixStream, std::process::Child) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new("sh")
        .args(["-c", "exec dd bs=256k of=/dev/null 2>/dev/null"])
        .stdin(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    (ours, child)
}

struct Sender {
    socket: UnixStream,
    child: std::process::Child,
    line: Vec<u8>,
    engine: Simd,
}

impl Sender {
    fn new() -> Self {
        let (socket, child) = drain();
        Self { socket, child, line: vec![0; 64 << 10], engine: Simd::standard(PAD) }
    }

    fn send(&mut self, bytes: &[u8]) {
        let n = self.engine.encode_slice(bytes, &mut self.line).unwrap();
        self.socket.write_all(&self.line[..n]).unwrap();
    }

    fn finish(mut self) {
        drop(self.socket);
        self.child.wait().unwrap();
    }
}

fn bare(size: u64, dir: &Path, send: bool) {
    std::fs::create_dir(dir).unwrap();
    let create = |name: &str| {
        let path = dir.join(name);
        File::options().read(true).write(true).create_new(true).open(path).unwrap()
    };
    let (out, idx, pipe) = (create("out"), create("idx"), source(size));
    let mut sender = send.then(Sender::new);
    let (mut at, mut seq, mut buf) = (0, 0, vec![0; FRAME_MAX]);
    while at < size {
        let mut to = at;
        match splice(&pipe, None, &out, Some(&mut to), FRAME_MAX, SpliceFlags::NONBLOCK) {
            Ok(0) => break,
            Ok(n) => {
                idx.write_all_at(&[7; 32], seq * 32).unwrap();
                if let Some(sender) = &mut sender {
                    out.read_exact_at(&mut buf[..n], at).unwrap();
                    sender.send(&buf[..n]);
                }
                seq += 1;
                at += n as u64;
            }
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(&pipe.as_fd(), PollFlags::IN)], None).unwrap();
            }
            Err(errno) => panic!("{errno}"),
        }
    }
    assert_eq!(at, size);
    if let Some(sender) = sender {
        sender.finish();
    }
}

fn pump(size: u64, dir: &Path, send: bool) {
    let sync = std::env::var("SYNC_MS").map_or(200, |text| text.parse().unwrap());
    let sync_every = std::time::Duration::from_millis(sync);
    let pumps = Pumps::start(PumpConfig { sync_every, ..PumpConfig::default() }).unwrap();
    let journal = Journal::create(dir).unwrap();
    let main = std::thread::current();
    let subscription = journal.subscribe(Arc::new(move || main.unpark()));
    let io = PumpIo { stdout: Some(source(size)), ..PumpIo::default() };
    let hosted = pumps.host(Arc::clone(&journal), io, false);
    hosted.child_exited(Exit::Code(0));
    if !send {
        while journal.bounds().out_end < size {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        return;
    }
    let mut sender = Sender::new();
    let mut cursor = Cursor::new(Arc::clone(&journal), 0);
    let mut buf = Vec::new();
    'reading: loop {
        subscription.arm();
        loop {
            buf.clear();
            match cursor.try_next(&mut buf).unwrap() {
                Step::Frame(head) if head.kind == Kind::Exit => break 'reading,
                Step::Frame(_) => sender.send(&buf),
                Step::UpToDate => break,
                Step::WouldBlock => {
                    cursor.next_blocking(&mut buf).unwrap();
                    sender.send(&buf);
                }
                Step::Gap { .. } => panic!("nothing was cut"),
            }
        }
        std::thread::park();
    }
    sender.finish();
}
