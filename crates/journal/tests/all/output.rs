//! What children write, through real pipes.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use ostler_journal::{Cursor, FRAME_MAX, FsKind, Journal, JournalOptions, Kind, PumpConfig, PumpIo, Pumps, Step};
use ostler_story::Exit;

#[test]
fn both_streams_and_the_exit_are_journaled_in_order() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let script = "echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three; exit 7";
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), script);
    let frames = proc.finish();
    let kinds: Vec<_> = frames.iter().map(|frame| frame.head.kind).collect();
    assert_eq!(kinds, [Kind::Stdout, Kind::Stderr, Kind::Stdout, Kind::Exit]);
    let seqs: Vec<_> = frames.iter().map(|frame| frame.head.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    assert_eq!(text_of(&frames, Kind::Stdout), "one\nthree\n");
    assert_eq!(text_of(&frames, Kind::Stderr), "two\n");
    let exit = proc.journal.bounds().exit.unwrap();
    assert_eq!((exit.seq, exit.how), (4, Exit::Code(7)));
}

#[test]
fn a_signal_is_told_apart_from_a_code() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "kill -9 $$");
    proc.finish();
    let exit = proc.journal.bounds().exit.unwrap();
    assert_eq!(exit.how, Exit::Signal(9));
}

#[test]
fn a_large_stream_arrives_whole_in_frames_that_fit() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let script = "head -c 10000000 /dev/urandom | tee \"$0\" | cat";
    let script = script.replace("$0", dir.path().join("copy").to_str().unwrap());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), &script);
    let frames = proc.finish();
    assert!(frames.iter().all(|frame| frame.bytes.len() <= FRAME_MAX));
    let truth = std::fs::read(dir.path().join("copy")).unwrap();
    assert_eq!(bytes_of(&frames, Kind::Stdout), truth);
    // Nearly all of them are full: a busy stream is not cut into crumbs.
    assert!(frames.len() < 10_000_000 / FRAME_MAX * 2, "{} frames", frames.len());
}

#[test]
fn single_bytes_are_gathered_but_the_first_is_visible_at_once() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let (read, write) = pipe();
    let io = PumpIo { stdout: Some(nonblocking(read)), ..PumpIo::default() };
    let hosted = pumps.host(Arc::clone(&journal), io, false);
    let mut write = std::fs::File::from(write);
    write.write_all(b"x").unwrap();
    wait_until("the first byte", || journal.bounds().last_seq == 1);
    let start = Instant::now();
    for _ in 0..20_000 {
        write.write_all(b"x").unwrap();
    }
    drop(write);
    let millis = start.elapsed().as_millis() as u64;
    hosted.child_exited(Exit::Code(0));
    wait_until("the exit", || journal.bounds().exit.is_some());
    let bounds = journal.bounds();
    assert_eq!(bounds.out_end, 20_001);
    // At most one a millisecond, and some room for a machine that sleeps short.
    assert!(bounds.last_seq < millis * 2 + 10, "{} frames in {millis} ms", bounds.last_seq);
}

#[test]
fn a_line_after_silence_is_visible_within_milliseconds() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let (read, write) = pipe();
    let io = PumpIo { stdout: Some(nonblocking(read)), ..PumpIo::default() };
    let _hosted = pumps.host(Arc::clone(&journal), io, false);
    let mut write = std::fs::File::from(write);
    let mut times = Vec::new();
    for round in 1..=50 {
        std::thread::sleep(Duration::from_millis(4));
        let start = Instant::now();
        write.write_all(b"line\n").unwrap();
        while journal.bounds().last_seq < round {
            std::hint::spin_loop();
        }
        times.push(start.elapsed());
    }
    // The best: on a busy machine the others say how busy it is.
    let best = times.iter().min().unwrap();
    assert!(*best < Duration::from_millis(1), "{times:?}");
}

#[test]
fn a_grandchild_that_keeps_the_pipe_delays_the_exit_only_so_long_and_loses_nothing() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let gate = dir.path().join("gate");
    let script = format!("echo early; (until [ -e {} ]; do sleep 0.01; done; echo late) & exit 3", gate.display());
    let start = Instant::now();
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), &script);
    proc.reap();
    wait_until("the exit record", || proc.journal.bounds().exit.is_some());
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    assert!(proc.send(b"x").is_err(), "it has ended");
    std::fs::write(&gate, "").unwrap();
    wait_until("late bytes", || proc.journal.bounds().last_seq == 3);
    let frames = read_all(&proc.journal);
    assert_eq!(text_of(&frames, Kind::Stdout), "early\nlate\n");
    assert_eq!(frames[1].head.kind, Kind::Exit);
    assert!(!frames[0].head.late && frames[2].head.late);
}

#[test]
fn a_subscriber_is_woken_once_per_arming_and_misses_nothing() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let (wakes, main) = (Arc::new(AtomicUsize::new(0)), std::thread::current());
    let counted = Arc::clone(&wakes);
    let subscription = journal.subscribe(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        main.unpark();
    }));
    let mut proc = Proc::in_journal(&pumps, Arc::clone(&journal), "head -c 30000000 /dev/zero");
    let reaper = {
        let hosted = proc.hosted.clone();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        std::mem::swap(&mut child, &mut proc.child);
        std::thread::spawn(move || hosted.child_exited(status_of(child.wait().unwrap())))
    };
    let mut cursor = Cursor::new(Arc::clone(&journal), 0);
    let (mut bytes, mut rounds, mut buf) = (0, 0, Vec::new());
    'reading: loop {
        subscription.arm();
        loop {
            buf.clear();
            match cursor.try_next(&mut buf).unwrap() {
                Step::Frame(head) if head.kind == Kind::Exit => break 'reading,
                Step::Frame(head) => bytes += head.len,
                Step::UpToDate => break,
                Step::WouldBlock => std::thread::yield_now(),
                Step::Gap { .. } => panic!("nothing was cut"),
            }
        }
        rounds += 1;
        let start = Instant::now();
        std::thread::park_timeout(LONG);
        assert!(start.elapsed() < LONG, "never woken");
    }
    reaper.join().unwrap();
    assert_eq!(bytes, 30_000_000);
    assert!(wakes.load(Ordering::SeqCst) <= rounds + 2, "woken more often than asked for");
}

#[test]
fn whoever_is_woken_may_unsubscribe_and_subscribe() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let held = Arc::new(std::sync::Mutex::new(None));
    let (mine, again) = (Arc::clone(&held), Arc::downgrade(&journal));
    let subscription = journal.subscribe(Arc::new(move || {
        let old = mine.lock().unwrap().take();
        drop(old);
        if let Some(journal) = again.upgrade() {
            *mine.lock().unwrap() = Some(journal.subscribe(Arc::new(|| ())));
        }
    }));
    *held.lock().unwrap() = Some(subscription);
    Proc::in_journal(&pumps, journal, "echo x; sleep 0.05; echo y").finish();
}

#[test]
fn an_exit_is_told_once_to_everybody_who_asked_before_or_after() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "exit 4");
    let (tell, told) = std::sync::mpsc::channel();
    let early = tell.clone();
    proc.journal.on_exit(move |exit| early.send(exit).unwrap());
    proc.finish();
    proc.journal.on_exit(move |exit| tell.send(exit).unwrap());
    let codes: Vec<_> = told.iter().map(|exit| exit.how).collect();
    assert_eq!(codes, [Exit::Code(4), Exit::Code(4)]);
}

#[test]
fn bounds_and_cursors_agree_at_every_moment() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let mut proc = Proc::in_journal(&pumps, Arc::clone(&journal), "seq 1 200000; exit 1");
    let watcher = std::thread::spawn(move || {
        let mut cursor = Cursor::new(Arc::clone(&journal), 0);
        let mut buf = Vec::new();
        loop {
            let known = journal.bounds();
            while cursor.position() < known.last_seq {
                buf.clear();
                let Step::Frame(head) = cursor.next_blocking(&mut buf).unwrap() else { panic!("known but not there") };
                if head.kind == Kind::Exit {
                    assert!(journal.bounds().exit.is_some());
                    return;
                }
            }
        }
    });
    proc.finish();
    watcher.join().unwrap();
}

#[test]
fn a_dropped_subscription_is_not_woken() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    drop(journal.subscribe(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })));
    Proc::in_journal(&pumps, journal, "echo x").finish();
    assert_eq!(wakes.load(Ordering::SeqCst), 0);
}

#[test]
fn release_leaves_no_exit_and_no_descriptor() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let proc = Proc::start(&pumps, &dir.path().join("j"), "echo x; exec sleep 60");
    wait_until("output", || proc.journal.bounds().last_seq == 1);
    proc.hosted.release();
    wait_until("the release", || proc.send(b"x").is_err());
    proc.hosted.child_exited(Exit::Code(0));
    assert_eq!(proc.journal.bounds().exit, None);
    proc.journal.close_files();
    let open = open_files();
    let mine: Vec<_> = open.iter().filter(|path| path.contains(dir.path().to_str().unwrap())).collect();
    assert!(mine.is_empty(), "{mine:?}");
}

fn open_files() -> Vec<String> {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    targets.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_closed_journal_is_opened_again_by_whoever_reads_it() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "echo kept");
    let before = proc.finish();
    proc.journal.close_files();
    assert_eq!(read_all(&proc.journal), before);
}

#[test]
fn a_reopened_journal_says_the_same_and_goes_on_counting() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let path = dir.path().join("j");
    let mut proc = Proc::start(&pumps, &path, "echo a; echo b >&2; exit 2");
    let before = proc.finish();
    let bounds = proc.journal.bounds();
    drop(proc);
    let again = Journal::open(&path).unwrap();
    assert_eq!(again.bounds(), bounds);
    assert_eq!(read_all(&again), before);
    again.record_exit(Exit::Unknown).unwrap();
    assert_eq!(again.bounds(), bounds, "one exit is enough");
}

#[test]
fn a_process_found_dead_gets_an_unknown_exit_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    journal.record_exit(Exit::Unknown).unwrap();
    journal.record_exit(Exit::Code(0)).unwrap();
    let exit = journal.bounds().exit.unwrap();
    assert!(exit.how == Exit::Unknown && exit.seq == 1);
}

#[test]
fn bytes_that_left_memory_are_not_waited_for_unless_asked() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let path = dir.path().join("j");
    let mut proc = Proc::start(&pumps, &path, "seq 1 5000");
    proc.finish();
    pumps.sync_now();
    let out = std::fs::File::open(path.join("out")).unwrap();
    let mut cursor = Cursor::new(Arc::clone(&proc.journal), 0);
    let mut bytes = Vec::new();
    let probe = ostler_journal::probe(dir.path()).unwrap();
    if probe.nowait_ok && probe.fs_kind == FsKind::Local("ext4") {
        // The kernel takes the advice when it can: while a page is being written, it stays.
        wait_until("a read that would block", || {
            rustix::fs::fadvise(&out, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            cursor = Cursor::new(Arc::clone(&proc.journal), 0);
            bytes.clear();
            cursor.try_next(&mut bytes).unwrap() == Step::WouldBlock
        });
        assert_eq!((bytes.len(), cursor.position()), (0, 0));
    }
    assert!(matches!(cursor.next_blocking(&mut bytes).unwrap(), Step::Frame(_)));
    assert!(bytes.starts_with(b"1\n2\n3\n"));
}

#[test]
fn a_private_process_leaves_no_file_and_survives_its_daemon() {
    let journal = Journal::in_memory(JournalOptions::default()).unwrap();
    let (read, write) = pipe();
    let (child, stdin) = pipe();
    let kept = (read.try_clone().unwrap(), stdin.try_clone().unwrap(), journal.ledger_reader().unwrap());
    let held = journal.held().unwrap();
    let io = |stdout, stdin, ledger| PumpIo {
        stdout: Some(nonblocking(stdout)),
        stdin: Some(nonblocking(stdin)),
        ledger: Some(ledger),
        ..PumpIo::default()
    };
    let first = pumps();
    let ledger = kept.2.try_clone().unwrap();
    let hosted = first.host(Arc::clone(&journal), io(read, stdin, ledger), false);
    // More than the pipe holds: the rest must outlive the first daemon.
    let secret: Vec<u8> = (0..200_000_u32).map(|n| (n % 251 + 1) as u8).collect();
    hosted.append_stdin(None, secret[..150_000].to_vec(), Box::new(|_| ()));
    rustix::io::write(&write, b"one ").unwrap();
    wait_until("both", || (journal.bounds().last_seq, journal.bounds().applied) == (1, 150_000));
    drop((first, hosted, journal));
    rustix::io::write(&write, b"two").unwrap();

    let journal = Journal::from_held(held, JournalOptions::default()).unwrap();
    let second = pumps();
    let hosted = second.host(Arc::clone(&journal), io(kept.0, kept.1, kept.2), true);
    hosted.append_stdin(Some(0), secret.clone(), Box::new(|_| ()));
    wait_until("the rest", || journal.bounds().out_end == 7);
    assert_eq!(text_of(&read_all(&journal), Kind::Stdout), "one two");
    let mut got = vec![0; secret.len()];
    std::io::Read::read_exact(&mut std::fs::File::from(child), &mut got).unwrap();
    assert!(got == secret);
}

#[test]
fn a_journal_that_is_deleted_before_it_was_synced_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let pumps = Pumps::start(PumpConfig { sync_every: Duration::from_secs(600), ..quick() }).unwrap();
    let mut proc = Proc::start(&pumps, &dir.path().join("j"), "echo nobody wants it");
    proc.finish();
    proc.journal.close_files();
    std::fs::remove_dir_all(dir.path().join("j")).unwrap();
    drop(proc);
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(pumps);
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn many_processes_share_two_threads() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut procs: Vec<_> = (0..60)
        .map(|n| Proc::start(&pumps, &dir.path().join(n.to_string()), &format!("echo {n}; cat; exit {n}")))
        .collect();
    for (n, proc) in procs.iter().enumerate() {
        proc.send(format!("to {n}\n").as_bytes()).unwrap();
        proc.close_stdin().unwrap();
    }
    for (n, proc) in procs.iter_mut().enumerate() {
        let frames = proc.finish();
        assert_eq!(text_of(&frames, Kind::Stdout), format!("{n}\nto {n}\n"));
        assert_eq!(proc.journal.bounds().exit.unwrap().how, Exit::Code(n as i32));
    }
}

#[test]
fn a_heavy_stream_gets_a_thread_of_its_own_and_gives_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let pumps = Pumps::start(PumpConfig { heavy_rate: 1 << 20, ..quick() }).unwrap();
    let stop = dir.path().join("stop");
    let script = "until [ -e STOP ]; do head -c 500000 /dev/zero; done; echo; read go; echo over";
    let script = script.replace("STOP", stop.to_str().unwrap());
    let mut heavy: Vec<_> = (0..2).map(|n| Proc::start(&pumps, &dir.path().join(n.to_string()), &script)).collect();
    let small = Proc::start(&pumps, &dir.path().join("small"), "exec cat");
    let mut sent = 0;
    let mut ping = || {
        sent += 5;
        small.send(b"ping\n").unwrap();
        wait_until("the echo", || small.journal.bounds().out_end == sent);
    };
    wait_until("a thread", || {
        ping();
        // One of the two shares its thread with the small one.
        is_running("pump-heavy-0")
    });
    std::fs::write(&stop, "").unwrap();
    for proc in &heavy {
        wait_until("the end of the bulk", || proc.journal.bounds().out_end % 500_000 == 1);
    }
    // Longer than it takes to be judged light again.
    std::thread::sleep(Duration::from_millis(600));
    for proc in &mut heavy {
        proc.send(b"go\n").unwrap();
        let frames = proc.finish();
        let bytes = bytes_of(&frames, Kind::Stdout);
        let (bulk, end) = bytes.split_at(bytes.len() - 6);
        assert!(bulk.iter().all(|byte| *byte == 0) && bulk.len() % 500_000 == 0);
        assert_eq!(end, b"\nover\n");
    }
    ping();
}

fn is_running(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.any(|other| other.trim() == name)
}

#[test]
fn a_process_is_drained_when_the_last_holder_of_its_pipes_has_gone_and_not_when_the_daemon_stops() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let path = dir.path().join("j");
    let mut proc = Proc::start(&pumps, &path, "exec 3<&0; (read go <&3; echo late) & exit 0");
    let (tell, told) = std::sync::mpsc::channel();
    let told_late = tell.clone();
    proc.hosted.on_drained(Box::new(move || told_late.send("late").unwrap()));
    proc.reap();
    wait_until("the exit record", || proc.journal.bounds().exit.is_some());
    assert!(told.try_recv().is_err(), "somebody still holds its pipes");
    let spare = proc.hosted.clone();
    let (done, duplicates) = std::sync::mpsc::channel();
    proc.hosted.duplicate(Box::new(move |io| done.send(io).unwrap()));
    let io = duplicates.recv_timeout(LONG).unwrap().unwrap();
    drop(pumps);
    assert!(told.try_recv().is_err(), "the next daemon goes on");
    // As that one would.
    let pumps = self::pumps();
    let mut stdin = std::fs::File::from(io.stdin.as_ref().unwrap().try_clone().unwrap());
    let journal = Journal::open(&path).unwrap();
    let hosted = pumps.host(Arc::clone(&journal), io, true);
    std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
    let again = tell.clone();
    hosted.on_drained(Box::new(move || again.send("drained").unwrap()));
    assert_eq!(told.recv_timeout(LONG), Ok("drained"));
    let frames = read_all(&journal);
    assert_eq!(text_of(&frames, Kind::Stdout), "late\n");
    assert!(frames.last().unwrap().head.late);
    // Whoever asks later hears it at once.
    hosted.on_drained(Box::new(move || tell.send("at once").unwrap()));
    assert_eq!(told.try_recv(), Ok("at once"));
    drop(spare);
}
