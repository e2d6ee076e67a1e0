//! What a silent process costs.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use ostler_journal::{Cursor, Journal, PumpConfig, PumpIo, Pumps, Step};
use ostler_story::Exit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn anonymous_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_idle_process_with_a_reader_costs_less_than_8_kb() {
    if !is_alone() {
        return;
    }
    const MANY: usize = 300;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // No syncing: this is about memory.
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::ZERO, ..quick() }).unwrap();
    let mut kept = Vec::with_capacity(MANY);
    let mut start = |n: usize| {
        let journal = Journal::create(&dir.path().join(n.to_string())).unwrap();
        let ((stdout, out), (stderr, err), (child, stdin)) = (pipe(), pipe(), pipe());
        let io = PumpIo {
            stdout: Some(nonblocking(stdout)),
            stderr: Some(nonblocking(stderr)),
            stdin: Some(nonblocking(stdin)),
            ledger: Some(journal.ledger_reader().unwrap()),
            ..PumpIo::default()
        };
        rustix::io::write(&out, b"hello\n").unwrap();
        let hosted = pumps.host(Arc::clone(&journal), io, false);
        wait_until("the line", || journal.bounds().last_seq == 1);
        let mut cursor = Cursor::new(Arc::clone(&journal), 0);
        assert!(matches!(cursor.next_blocking(&mut Vec::new()).unwrap(), Step::Frame(_)));
        let subscription = journal.subscribe(Arc::new(|| ()));
        kept.push((hosted, cursor, subscription, out, err, child));
    };
    (0..20).for_each(&mut start);
    pumps.sync_now();
    let before = anonymous_kb();
    (20..MANY).for_each(&mut start);
    pumps.sync_now();
    let each = (anonymous_kb() - before) as f64 / (MANY - 20) as f64;
    println!("{each:.1} kB each");
    assert!(each < 8.0, "{each:.1} kB each");
    for (hosted, ..) in kept {
        hosted.child_exited(Exit::Code(0));
    }
}
