//! `bench approvals`: requests, racing approvers, askers that hang up, deadlines, and SIGKILL of the daemon, above all between a
//! recorded yes and the command that follows from it. What really ran is counted by the commands themselves, in files that
//! the product never looks at; what people were told is compared with the audit.

pub(crate) mod approver;
mod asker;
mod daemon;
mod verdict;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::args::Args;
use crate::instance::Instance;
use crate::rng::Rng;
use asker::{Asked, Asker};

pub(crate) use approver::{run as approve, terminal};
pub(crate) use daemon::{Daemon, native};

/// Approvers at once, each on a terminal of its own.
const APPROVERS: u64 = 3;
/// Requests at once.
const ASKERS: u64 = 8;
/// One line of progress in so much time.
const PROGRESS: Duration = Duration::from_secs(10);

/// What an approver was told, by request.
pub(crate) type ApproverReplies = HashMap<String, Vec<String>>;

/// What the threads of a run share.
struct RunState {
    next: AtomicU64,
    runs: u64,
    done: AtomicBool,
    told: Mutex<ApproverReplies>,
    asked: Mutex<Vec<Asked>>,
}

pub(crate) fn run(mut args: Args) -> Result<u8> {
    let runs: u64 = args.required("--runs")?;
    let kills: u64 = args.required("--kills")?;
    let seed: u64 = args.required("--seed")?;
    let instance = Instance::named(args, "approvals")?;
    let shared = Arc::new(RunState {
        next: AtomicU64::new(0),
        runs,
        done: AtomicBool::new(false),
        told: Mutex::default(),
        asked: Mutex::default(),
    });
    let (accepted, hits) = mpsc::sync_channel(64);
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let rng = Rng::new(seed);
    let mut approvers = Vec::new();
    for number in 0..APPROVERS {
        let (child, output) = approver::start(&instance, seed ^ number)?;
        approvers.push(child);
        listen(output, Arc::clone(&shared), accepted.clone());
    }
    let askers: Vec<_> = (0..ASKERS).map(|number| start_asker(&instance, &shared, rng.fork(number))).collect();
    let killed = kill(&mut daemon, &shared, &hits, rng.fork(ASKERS), kills)?;
    for asker in askers {
        drop(asker.join());
    }
    shared.done.store(true, Ordering::Release);
    end(&mut approvers);
    let audit = daemon.audit()?;
    daemon.stop()?;
    let asked = std::mem::take(&mut *shared.asked.lock().unwrap_or_else(PoisonError::into_inner));
    let told = std::mem::take(&mut *shared.told.lock().unwrap_or_else(PoisonError::into_inner));
    let verdict = verdict::judge(instance.dir(), &asked, &told, &audit)?;
    for finding in verdict.findings.iter().take(20) {
        println!("  {finding}");
    }
    println!("{}", verdict.line(killed));
    Ok(u8::from(!verdict.findings.is_empty()))
}

fn start_asker(instance: &Instance, shared: &Arc<RunState>, rng: Rng) -> std::thread::JoinHandle<()> {
    let (shared, mut asker) = (Arc::clone(shared), Asker::new(instance.dir(), rng));
    std::thread::spawn(move || {
        loop {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            if number >= shared.runs {
                return;
            }
            let asked = asker.ask(number);
            shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        }
    })
}

/// Notes what an approver says it was told, and lets the killer know of every yes that counted.
fn listen(output: ChildStdout, shared: Arc<RunState>, accepted: mpsc::SyncSender<()>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some((id, told)) = line.split_once(' ') else { continue };
            if told.starts_with("counted once") {
                // A full queue means that the killer is busy killing.
                let _ = accepted.try_send(());
            }
            let mut all = shared.told.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(id.to_owned()).or_default().push(told.to_owned());
        }
    });
}

/// Kills the daemon `kills` times, spread over the run, most of them right after a yes was recorded. Brings it back each time.
fn kill(daemon: &mut Daemon, shared: &RunState, hits: &mpsc::Receiver<()>, mut rng: Rng, kills: u64) -> Result<u64> {
    let mut killed = 0;
    let mut shown = Instant::now();
    loop {
        let at = shared.asked.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        if at >= shared.runs {
            return Ok(killed);
        }
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            println!("  {at}/{} requests, {killed}/{kills} kills", shared.runs);
        }
        let due = killed < kills && at * kills >= killed * shared.runs;
        match hits.recv_timeout(Duration::from_millis(20)) {
            Ok(()) if due => std::thread::sleep(rng.micros(0, 1500)),
            Err(_) if due && rng.percent(10) => {}
            _ => continue,
        }
        daemon.kill().context("kill")?;
        killed += 1;
        daemon.start().context("start after a kill")?;
        while hits.try_recv().is_ok() {}
    }
}

fn end(approvers: &mut [Child]) {
    for approver in approvers {
        // Gone already is as good.
        let _ = approver.kill();
        let _ = approver.wait();
    }
}
