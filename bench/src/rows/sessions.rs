//! Conversations: how long bytes take on their way to and from an agent, and what sessions cost that rest or are watched. The
//! agent is this program (`bench agent`): it speaks the echo agent's lines and says when it read and when it wrote.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ostler_api::client::{Client, Incoming};
use ostler_api::{
    Lifetime, Notification, PromptParams, SessionCreateParams, SessionEvents, SessionInfo, SessionListParams,
    SessionReadParams, WatchParams, methods,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::Bench;
use crate::approvals::{Daemon, native};
use crate::args::Args;
use crate::instance::Instance;
use crate::measure::{Sample, median, pairs};
use crate::procfs;
use crate::sessions::word;
use crate::table::{Row, Target};

/// No row waits longer for a single event, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);
const KB: f64 = 1e3;
/// What fits on a screen.
const SCREEN: u64 = 50;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    bench.show(first_event(bench)?);
    latencies(bench)?;
    resting(bench)?;
    bench.show(watchers(bench)?);
    first_screen(bench)
}

/// A daemon with one conversation, watched.
struct Talk<'a> {
    daemon: Daemon<'a>,
    client: Client,
    session: SessionInfo,
    sent: u64,
}

impl<'a> Talk<'a> {
    fn start(instance: &'a Instance, agent: bool) -> Result<Self> {
        let mut daemon = Daemon::new(instance)?;
        daemon.start()?;
        let mut client = connect(instance)?;
        let session = client.call::<methods::SessionCreate>(&session(instance, agent, 0))?;
        client.call::<methods::SessionWatch>(&WatchParams {
            id: session.id.clone(),
            from: None,
            prompts: None,
            pieces: false,
        })?;
        Ok(Self { daemon, client, session, sent: 0 })
    }

    /// Sends a prompt; gives every event to `take` until the turn is over.
    fn turn(&mut self, text: &str, mut take: impl FnMut(&Value)) -> Result<()> {
        self.sent += 1;
        let params = PromptParams {
            id: self.session.id.clone(),
            text: Some(text.to_owned()),
            blocks: Vec::new(),
            refuse_if_busy: false,
            key: Some(self.sent.to_string()),
        };
        self.client.call::<methods::SessionPrompt>(&params)?;
        loop {
            for event in next(&mut self.client)?.events {
                take(event.json());
                if word(event.json(), "/type") == "turn_ended" {
                    return Ok(());
                }
            }
        }
    }
}

fn connect(instance: &Instance) -> Result<Client> {
    let mut client = Client::connect(&native(instance.dir()))?;
    client.answer_within(Some(PATIENCE))?;
    Ok(client)
}

/// The next record that a watcher gets.
fn next(client: &mut Client) -> Result<SessionEvents> {
    loop {
        if let Some(Notification::Events(events)) = client.take_early() {
            return Ok(events);
        }
        match client.take()? {
            Some(Incoming::Notification(Notification::Events(events))) => return Ok(events),
            Some(_) => {}
            None => client.fill()?,
        }
    }
}

fn session(instance: &Instance, agent: bool, number: u64) -> SessionCreateParams {
    // A script, because an agent's program has no arguments of its own.
    let program = agent.then(|| instance.dir().join("agent").display().to_string());
    SessionCreateParams {
        agent: "echo".into(),
        command: Vec::new(),
        program,
        workspace: instance.dir().display().to_string(),
        name: None,
        autonomy: None,
        raw_mode: None,
        model: None,
        lifetime: Some(Lifetime::Session),
        resume: None,
        env: Vec::new(),
        worktree: false,
        branch: None,
        key: Some(format!("bench {number}")),
    }
}

fn with_agent(bench: &Bench, name: &str) -> Result<Instance> {
    use std::os::unix::fs::PermissionsExt as _;
    let instance = Instance::new(&bench.bin, name)?;
    let script = instance.dir().join("agent");
    std::fs::write(&script, format!("#!/bin/sh\nexec {} agent\n", instance.tool().display()))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(instance)
}

/// From a prompt to the first thing that the echo agent says; raw is the same program at the other end of two pipes.
fn first_event(bench: &Bench) -> Result<Row> {
    let instance = Instance::new(&bench.bin, "first-event")?;
    let mut talk = Talk::start(&instance, false)?;
    talk.turn("warm", |_| {})?;
    let mut agent = Command::new(&bench.bin)
        .args(["__echo", "--session", "raw"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the echo agent")?;
    let (mut stdin, stdout) = (agent.stdin.take().context("stdin")?, agent.stdout.take().context("stdout")?);
    let mut lines = BufReader::new(stdout).lines();
    let measured = pairs(
        bench.pairs,
        || {
            let started = Instant::now();
            writeln!(stdin, "{}", json!({"type": "prompt", "blocks": [{"type": "text", "text": "hello"}]}))?;
            let mut first = None;
            while !lines.next().context("the echo ended")??.contains("turn_ended") {
                first.get_or_insert_with(|| started.elapsed());
            }
            Ok(Sample::of(first.unwrap_or_default().as_secs_f64() * 1e3))
        },
        || {
            let started = Instant::now();
            let mut first = None;
            talk.turn("hello", |event| {
                if word(event, "/type") == "text_delta" {
                    first.get_or_insert_with(|| started.elapsed());
                }
            })?;
            Ok(Sample::of(first.unwrap_or_default().as_secs_f64() * 1e3))
        },
    )?;
    // Gone already is as good.
    let _ = agent.kill();
    let _ = agent.wait();
    talk.daemon.stop()?;
    let target = Target::at_most(measured.ours, 2.0, "ms");
    Ok(Row::paired("echo: prompt to its first event", "ms", measured, vec![target])
        .against("the same program on two pipes"))
}

/// The slowest of a hundred, both ways.
fn latencies(bench: &Bench) -> Result<()> {
    let instance = with_agent(bench, "latency")?;
    let mut talk = Talk::start(&instance, true)?;
    talk.turn("1 0", |_| {})?;
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for _ in 0..bench.size(200, 40) {
        let asked = now_ms();
        talk.turn("10 2", |event| {
            let Ok(stamp) = word(event, "/text").parse::<f64>() else { return };
            match word(event, "/type") {
                "thought_delta" => there.push(stamp - asked),
                "text_delta" => back.push(now_ms() - stamp),
                _ => {}
            }
        })?;
    }
    talk.daemon.stop()?;
    let row = |name: &str, values: Vec<f64>| {
        let p99 = percentile(values, 99);
        Row::alone(name, "ms", p99, Target::at_most(p99, 5.0, "ms"))
    };
    bench.show(row("prompt sent to read by the agent, p99", there));
    bench.show(row("line written by the agent to read by a client, p99", back));
    Ok(())
}

/// What a thousand conversations cost that nobody is having.
fn resting(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "resting")?;
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let mut client = connect(&instance)?;
    std::thread::sleep(Duration::from_millis(1500));
    let pid = daemon.pid().context("the daemon")?;
    let empty = procfs::rss(pid)? as f64;
    for number in 0..1000 {
        client.call::<methods::SessionCreate>(&session(&instance, false, number))?;
    }
    let each = (procfs::rss(pid)? as f64 - empty) / 1000.0 / KB;
    let mut times = Vec::new();
    for _ in 0..bench.pairs.max(9) {
        let started = Instant::now();
        let listed = client.call::<methods::SessionList>(&SessionListParams { all: false })?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(listed.sessions.len() == 1000, "{} sessions listed", listed.sessions.len());
    }
    daemon.stop()?;
    let list = median(times).unwrap_or(f64::NAN);
    let target = Target::at_most(each, 50.0, "kB");
    bench.show(Row::alone("daemon's RSS per resting session, 1000 of them", "kB", each, target));
    bench.show(
        Row::alone("1000 sessions listed, client included", "ms", list, Target::at_most(list, 5.0, "ms"))
            .profile("half a megabyte of JSON, written by the daemon and read by the client".to_owned()),
    );
    Ok(())
}

/// A hundred watchers that never read, while the agent talks.
fn watchers(bench: &Bench) -> Result<Row> {
    let instance = with_agent(bench, "watchers")?;
    let mut talk = Talk::start(&instance, true)?;
    let mut idle = Vec::new();
    for _ in 0..100 {
        let mut client = connect(&instance)?;
        client.call::<methods::SessionWatch>(&WatchParams {
            id: talk.session.id.clone(),
            from: None,
            prompts: None,
            pieces: false,
        })?;
        idle.push(client);
    }
    let pid = talk.daemon.pid().context("the daemon")?;
    let events = bench.size(20_000, 4_000);
    // Until every connection holds what it may hold.
    for _ in 0..3 {
        talk.turn(&format!("{events} 0"), |_| {})?;
    }
    let before = procfs::rss(pid)? as f64;
    talk.turn(&format!("{events} 0"), |_| {})?;
    let grown = (procfs::rss(pid)? as f64 - before) / f64::from(1 << 20);
    talk.daemon.stop()?;
    let name = format!("RSS growth, 100 watchers that never read, {events} more events");
    Ok(Row::alone(name, "MiB", grown, Target::at_most(grown, 1.0, "MiB")))
}

/// A conversation of a hundred thousand events, just after the daemon was started: the last screen of it, and what was read for
/// that.
fn first_screen(bench: &Bench) -> Result<()> {
    let instance = with_agent(bench, "screen")?;
    let mut talk = Talk::start(&instance, true)?;
    let events = bench.size(100_000, 10_000);
    talk.turn(&format!("{events} 0"), |_| {})?;
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..bench.pairs.max(3) {
        talk.daemon.kill()?;
        talk.daemon.start()?;
        let pid = talk.daemon.pid().context("the daemon")?;
        let before = procfs::read_bytes(pid)?;
        let started = Instant::now();
        let mut client = connect(&instance)?;
        let newest =
            SessionReadParams { id: talk.session.id.clone(), before: None, limit: Some(SCREEN), pieces: false };
        let page = client.call::<methods::SessionRead>(&newest)?;
        if page.records.last().map(|record| record.record) != Some(page.last) {
            bail!("the newest record is not on the first page");
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
        sizes.push((procfs::read_bytes(pid)? - before) as f64 / KB);
    }
    talk.daemon.stop()?;
    let (time, size) = (median(times).unwrap_or(f64::NAN), median(sizes).unwrap_or(f64::NAN));
    let name = format!("first screen of a session with {events} events, after a SIGKILL");
    bench.show(Row::alone(&name, "ms", time, Target::at_most(time, 50.0, "ms")));
    let name = format!("read by the daemon for the first screen of {events} events");
    bench.show(Row::alone(name, "kB", size, Target::at_most(size, 1000.0, "kB")));
    Ok(())
}

fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// `bench agent`: on a prompt `N MS` it says when it read it, then N times when it wrote, MS milliseconds apart.
pub(crate) fn agent(args: Args) -> Result<u8> {
    args.finish()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", json!({"type": "started", "agent_session": "bench", "model": "bench"}))?;
    for line in std::io::stdin().lock().lines() {
        let (read, input) = (now_ms(), serde_json::from_str::<Value>(&line?)?);
        let text = word(&input, "/blocks/0/text");
        let mut words = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (count, pause) = (words.next().unwrap_or(0), Duration::from_millis(words.next().unwrap_or(0)));
        writeln!(out, "{}", json!({"type": "thought_delta", "text": read.to_string()}))?;
        for _ in 0..count {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            writeln!(out, "{}", json!({"type": "text_delta", "text": now_ms().to_string()}))?;
            out.flush()?;
        }
        writeln!(out, "{}", json!({"type": "turn_ended", "reason": "completed"}))?;
        out.flush()?;
    }
    Ok(0)
}

/// Milliseconds of a clock that all processes share.
fn now_ms() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
