//! One hosted child as the whole battery sees it: who it is, what it will write, which frames were seen of it.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::findings::lock;
use crate::child::{Kind, Report, Steering, Streams};
use crate::conn::Conn;
use crate::instance::{Instance, TOKEN};
use crate::rng::mix;
use crate::wire::{self, Attached, Identity};

/// How long a child may take to write its report after it was told to end.
const REPORT_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Hosted {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) streams: Streams,
    pub(crate) exit: u8,
    pub(crate) identity: Identity,
    pub(crate) frames: Mutex<FrameLog>,
    pub(crate) stdin: Mutex<StdinPlan>,
    /// The highest `applied` that any client was ever told.
    pub(crate) applied: AtomicU64,
    quitting: AtomicBool,
    steering: Mutex<Steering>,
    report: PathBuf,
}

impl Hosted {
    /// Spawns the child through the claustrum socket.
    pub(crate) fn spawn(instance: &Instance, conn: &mut Conn, kind: Kind, number: u8, seed: u64) -> Result<Self> {
        let plan = Plan::new(instance, kind, number, seed)?;
        let id = format!("crash/{number}-{}", kind.name());
        let params = json!({"id": id, "command": instance.tool(), "args": plan.arguments, "wantPid": true});
        let line = wire::request(1, "process.spawn", Some(&params), TOKEN);
        let reply = conn.call(&line, 1, Instant::now() + Duration::from_secs(20), |_| ())?;
        let attached: Attached = serde_json::from_str(&reply)?;
        let identity = attached.identity().with_context(|| format!("spawn of {id} gave no pid: {reply}"))?;
        Ok(plan.into_hosted(id, identity))
    }

    pub(crate) fn surge(&self, bytes: u64) -> Result<()> {
        if self.is_quitting() { Ok(()) } else { lock(&self.steering).surge(bytes) }
    }

    /// Tells the child to end. A child that reads stdin still gets everything that was ever sent to it.
    pub(crate) fn quit(&self) -> Result<()> {
        if self.quitting.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let total = lock(&self.stdin).close();
        lock(&self.steering).quit(total)
    }

    pub(crate) fn is_quitting(&self) -> bool {
        self.quitting.load(Ordering::Acquire)
    }

    /// What the child says it wrote.
    pub(crate) fn report(&self) -> Result<Report> {
        let deadline = Instant::now() + REPORT_DEADLINE;
        while Instant::now() < deadline {
            if let Ok(line) = std::fs::read_to_string(&self.report) {
                return Report::from_line(&line).with_context(|| format!("{} {line}", self.id));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{} (pid {}) wrote no report within {REPORT_DEADLINE:?}", self.id, self.identity.pid)
    }
}

/// What is decided about a child before it runs.
pub(crate) struct Plan {
    pub(crate) arguments: Vec<String>,
    kind: Kind,
    streams: Streams,
    exit: u8,
    steering: Steering,
    report: PathBuf,
}

impl Plan {
    pub(crate) fn new(instance: &Instance, kind: Kind, number: u8, seed: u64) -> Result<Self> {
        let seed = mix(seed ^ mix(u64::from(number) + 1));
        let name = kind.name();
        let steering = Steering::create(instance.dir().join(format!("{number}-{name}.control")))?;
        let report = instance.dir().join(format!("{number}-{name}.report"));
        let exit = 40 + number;
        let arguments = vec![
            "child".to_owned(),
            name.to_owned(),
            "--seed".to_owned(),
            seed.to_string(),
            "--control".to_owned(),
            steering.path.display().to_string(),
            "--report".to_owned(),
            report.display().to_string(),
            "--exit".to_owned(),
            exit.to_string(),
            "--parent".to_owned(),
            std::process::id().to_string(),
        ];
        Ok(Self { arguments, kind, streams: Streams::new(kind, seed), exit, steering, report })
    }

    pub(crate) fn into_hosted(self, id: String, identity: Identity) -> Hosted {
        Hosted {
            id,
            kind: self.kind,
            streams: self.streams,
            exit: self.exit,
            identity,
            frames: Mutex::default(),
            stdin: Mutex::default(),
            applied: AtomicU64::new(0),
            quitting: AtomicBool::new(false),
            steering: Mutex::new(self.steering),
            report: self.report,
        }
    }
}

/// How much stdin is sent in all: settled once, when the child is told to end.
#[derive(Default)]
pub(crate) struct StdinPlan {
    sent: u64,
    total: Option<u64>,
}

impl StdinPlan {
    /// How many of the `length` bytes at `offset` may be sent.
    pub(crate) fn grant(&mut self, offset: u64, length: usize) -> usize {
        if let Some(total) = self.total {
            return length.min(usize::try_from(total.saturating_sub(offset)).unwrap_or(usize::MAX));
        }
        self.sent = self.sent.max(offset + length as u64);
        length
    }

    fn close(&mut self) -> u64 {
        *self.total.get_or_insert(self.sent)
    }
}

/// The frames of one process, by sequence number, as whoever saw each of them first.
#[derive(Default)]
pub(crate) struct FrameLog(Vec<u64>);

impl FrameLog {
    /// A frame's fingerprint: which stream, and every byte.
    pub(crate) fn fingerprint(tag: u8, bytes: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(tag);
        hasher.write(bytes);
        hasher.finish()
    }

    /// False when somebody saw another frame under this number.
    pub(crate) fn agrees(&mut self, seq: u64, fingerprint: u64) -> bool {
        let Some(at) = seq.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else { return false };
        match self.0.get(at) {
            Some(known) => *known == fingerprint,
            None => {
                // A client that jumped ahead leaves holes; nothing may ever agree with them.
                self.0.resize(at, 0);
                self.0.push(fingerprint);
                true
            }
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.0.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_changes_between_two_readings_is_found() {
        let mut log = FrameLog::default();
        let (one, two) = (FrameLog::fingerprint(1, b"one"), FrameLog::fingerprint(1, b"two"));
        assert!(log.agrees(1, one) && log.agrees(2, two));
        assert!(log.agrees(1, one));
        assert!(!log.agrees(1, two));
        assert!(!log.agrees(0, one));
        assert_ne!(one, FrameLog::fingerprint(2, b"one"), "the stream is part of a frame");
    }

    #[test]
    fn nothing_is_granted_beyond_the_settled_total() {
        let mut plan = StdinPlan::default();
        assert_eq!(plan.grant(0, 100), 100);
        assert_eq!(plan.grant(50, 100), 100);
        assert_eq!(plan.close(), 150);
        assert_eq!(plan.grant(140, 100), 10);
        assert_eq!(plan.grant(200, 100), 0);
        assert_eq!(plan.close(), 150);
    }
}
