//! Events are derived from an agent's output while the daemon is killed again and again: in the end they are what a pure
//! function makes of the raw bytes, none lost, none twice, and none that somebody saw has changed.
//!
//! The test is the keeper: it owns the agent's pipe and hands it to each daemon as its stdin. The daemon is this same
//! program started again as `mini_daemon`.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::*;
use ostler_journal::{ENGINE, EventCursor, EventJournal, EventStep, Journal, PumpIo};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The only agent here.
const AGENT: u32 = 1;

/// How often a daemon is killed; more in a long run: `OSTLER_KILLS=1000 cargo test -p ostler-journal --test events`.
fn kills() -> usize {
    std::env::var("OSTLER_KILLS").map_or(60, |kills| kills.parse().unwrap())
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The line that an agent says at this offset of its output.
fn line_at(at: u64) -> Vec<u8> {
    let mut line = format!("{at:012x} ").into_bytes();
    line.resize(60 + (hash(at) % 300) as usize, b'a' + (at % 26) as u8);
    line.push(b'\n');
    line
}

/// What a line means: nothing, or up to three events, some of them too large to be written in one step.
fn derive(line: &[u8]) -> Vec<u8> {
    let mut events = Vec::new();
    for number in 0..hash(line) % 4 {
        let size = hash((line, number));
        let len = if size.is_multiple_of(64) { 20_000 + (size >> 32) % 60_000 } else { (size >> 32) % 200 };
        writeln!(events, "event {number} of {} {}", &line.escape_ascii(), "e".repeat(len as usize)).unwrap();
    }
    events
}

/// The complete lines of `raw`, which begins at `offset`: each with the offset after it.
fn lines(raw: &[u8], offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut end = offset;
    raw.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).map(move |line| {
        end += line.len() as u64;
        (end, line)
    })
}

fn raw_bytes(base: &Path, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = vec![0; (to - from) as usize];
    File::open(base.join("raw/out")).unwrap().read_exact_at(&mut bytes, from).unwrap();
    bytes
}

/// Derives from `from` on what is visible of the agent's output and not derived yet; returns where it stopped.
fn derive_rest(base: &Path, raw: &Journal, events: &Arc<EventJournal>, from: u64) -> u64 {
    let visible = raw_bytes(base, from, raw.bounds().out_end);
    let mut end = from;
    for (src_end, line) in lines(&visible, from) {
        let payload = derive(line);
        if !payload.is_empty() {
            events.append(AGENT, src_end, &payload).unwrap();
        }
        end = src_end;
    }
    end
}

/// The daemon's side. Run as a test by itself it has no keeper to serve, and ends.
#[test]
fn mini_daemon() {
    let Some(base) = std::env::var_os("OSTLER_EVENTS") else { return };
    let base = PathBuf::from(base);
    // A panic in any thread is something a client would see.
    let panics = base.join("panic");
    std::panic::set_hook(Box::new(move |panic| {
        let _ = std::fs::write(&panics, panic.to_string());
    }));
    let raw = Journal::open(&base.join("raw")).unwrap();
    let events = EventJournal::open(&base.join("session")).unwrap();
    let pumps = pumps();
    pumps.keep_synced(&events);
    let stdout = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let _hosted = pumps.host(Arc::clone(&raw), PumpIo { stdout: Some(stdout), ..PumpIo::default() }, true);

    // A client that shows what it sees, once it has seen it.
    let (seen_by, seen) = (Arc::clone(&events), base.join("seen"));
    std::thread::spawn(move || show(&seen_by, &seen));

    let number = events.derived_up_to(ENGINE) + 1;
    events.append(ENGINE, number, format!("daemon {number}").as_bytes()).unwrap();
    // As a daemon that does not trust its notes: the last lines are derived again, and taken only if they are new.
    let mut from = events.derived_up_to(AGENT);
    from = first_line_before(&base, from);
    loop {
        from = derive_rest(&base, &raw, &events, from);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The beginning of a line that lies up to a few lines before `offset`.
fn first_line_before(base: &Path, offset: u64) -> u64 {
    let from = offset.saturating_sub(2000);
    let before = raw_bytes(base, from, offset);
    if from == 0 { 0 } else { lines(&before, from).next().map_or(offset, |(end, _)| end) }
}

fn show(events: &Arc<EventJournal>, path: &Path) {
    let mut seen = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let mut cursor = EventCursor::new(Arc::clone(events), events.bounds().last.saturating_sub(20));
    loop {
        let mut payload = Vec::new();
        match cursor.next_blocking(&mut payload).unwrap() {
            // 32 bytes, which divide a page: a kill tears none, so a line is either there or not.
            EventStep::Event(head) => {
                seen.write_all(format!("{:014} {:016x}\n", head.record, hash(&payload)).as_bytes()).unwrap();
            }
            EventStep::UpToDate => std::thread::sleep(Duration::from_micros(200)),
            other => panic!("{other:?}"),
        }
    }
}

/// Says lines for ever, in pieces that are none, until nobody has the other end of the pipe.
fn agent(to: File) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut to = to;
        let mut said = 0_u64;
        let mut rest = Vec::new();
        loop {
            while rest.len() < 4096 {
                let line = line_at(said);
                said += line.len() as u64;
                rest.extend(line);
            }
            let piece = 1 + (hash(rest.len() as u64 ^ said) % 3000) as usize;
            if to.write_all(&rest[..piece]).is_err() {
                return;
            }
            rest.drain(..piece);
            std::thread::sleep(Duration::from_micros(700));
        }
    })
}

/// How far everything is known to be right.
#[derive(Default)]
struct Checked {
    raw_end: u64,
    record: u64,
    daemons: u64,
    hashes: Vec<u64>,
}

impl Checked {
    /// Recovers, derives what is missing, and compares what is new with what the raw bytes say.
    fn go_on(&mut self, base: &Path) -> Result<(), String> {
        if let Ok(panic) = std::fs::read_to_string(base.join("panic")) {
            return Err(format!("a daemon panicked: {panic}"));
        }
        let raw = Journal::open(&base.join("raw")).unwrap();
        let events = EventJournal::open(&base.join("session")).map_err(|error| error.to_string())?;
        derive_rest(base, &raw, &events, events.derived_up_to(AGENT));
        let bytes = raw_bytes(base, self.raw_end, raw.bounds().out_end);
        let start = self.raw_end;
        let mut truth = lines(&bytes, start).filter_map(|(src_end, line)| {
            assert_eq!(line, line_at(src_end - line.len() as u64), "the raw journal differs at {src_end}");
            self.raw_end = src_end;
            Some((src_end, derive(line))).filter(|(_, events)| !events.is_empty())
        });
        let mut cursor = EventCursor::new(Arc::clone(&events), self.record);
        loop {
            let mut payload = Vec::new();
            let head = match cursor.next_blocking(&mut payload) {
                Ok(EventStep::Event(head)) => head,
                Ok(EventStep::UpToDate) => break,
                other => return Err(format!("record {}: {other:?}", self.record + 1)),
            };
            self.record += 1;
            self.hashes.push(hash(&payload));
            let wanted = match head.source {
                ENGINE => {
                    self.daemons += 1;
                    Some((self.daemons, format!("daemon {}", self.daemons).into_bytes()))
                }
                _ => truth.next(),
            };
            let Some((src_end, events)) = wanted else {
                return Err(format!("{head:?} comes from nowhere"));
            };
            if head.record != self.record || head.src_end != src_end || payload != events {
                let sizes = (payload.len(), events.len());
                return Err(format!("{head:?} differs: {sizes:?} bytes found and wanted, up to {src_end} wanted"));
            }
        }
        truth.next().map_or(Ok(()), |(src_end, _)| Err(format!("the line up to {src_end} has no record")))
    }

    /// What clients were shown, all of it, is what is there now.
    fn seen(&self, base: &Path) -> Result<usize, String> {
        let seen = std::fs::read_to_string(base.join("seen")).unwrap_or_default();
        seen.lines().try_for_each(|line| {
            let (record, sum) = line.split_once(' ').unwrap();
            let now = self.hashes.get(record.parse::<usize>().unwrap() - 1);
            let same = now.is_some_and(|now| format!("{now:016x}") == sum);
            same.then_some(()).ok_or_else(|| format!("record {record} was shown and is another now"))
        })?;
        Ok(seen.lines().count())
    }
}

/// The keeper's side: an agent's pipe, and one daemon at a time.
struct Keeper {
    base: tempfile::TempDir,
    /// The agent ends when this is gone.
    pipe: Option<OwnedFd>,
    agent: Option<JoinHandle<()>>,
    daemon: Option<Child>,
    random: u64,
}

impl Keeper {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("hooks")).unwrap();
        Journal::create(&base.path().join("raw")).unwrap();
        EventJournal::create(&base.path().join("session")).unwrap();
        let (read, write) = pipe();
        // Small: what waits between two daemons is little, so that a thousand of them are not too much.
        rustix::pipe::fcntl_setpipe_size(&write, 8192).unwrap();
        let agent = Some(agent(File::from(write)));
        Self { base, pipe: Some(nonblocking(read)), agent, daemon: None, random: 0x2545_f491_4f6c_dd1d }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn start_daemon(&mut self) {
        let stdin = self.pipe.as_ref().unwrap().try_clone().unwrap();
        let daemon = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "events::mini_daemon", "--nocapture", "--test-threads=1"])
            .env("OSTLER_EVENTS", self.base.path())
            .env("OSTLER_HOOKS", self.path("hooks"))
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
    }

    fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    fn records(&self) -> u64 {
        std::fs::metadata(self.path("session/events.idx")).unwrap().len() / 32
    }

    /// Whether a daemon has died between a payload and its record.
    fn has_tail(&self) -> bool {
        let mut data_end = [0; 8];
        if let Some(last) = self.records().checked_sub(1) {
            File::open(self.path("session/events.idx")).unwrap().read_exact_at(&mut data_end, last * 32).unwrap();
        }
        std::fs::metadata(self.path("session/events")).unwrap().len() > u64::from_le_bytes(data_end)
    }

    fn hits(&self, hook: &str) -> usize {
        let hits = std::fs::read_to_string(self.path("hooks").join(format!("{hook}.hit")));
        hits.map_or(0, |hits| hits.lines().count())
    }

    /// Lets a daemon journal a few records, then run into a hook, and kills it there.
    fn kill_at(&mut self, hook: &str, records: u64) {
        let fifo = self.path("hooks").join(hook);
        let (before, hits) = (self.records(), self.hits(hook));
        self.start_daemon();
        wait_until("records", || self.records() >= before + records);
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        wait_until(hook, || self.hits(hook) > hits);
        self.kill_daemon();
        std::fs::remove_file(&fifo).unwrap();
    }

    /// Kills a daemon at a random moment: of its beginning, or of its work.
    fn kill_at_random(&mut self) {
        let before = self.records();
        self.start_daemon();
        if self.random(4) > 0 {
            wait_until("more events", || self.records() > before + 1);
        }
        let moment = self.random(8000);
        std::thread::sleep(Duration::from_micros(moment));
        self.kill_daemon();
    }

    /// Everything, from the first byte on.
    fn check(&self) -> Result<Checked, String> {
        let mut checked = Checked::default();
        checked.go_on(self.base.path())?;
        checked.seen(self.base.path())?;
        Ok(checked)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kill_daemon();
        self.pipe = None;
        if let Some(agent) = self.agent.take() {
            let _ = agent.join();
        }
    }
}

#[test]
fn events_are_what_the_raw_bytes_say_however_often_the_daemon_is_killed() {
    let mut keeper = Keeper::new();
    let mut checked = Checked::default();
    let (mut tails, mut at_data) = (0, 0);
    for kill in 0..kills() {
        let records = keeper.random(4);
        match kill % 5 {
            0 => {
                keeper.kill_at("derived.data", records);
                at_data += 1;
            }
            1 => keeper.kill_at("derived.indexed", records),
            _ => keeper.kill_at_random(),
        }
        tails += usize::from(keeper.has_tail());
        // Every other daemon finds what the one before left; the others find what was recovered here.
        if kill % 2 == 1 {
            checked.go_on(keeper.base.path()).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        }
    }
    let checked = keeper.check().unwrap();
    let seen = checked.seen(keeper.base.path()).unwrap();
    println!(
        "{} kills, {tails} of them with a tail ({at_data} at the hook): {} raw bytes, {} records, {seen} shown",
        kills(),
        checked.raw_end,
        checked.record
    );
    assert!(tails >= at_data, "a daemon killed between payload and record leaves a tail");
    assert!(checked.daemons > 0 && seen > 0, "nothing was tried");
}

/// The negative control: without the rule that a tail is cut, the same check finds events that nobody derived, or a reader a
/// record that is longer than it says.
#[test]
fn a_recovery_that_does_not_cut_the_tail_is_caught() {
    let mut keeper = Keeper::new();
    std::fs::write(keeper.path("hooks/derived.keep_tail.fault"), "1").unwrap();
    keeper.kill_at("derived.indexed", 3);
    keeper.check().unwrap_or_else(|error| panic!("nothing to cut yet: {error}"));
    keeper.kill_at("derived.data", 2);
    assert!(keeper.has_tail());
    keeper.kill_at("derived.indexed", 2);
    let Err(error) = keeper.check() else { panic!("not noticed") };
    assert!(error.contains("differs") || error.contains("Damaged"), "{error}");
}
