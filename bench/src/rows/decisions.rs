//! The gate: a ping, the durable commit under every decision, from the key to the command, and what a large answer costs.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::Bench;
use crate::approvals::terminal;
use crate::args::Args;
use crate::conn::timespec;
use crate::instance::{Instance, START_DEADLINE};
use crate::measure::{Sample, median, pairs};
use crate::procfs;
use crate::raw::echo::PONG;
use crate::raw::{Peer, connect};
use crate::table::{Row, Target};
use crate::wire;

/// Round trips in one sample: enough for the clock, few enough for a quick run.
const PINGS: u32 = 200;
/// What a daemon keeps of a stream.
const ANSWER: u64 = 16 << 20;
/// The last words of every prompt.
const PROMPT: &[u8] = b"default=N)";

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    for measure in [ping, commit, key_to_command, key_to_root, large_answer] {
        bench.show(measure(bench)?);
    }
    Ok(())
}

/// A foreground sudo-proxy on a terminal of its own.
struct Gate {
    child: Child,
    master: OwnedFd,
    socket: PathBuf,
    instance: Instance,
    asked: u64,
}

impl Gate {
    fn start(bench: &Bench) -> Result<Self> {
        let instance = Instance::new(&bench.bin, "gate")?;
        let socket = instance.dir().join("gate.sock");
        let (master, slave) = terminal()?;
        let plain = instance.command(&["as", "sudo-proxy", "--socket", socket.to_str().context("socket path")?]);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args()).current_dir(instance.dir()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        let child = command.spawn().context("start sudo-proxy (needs setsid of util-linux)")?;
        drop(connect(&socket, START_DEADLINE)?);
        Ok(Self { child, master, socket, instance, asked: 0 })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn send(&mut self, request: &serde_json::Value) -> Result<UnixStream> {
        self.asked += 1;
        let mut request = request.clone();
        if let Some(fields) = request.as_object_mut() {
            fields.insert("id".into(), json!(format!("{}-{}", std::process::id(), self.asked)));
            fields.insert("time".into(), json!(ostler_api::Timestamp::now().to_string()));
            fields.entry("privileged").or_insert(json!(false));
        }
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        Ok(stream)
    }

    /// Reads the terminal until the question stands there, and half a second longer than any key may be mistaken.
    fn await_prompt(&self) -> Result<()> {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        let deadline = Instant::now() + START_DEADLINE;
        while !seen.windows(PROMPT.len()).any(|words| words == PROMPT) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no prompt, only {:?}", String::from_utf8_lossy(&seen));
            }
            if poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&timespec(left)))? > 0 {
                let length = rustix::io::read(&self.master, &mut buffer)?;
                seen.extend(buffer.get(..length).unwrap_or_default());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }

    fn key(&self) -> Result<()> {
        rustix::io::write(&self.master, b"y")?;
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn ping(bench: &Bench) -> Result<Row> {
    let mut gate = Gate::start(bench)?;
    let peer = Peer::start(gate.instance.dir(), "echo", &[])?;
    let each = |total: Duration| Sample::of(total.as_secs_f64() * 1e3 / f64::from(PINGS));
    let measured = pairs(
        bench.pairs,
        || {
            let started = Instant::now();
            for _ in 0..PINGS {
                let mut stream = peer.connect()?;
                stream.write_all(b"{}\n")?;
                stream.read_exact(&mut [0; PONG.len()])?;
            }
            Ok(each(started.elapsed()))
        },
        || {
            let started = Instant::now();
            for _ in 0..PINGS {
                let mut answer = String::new();
                gate.send(&json!({"action": "ping", "pipeline": []}))?.read_to_string(&mut answer)?;
                if !answer.contains("pong") {
                    bail!("a ping was answered {answer}");
                }
            }
            Ok(each(started.elapsed()))
        },
    )?;
    let target = Target::at_most(measured.ours, 0.2, "ms");
    let row = Row::paired("sudo-proxy: ping, a connection each", "ms", measured, vec![target]);
    let profile =
        "accept, a task for the connection, one read, one look at the names that were used, one write; no disk";
    Ok(row.against("connect, echo, close").profile(profile.to_owned()))
}

/// What a decision waits for before anything follows from it, without the product: one synced append of its size.
fn commit(bench: &Bench) -> Result<Row> {
    let instance = Instance::new(&bench.bin, "commit")?;
    let mut file = std::fs::File::create(instance.dir().join("log"))?;
    let mut times = Vec::new();
    for _ in 0..bench.pairs.max(9) {
        let started = Instant::now();
        file.write_all(&[b'x'; 4096])?;
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let target = Target { text: "for scale".to_owned(), met: true };
    let value = median(times).unwrap_or(f64::NAN);
    Ok(Row::alone("a durable commit on this disk: 4 KiB, fdatasync", "ms", value, target))
}

/// From the key byte to the first instruction of the command, which notes the time; raw is a key that leads to fork and exec.
fn key_to_command(bench: &Bench) -> Result<Row> {
    let mut gate = Gate::start(bench)?;
    let tool = gate.instance.tool().display().to_string();
    let mark = gate.instance.dir().join("stamp");
    let stamp = mark.display().to_string();
    let measured = pairs(
        bench.pairs,
        || {
            let pressed = now_ms();
            Command::new(&tool).args(["stamp", "--file", &stamp]).stdin(Stdio::null()).status()?;
            Ok(Sample::of(stamped(&mark)? - pressed))
        },
        || {
            let _ = std::fs::remove_file(&mark);
            let mut stream = gate.send(&json!({"pipeline": [[tool, "stamp", "--file", stamp]]}))?;
            gate.await_prompt()?;
            let pressed = now_ms();
            gate.key()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(Sample::of(stamped(&mark).with_context(|| answer)? - pressed))
        },
    )?;
    let over = Target::at_most(measured.ours - measured.raw, 2.0, "ms over raw");
    let row = Row::paired("sudo-proxy: key byte to the command's first instruction", "ms", measured, vec![over]);
    let profile = "the key through the prompt's thread, commit of the decision (the row above, and SQLite), the word through the ledger of the runner that waits, its look at the program, fork and exec of the command";
    Ok(row.against("fork and exec of the same program").profile(profile.to_owned()))
}

/// The same for a command of root: raw is a key that leads to sudo. What sudo itself takes is in both.
fn key_to_root(bench: &Bench) -> Result<Row> {
    const NAME: &str = "sudo-proxy: key byte to a command of root";
    const CLOCK: [&str; 2] = ["/usr/bin/date", "+%s%N"];
    let sudo = || {
        let mut sudo = Command::new("sudo");
        sudo.args(["-k", "-n", "--"]).args(CLOCK).stdin(Stdio::null()).stderr(Stdio::null());
        sudo
    };
    if !sudo().output().is_ok_and(|tried| tried.status.success()) {
        let target = Target { text: "needs sudo without a password".to_owned(), met: true };
        return Ok(Row::alone(NAME, "ms", f64::NAN, target));
    }
    let mut gate = Gate::start(bench)?;
    let measured = pairs(
        bench.pairs,
        || {
            let pressed = wall_ms();
            Ok(Sample::of(told(&sudo().output()?.stdout)? - pressed))
        },
        || {
            let mut stream = gate.send(&json!({"pipeline": [CLOCK], "privileged": true}))?;
            gate.await_prompt()?;
            let pressed = wall_ms();
            gate.key()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            let parsed: serde_json::Value = serde_json::from_str(&answer)?;
            let mut said = Vec::new();
            wire::decode(parsed.get("stdout").and_then(|text| text.as_str()).unwrap_or_default(), &mut said)?;
            Ok(Sample::of(told(&said).with_context(|| answer)? - pressed))
        },
    )?;
    let over = Target::at_most(measured.ours - measured.raw, 2.0, "ms over raw");
    let profile = "as the row above, with sudo for the command";
    Ok(Row::paired(NAME, "ms", measured, vec![over]).against("fork and exec of sudo").profile(profile.to_owned()))
}

/// What `date` said, in milliseconds.
fn told(nanoseconds: &[u8]) -> Result<f64> {
    Ok(std::str::from_utf8(nanoseconds)?.trim().parse::<f64>()? / 1e6)
}

fn wall_ms() -> f64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

/// `bench stamp --file F`: notes when it was started.
pub(crate) fn stamp(mut args: Args) -> Result<u8> {
    let now = now_ms();
    let file: PathBuf = args.required("--file")?;
    args.finish()?;
    std::fs::write(file, now.to_string())?;
    Ok(0)
}

fn stamped(mark: &Path) -> Result<f64> {
    Ok(std::fs::read_to_string(mark)?.parse()?)
}

/// Milliseconds of a clock that all processes share.
fn now_ms() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn large_answer(bench: &Bench) -> Result<Row> {
    let mut gate = Gate::start(bench)?;
    let mut stream = gate.send(&json!({"pipeline": [["head", "-c", ANSWER.to_string(), "/dev/zero"]]}))?;
    gate.await_prompt()?;
    gate.key()?;
    let (mut peak, mut total, mut buffer) = (0, 0, vec![0; 1 << 20]);
    loop {
        let length = stream.read(&mut buffer)?;
        peak = peak.max(procfs::rss(gate.pid())?);
        if length == 0 {
            break;
        }
        total += length as u64;
    }
    if total < ANSWER {
        bail!("the answer has {total} bytes only");
    }
    let value = peak as f64 / f64::from(1 << 20);
    // The original holds the answer several times over: 63 MB.
    Ok(Row::alone("sudo-proxy: peak RSS while answering 16 MiB", "MiB", value, Target::at_most(value, 63.0, "MiB")))
}
