//! A connection that carries the events of sessions: in order, each once, only as fast as the client reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ostler_door_rpc::{After, Flow, InputLimits, Limits, LineSource, Outbox, Session, Watch, serve};
use ostler_engine::{EventCursor, EventHead, EventStep, FrameHead, MayWait, Subscription, Wake};
use ostler_journal::EventJournal;

const SOON: Duration = Duration::from_secs(30);
const HELD: &str = "held back\n";

/// Watches the journal whose number is on the line, from the record after it: `0 17`. `hold 17` is answered after that
/// record of the first one.
struct Door {
    journals: Vec<Arc<EventJournal>>,
    written: Arc<AtomicU64>,
}

/// Says every record of a journal twice, each on a line.
struct Doubled {
    cursor: EventCursor,
    written: Arc<AtomicU64>,
}

impl LineSource for Doubled {
    fn has_more(&mut self) -> bool {
        self.cursor.position() < self.cursor.journal().bounds().last
    }

    fn read(&mut self, _: &MayWait, lines: &mut Vec<u8>) -> std::io::Result<()> {
        let mut data = Vec::new();
        if let EventStep::Event(head) = self.cursor.next_blocking(&mut data)? {
            self.written.fetch_add(1, Ordering::Relaxed);
            for _ in 0..2 {
                lines.extend(format!("{} ", head.record).bytes());
                lines.extend_from_slice(&data);
                lines.push(b'\n');
            }
        }
        Ok(())
    }

    fn begin(&mut self, wake: Arc<dyn Wake>) -> Option<Subscription> {
        Some(self.cursor.journal().subscribe(wake))
    }
}

impl Session for Door {
    type Tag = usize;

    fn line(&mut self, line: &[u8], out: &mut Outbox<usize>) -> Flow {
        let text = std::str::from_utf8(line).unwrap();
        let (which, after) = text.split_once(' ').unwrap();
        if which == "hold" {
            out.reply_after(HELD.into(), &After { process: "s0".into(), seq: after.parse().unwrap() });
            return Flow::Continue;
        }
        if which == "lines" {
            let cursor = EventCursor::new(Arc::clone(&self.journals[0]), after.parse().unwrap());
            out.watch(Watch::lines("lines".into(), 0, Doubled { cursor, written: Arc::clone(&self.written) }));
            return Flow::Continue;
        }
        let which: usize = which.parse().unwrap();
        let cursor = EventCursor::new(Arc::clone(&self.journals[which]), after.parse().unwrap());
        out.watch(Watch::events(format!("s{which}"), which, cursor));
        Flow::Continue
    }

    fn frame(&mut self, _: &usize, _: &FrameHead, _: &[u8], _: &mut Vec<u8>) -> bool {
        panic!("no process is watched")
    }

    fn record(&mut self, tag: &usize, head: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        self.written.fetch_add(1, Ordering::Relaxed);
        out.extend(format!("{tag} {} ", head.record).bytes());
        out.extend_from_slice(data);
        out.push(b'\n');
        true
    }

    fn gap(&mut self, tag: &usize, first: u64, _: ostler_engine::Missing, out: &mut Vec<u8>) {
        out.extend(format!("{tag} gap {first}\n").bytes());
    }
}

struct Stage {
    _dir: tempfile::TempDir,
    journals: Vec<Arc<EventJournal>>,
    written: Arc<AtomicU64>,
    client: UnixStream,
}

/// A client of a door with so many journals; must run inside a runtime of several threads.
fn stage(count: usize) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let journals: Vec<_> = (0..count).map(|n| EventJournal::create(&dir.path().join(n.to_string())).unwrap()).collect();
    let written = Arc::new(AtomicU64::new(0));
    let (client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let door = Door { journals: journals.clone(), written: Arc::clone(&written) };
    let limits = Limits { line: 100, in_flight: 4, in_flight_bytes: 1000, input: InputLimits::default() };
    tokio::spawn(serve(tokio::net::UnixStream::from_std(server).unwrap(), door, limits));
    Stage { _dir: dir, journals, written, client }
}

fn append(journal: &Arc<EventJournal>, count: u64, size: usize) {
    for _ in 0..count {
        journal.append(0, 0, &vec![b'x'; size]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_share_a_connection_and_each_record_comes_once_and_in_order() {
    let stage = stage(2);
    append(&stage.journals[0], 100, 10);
    append(&stage.journals[1], 50, 10);
    (&stage.client).write_all(b"0 0\n1 40\n").unwrap();
    let journals = stage.journals.clone();
    let writer = std::thread::spawn(move || {
        for journal in &journals {
            append(journal, 500, 10);
        }
    });
    let (mut next, mut lines) = ([1, 41], BufReader::new(&stage.client).lines());
    while next != [601, 551] {
        let line = lines.next().unwrap().unwrap();
        let mut words = line.split(' ');
        let (which, record): (usize, u64) =
            (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
        assert_eq!(record, next[which], "{line}");
        next[which] += 1;
    }
    writer.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_costs_a_bounded_buffer() {
    let stage = stage(1);
    append(&stage.journals[0], 2000, 8192);
    (&stage.client).write_all(b"0 0\n").unwrap();
    let quiet = || {
        let before = stage.written.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(200));
        before > 0 && stage.written.load(Ordering::Relaxed) == before
    };
    let until = Instant::now() + SOON;
    while !quiet() {
        assert!(Instant::now() < until, "it never stops");
    }
    let buffered = stage.written.load(Ordering::Relaxed);
    assert!(buffered < 200, "{buffered} records of 8 KiB were taken for a client that reads none");
    let mut lines = BufReader::new(&stage.client).lines();
    for record in 1..=2000 {
        assert!(lines.next().unwrap().unwrap().starts_with(&format!("0 {record} ")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_is_told_and_the_watch_goes_on_behind_it() {
    let stage = stage(1);
    append(&stage.journals[0], 10, 10);
    stage.journals[0].cut_before(6).unwrap();
    (&stage.client).write_all(b"0 2\n").unwrap();
    let mut lines = BufReader::new(&stage.client).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0 gap 6");
    assert!(lines.next().unwrap().unwrap().starts_with("0 6 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_wait_for_a_frame_are_bounded_too() {
    let stage = stage(1);
    append(&stage.journals[0], 200, 8192);
    (&stage.client).write_all(b"0 0\n").unwrap();
    stage.client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let (line, most) = ("hold 200\n", 1_000_000);
    let asked = (0..most).take_while(|_| (&stage.client).write_all(line.as_bytes()).is_ok()).count();
    assert!(asked < most, "a client that reads nothing is read without end");
    stage.client.shutdown(std::net::Shutdown::Write).unwrap();
    let lines: Vec<_> = BufReader::new(&stage.client).lines().map(Result::unwrap).collect();
    let (records, held) = lines.split_at(200);
    assert!(records.iter().all(|record| record.starts_with("0 ")));
    assert!(held.len() >= asked && held.iter().all(|line| line == HELD.trim_end()), "{} of {asked}", held.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_made_come_as_they_are_and_only_as_fast_as_they_are_read() {
    let stage = stage(1);
    append(&stage.journals[0], 1000, 8192);
    (&stage.client).write_all(b"lines 0\n").unwrap();
    let until = Instant::now() + SOON;
    loop {
        let before = stage.written.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(200));
        if before > 0 && stage.written.load(Ordering::Relaxed) == before {
            break;
        }
        assert!(Instant::now() < until, "it never stops");
    }
    let buffered = stage.written.load(Ordering::Relaxed);
    assert!(buffered < 100, "{buffered} records were taken for a client that reads none");
    let mut lines = BufReader::new(&stage.client).lines();
    let mut expect = |record: u64| {
        for _ in 0..2 {
            let line = lines.next().unwrap().unwrap();
            assert!(line.starts_with(&format!("{record} ")), "{record}: {}", &line[..10]);
        }
    };
    (1..=1000).for_each(&mut expect);
    // At rest it is woken.
    append(&stage.journals[0], 1, 10);
    expect(1001);
}
