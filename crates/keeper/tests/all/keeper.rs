//! The keeper as its daemon sees it: children, their descriptors and their ends, across the deaths
//! of daemons.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::common::half::Half;
use crate::common::{Stable, Test, alive, command, read_all, read_line, sh, wait_until};
use crate::tests;
use ostler_keeper::{ConnectError, RequestError, Scope, SpawnError, StdioKind, Step};
use ostler_story::Exit;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_child_is_spoken_to_and_heard,
        the_same_key_is_the_same_child,
        a_new_daemon_takes_over_living_and_dead,
        an_exit_is_remembered_until_acknowledged,
        an_acknowledgement_waits_for_company_only_a_moment,
        an_exit_that_no_daemon_saw_is_told_to_the_next,
        an_abandoned_child_lives_on_unknown,
        a_list_is_the_truth_without_descriptors,
        a_second_daemon_is_told_who_was_first,
        a_missing_program_or_directory_is_named_by_its_step,
        a_signal_reaches_whom_it_should,
        a_farewell_without_children_ends_the_keeper,
        no_keeper_is_told_from_a_broken_one,
        a_keeper_that_hangs_up_is_not_taken_for_gone,
        a_stranger_that_is_sent_away_is_told_so,
        a_daemon_that_leaves_with_answers_unread_is_heard_to_the_end,
    ]
}

fn a_child_is_spoken_to_and_heard() {
    let stable = Stable::new();
    let (daemon, adopted) = stable.connect();
    assert!(adopted.is_empty());
    let child = daemon.sh("a", "cat; echo done >&2; exit 7");
    assert_ne!(child.start_ticks, 0);
    let mut stdin = std::fs::File::from(child.io.stdin.unwrap());
    stdin.write_all(b"hello\n").unwrap();
    assert_eq!(read_line(child.io.stdout.as_ref().unwrap()), "hello\n");
    daemon.keeper.close_stdin("a");
    drop(stdin);
    assert_eq!(read_all(child.io.stderr.as_ref().unwrap()), "done\n");
    assert_eq!(daemon.exit("a"), Exit::Code(7));
}

fn the_same_key_is_the_same_child() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let first = daemon.sh("a", "echo $$; cat");
    let second = daemon.sh("a", "echo never");
    assert_eq!(first.pid, second.pid);
    let said = read_line(second.io.stdout.as_ref().unwrap());
    assert_eq!(said.trim(), first.pid.to_string());
}

fn a_new_daemon_takes_over_living_and_dead() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let mut spec = sh("while read line; do echo got $line; done; exit 3");
    spec.meta = b"\0opaque".to_vec();
    let held = std::fs::File::open("/dev/zero").unwrap();
    let first = daemon.spawn_with("living", spec, vec![held.into()]).unwrap();
    daemon.sh("dead", "echo last words; kill -9 $$");
    assert_eq!(daemon.exit("dead"), Exit::Signal(9));
    drop(daemon);

    let (daemon, adopted) = stable.connect();
    let [dead, living] = <[_; 2]>::try_from(adopted).unwrap();
    assert_eq!((living.key.as_str(), dead.key.as_str()), ("living", "dead"));
    assert_eq!(dead.exit, Some(Exit::Signal(9)));
    assert_eq!(read_all(dead.io.stdout.as_ref().unwrap()), "last words\n");
    assert_eq!(living.pid, first.pid);
    assert_eq!(living.start_ticks, first.start_ticks);
    assert_eq!(living.meta, b"\0opaque");
    assert_eq!(living.exit, None);
    assert!(!living.starting);
    let target = |fd: &OwnedFd| {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap()
    };
    assert_eq!(target(&living.io.held[0]).to_str(), Some("/dev/zero"));
    drop(first);

    let mut stdin = std::fs::File::from(living.io.stdin.unwrap());
    stdin.write_all(b"again\n").unwrap();
    assert_eq!(read_line(living.io.stdout.as_ref().unwrap()), "got again\n");
    daemon.keeper.close_stdin("living");
    drop(stdin);
    assert_eq!(daemon.exit("living"), Exit::Code(3));
}

fn an_exit_is_remembered_until_acknowledged() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    daemon.sh("a", "exit 5");
    assert_eq!(daemon.exit("a"), Exit::Code(5));
    drop(daemon);
    let (daemon, adopted) = stable.connect();
    assert_eq!(adopted[0].exit, Some(Exit::Code(5)));
    daemon.sh("b", "cat");
    daemon.keeper.ack("a");
    daemon.keeper.ack("b");
    drop(daemon);
    let (_daemon, adopted) = stable.connect();
    let keys: Vec<&str> = adopted.iter().map(|child| child.key.as_str()).collect();
    assert_eq!(keys, ["b"], "a living child is not forgotten");
}

fn an_acknowledgement_waits_for_company_only_a_moment() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let is_pipe = |fd: &Path| std::fs::read_link(fd).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", daemon.keeper.pid())).unwrap().flatten();
    let held = || fds().filter(|fd| is_pipe(&fd.path())).count();
    // From the first child on, pipes for the next are ready.
    daemon.sh("first", "exit 5");
    daemon.exit("first");
    let before = held() - 3;
    daemon.keeper.ack("first");
    for key in ["a", "b"] {
        daemon.sh(key, "exit 5");
        assert_eq!(daemon.exit(key), Exit::Code(5));
        assert!(held() > before, "it holds its pipes");
        daemon.keeper.ack(key);
        // Nothing else is said.
        wait_until("it was forgotten", || held() == before);
    }
    // And one that still waits is said before the connection ends.
    daemon.sh("c", "exit 5");
    daemon.exit("c");
    daemon.keeper.ack("c");
    drop(daemon);
    assert!(stable.connect().1.is_empty());
}

fn an_exit_that_no_daemon_saw_is_told_to_the_next() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "read line; echo last words; exit 5");
    daemon.sh("b", "cat");
    drop(daemon);
    let mut stdin = std::fs::File::from(child.io.stdin.unwrap());
    stdin.write_all(b"\n").unwrap();
    wait_until("it was reaped", || !std::path::Path::new(&format!("/proc/{}", child.pid)).exists());
    drop(child.io.stdout);
    let (_daemon, adopted) = stable.connect();
    let exits: Vec<_> = adopted.iter().map(|child| (child.key.as_str(), child.exit)).collect();
    assert_eq!(exits, [("a", Some(Exit::Code(5))), ("b", None)]);
    assert_eq!(read_all(adopted[0].io.stdout.as_ref().unwrap()), "last words\n");
}

fn an_abandoned_child_lives_on_unknown() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.spawn("a", command(&["/bin/sleep", "1000"]));
    daemon.keeper.abandon("a");
    let gone = daemon.signal("a", 0, Scope::Process);
    assert_eq!(gone, Err(RequestError::NoSuchChild));
    assert!(alive(child.pid));
    let pid = rustix::process::Pid::from_raw(child.pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("the keeper reaped it all the same", || !std::path::Path::new(&format!("/proc/{}", child.pid)).exists());
}

fn a_list_is_the_truth_without_descriptors() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let living = daemon.sh("living", "cat");
    daemon.sh("dead", "exit 2");
    daemon.exit("dead");
    let (sender, receiver) = std::sync::mpsc::channel();
    daemon.keeper.list(crate::common::answer(sender));
    let listed = receiver.recv_timeout(crate::common::PATIENCE).unwrap().unwrap();
    let [dead, listed] = <[_; 2]>::try_from(listed).unwrap();
    assert_eq!((dead.key.as_str(), dead.exit), ("dead", Some(Exit::Code(2))));
    assert_eq!((listed.key.as_str(), listed.exit), ("living", None));
    assert_eq!((listed.pid, listed.start_ticks), (living.pid, living.start_ticks));
    assert!(!listed.starting && !listed.imported);
}

fn a_second_daemon_is_told_who_was_first() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    match stable.try_connect() {
        Err(ConnectError::Busy { pid }) => assert_eq!(pid, std::process::id()),
        other => panic!("{:?}", other.map(|_| ())),
    }
    drop(daemon);
    stable.connect();
}

fn a_missing_program_or_directory_is_named_by_its_step() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let failure = |spec| daemon.spawn_with("a", spec, Vec::new()).unwrap_err();
    let failed = |step, errno| SpawnError::Failed { step, errno };
    assert_eq!(failure(command(&["/nowhere"])), failed(Step::Exec, 2));
    assert_eq!(failure(command(&["/etc/passwd"])), failed(Step::Exec, 13));
    let mut lost = command(&["/bin/true"]);
    lost.cwd = "/nowhere".into();
    assert_eq!(failure(lost), failed(Step::Chdir, 2));
    let mut greedy = command(&["/bin/true"]);
    greedy.stdio[0] = StdioKind::Given(3);
    assert!(matches!(failure(greedy), SpawnError::Refused(_)));
    drop(daemon);
    let (_daemon, adopted) = stable.connect();
    assert!(adopted.is_empty(), "a failure leaves nothing behind");
}

fn a_signal_reaches_whom_it_should() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "trap 'echo term' TERM; sleep 1000 & echo $!; wait; wait");
    let output = child.io.stdout.as_ref().unwrap();
    let sleeper: u32 = read_line(output).trim().parse().unwrap();
    daemon.signal("a", 15, Scope::Process).unwrap();
    assert_eq!(read_line(output), "term\n");
    assert!(alive(sleeper));
    daemon.signal("a", 9, Scope::Group).unwrap();
    assert_eq!(daemon.exit("a"), Exit::Signal(9));
    wait_until("the group is gone", || !alive(sleeper));
    let late = daemon.signal("a", 15, Scope::Process);
    assert_eq!(late, Err(RequestError::Exited));
}

fn a_farewell_without_children_ends_the_keeper() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let pid = daemon.keeper.pid();
    daemon.sh("a", "exit 0");
    daemon.exit("a");
    daemon.keeper.farewell();
    drop(daemon);
    let (daemon, _) = stable.connect();
    assert_eq!(daemon.keeper.pid(), pid, "an exit nobody knows keeps it");
    daemon.keeper.ack("a");
    daemon.keeper.farewell();
    wait_until("the keeper has ended", || !alive(pid));
    assert!(daemon.events.try_recv().is_err(), "no news for who left");
}

fn no_keeper_is_told_from_a_broken_one() {
    let stable = Stable::new();
    let empty = tempfile::tempdir().unwrap();
    let hello = ostler_keeper::Hello::default();
    let nobody = ostler_keeper::connect(empty.path(), hello, |_| {});
    assert!(matches!(nobody, Err(ConnectError::NoKeeper)));
    let (daemon, _) = stable.connect();
    daemon.keeper.farewell();
    wait_until("the keeper has ended", || !alive(daemon.keeper.pid()));
    let gone = stable.try_connect().map(|_| ());
    assert!(matches!(gone, Err(ConnectError::NoKeeper)));
}

fn a_keeper_that_hangs_up_is_not_taken_for_gone() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
    let dir = tempfile::tempdir().unwrap();
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(dir.path().join("keeper.sock")).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let keeper = std::thread::spawn(move || {
        drop(rustix::net::accept(&listener).unwrap());
        let socket = rustix::net::accept(&listener).unwrap();
        let text = br#"{"id":0,"body":{"busy":{"pid":7}}}"#;
        let packet = [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_slice()].concat();
        // Who closes without having read takes back what it said.
        let mut heard = [0; 4096];
        assert_ne!(rustix::io::read(&socket, &mut heard).unwrap(), 0);
        rustix::net::send(&socket, &packet, SendFlags::empty()).unwrap();
        while rustix::io::read(&socket, &mut heard).is_ok_and(|count| count > 0) {}
    });
    let connect = || ostler_keeper::connect(dir.path(), ostler_keeper::Hello::default(), |_| {}).map(|_| ());
    let answer = connect();
    assert!(matches!(answer, Err(ConnectError::Busy { pid: 7 })), "{answer:?}");
    keeper.join().unwrap();
    assert!(matches!(connect(), Err(ConnectError::NoKeeper)), "nobody listens any more");
}

fn a_stranger_that_is_sent_away_is_told_so() {
    let stable = Stable::new();
    let silent: Vec<Half> = (0..12).map(|_| Half { socket: Half::reach(&stable) }).collect();
    let told = silent[0].hear().0;
    assert_eq!(told["body"]["refused"]["again"], true, "{told}");
    // The others stand in nobody's way.
    let (daemon, _) = stable.connect();
    daemon.keeper.farewell();
}

/// A daemon that is told of hundreds of ends while it stops does not read them all.
fn a_daemon_that_leaves_with_answers_unread_is_heard_to_the_end() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let keys: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
    for key in &keys {
        daemon.spawn(key, command(&["/bin/true"]));
    }
    keys.iter().for_each(|_| drop(daemon.event()));
    let keeper = daemon.keeper.pid();
    drop(daemon);
    let half = Half::welcome(&stable);
    while half.hear().0["body"]["batch"]["more"] == true {
        half.say(r#"{"id":0,"verb":"adopted"}"#);
    }
    half.say(r#"{"id":0,"verb":"adopted"}"#);
    signal(keeper, Signal::STOP);
    // More than the keeper reads before it answers.
    for number in 1..=80 {
        half.say(&format!(r#"{{"id":{number},"verb":"list"}}"#));
    }
    for key in &keys {
        half.say(&format!(r#"{{"id":0,"verb":{{"ack":{{"key":"{key}"}}}}}}"#));
    }
    half.say(r#"{"id":0,"verb":"farewell"}"#);
    drop(half);
    signal(keeper, Signal::CONT);
    wait_until("the keeper has gone", || !alive(keeper));
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}
