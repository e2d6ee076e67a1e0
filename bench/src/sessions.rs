//! `bench sessions`: conversations with the echo agent while the daemon is killed at random moments. Clients send every prompt
//! again until they hear of it, and go on watching where they were. What an echo must have said is known from what it was told;
//! that, and never the journal, is what the received events are compared with. Two readers of the feed go along.

mod client;
mod feed;
mod judge;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::approvals::{Daemon, approver, native};
use crate::args::Args;
use crate::instance::Instance;
use crate::rng::Rng;
use client::Client;

/// Conversations at once: half keep their agent's process, half have one for each prompt.
const SESSIONS: u64 = 6;
/// Between two kills; also shorter than a start, so that some daemons die while they take up what is there.
const BETWEEN: (u64, u64) = (5_000, 250_000);
/// Lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// The text at a place of an event; nothing if there is none.
pub(crate) fn word<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn run(mut args: Args) -> Result<u8> {
    let kills: u64 = args.required("--kills")?;
    let seed: u64 = args.required("--seed")?;
    let instance = Instance::named(args, "sessions")?;
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let (mut person, _) = approver::start(&instance, seed)?;
    let (rng, over) = (Rng::new(seed), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let (client, over) = (Client::new(instance.dir(), number, rng.fork(number)), Arc::clone(&over));
            std::thread::spawn(move || client.run(&over))
        })
        .collect();
    let told = Arc::new(AtomicBool::new(false));
    let readers = [feed::How::Pages, feed::How::Follows].map(|how| {
        let (socket, told) = (native(instance.dir()), Arc::clone(&told));
        std::thread::spawn(move || feed::read(socket, how, &told))
    });
    let killed = kill(&mut daemon, rng.fork(SESSIONS), kills)?;
    over.store(true, Ordering::Release);
    let logs: Vec<_> = clients.into_iter().filter_map(|client| client.join().ok()).collect();
    // Gone already is as good.
    let _ = person.kill();
    let _ = person.wait();
    let audit = daemon.audit()?;
    told.store(true, Ordering::Release);
    let heard = readers.map(|reader| reader.join().unwrap_or_default());
    daemon.stop()?;
    let mut verdict = judge::judge(&logs, SESSIONS, &audit);
    let [one, two] = &heard;
    verdict.findings.extend(feed::judge(one, two, &logs));
    println!("  feed: {} changes, told to two readers", one.changes.len());
    for finding in verdict.findings.iter().take(20) {
        println!("  {finding}");
    }
    println!("{}", verdict.line(killed));
    Ok(u8::from(!verdict.findings.is_empty()))
}

fn kill(daemon: &mut Daemon<'_>, mut rng: Rng, kills: u64) -> Result<u64> {
    let mut shown = Instant::now();
    for killed in 0..kills {
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            println!("  {killed}/{kills} kills");
        }
        std::thread::sleep(rng.micros(BETWEEN.0, BETWEEN.1));
        daemon.kill().context("kill")?;
        if rng.percent(20) {
            // This one dies while it is still looking around.
            daemon.begin()?;
            std::thread::sleep(rng.micros(0, 30_000));
            daemon.kill()?;
        }
        daemon.start().context("start after a kill")?;
    }
    Ok(kills)
}
