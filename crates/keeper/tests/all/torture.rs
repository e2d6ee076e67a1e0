//! The keeper under conditions no daemon should meet, but will: a crowd of children of a user
//! without privileges, daemons that stop half way, directories that hang, and its own death.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::common::half::Half;
use crate::common::{Daemon, PATIENCE, Stable, Test, alive, answer, command, kill, read_line, status, wait_until};
use crate::tests;
use ostler_keeper::{
    Adopted, ChildIo, ConnectError, Event, Import, Scope, SpawnError, SpawnSpec, Spawned, StdioKind, Step,
};
use ostler_story::Exit;
use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The user without privileges.
const NOBODY: u32 = 65534;
const CROWD: usize = 1000;

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_thousand_children_of_an_unprivileged_user,
        what_cannot_be_killed_is_listed,
        a_directory_that_hangs_stops_nobody_else,
        a_daemon_stopped_in_mid_adoption_costs_the_next_one_nothing,
        the_exits_of_imported_children_are_not_lost,
        a_new_program_takes_over_a_crowd,
        a_request_of_a_newer_daemon_is_answered_by_name,
        nonsense_costs_a_daemon_its_connection_and_nobody_else_anything,
        a_spawn_costs_little_more_than_a_fork,
    ]
}

/// Runs a part of these tests as a process of its own.
fn run(mut role: Command) {
    let status = role.status().unwrap();
    assert!(status.success(), "{status}");
}

fn a_thousand_children_of_an_unprivileged_user() {
    let mut role = Command::new("/proc/self/exe");
    role.arg0("crowd");
    if rustix::process::geteuid().is_root() {
        role.uid(NOBODY).gid(NOBODY);
    }
    run(role);
}

/// Spawns without waiting.
fn ask(daemon: &Daemon, key: &str, spec: SpawnSpec, held: Vec<OwnedFd>) -> Receiver<Result<Spawned, SpawnError>> {
    let (sender, receiver) = channel();
    daemon.keeper.spawn(key, &spec, held, answer(sender));
    receiver
}

fn cat() -> SpawnSpec {
    SpawnSpec { stdio: [StdioKind::Pipe; 3], meta: vec![b'm'; 200], ..command(&["/bin/cat"]) }
}

/// A child still does what it is told: its pipes are the right ones.
fn speaks(child: &Adopted) {
    let mut stdin = File::from(child.io.stdin.as_ref().unwrap().try_clone().unwrap());
    writeln!(stdin, "{}", child.key).unwrap();
    assert_eq!(read_line(child.io.stdout.as_ref().unwrap()).trim(), child.key);
}

fn soft_limit(soft: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = soft.or(maximum);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

pub(crate) fn crowd() {
    soft_limit(Some(1024));
    let stable = Stable::new();
    // The daemon raises its own limit after it has launched the keeper, which raises its own.
    soft_limit(None);
    let (daemon, _) = stable.connect();
    let keeper = daemon.keeper.pid();
    let before = status(keeper, "RssAnon");
    let ledger = File::open("/dev/null").unwrap();
    let start = Instant::now();
    let asked: Vec<_> = (0..CROWD)
        .map(|number| {
            let held = vec![ledger.try_clone().unwrap().into()];
            ask(&daemon, &format!("child-{number:04}"), cat(), held)
        })
        .collect();
    let spawned: Vec<Spawned> = asked.into_iter().map(|asked| asked.recv_timeout(PATIENCE).unwrap().unwrap()).collect();
    println!("  {CROWD} children in {:.2} s", start.elapsed().as_secs_f64());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", spawned[0].pid)).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(limit.split_ascii_whitespace().nth(3), Some("1024"), "a child's limit is restored");
    drop(spawned);
    let after = status(keeper, "RssAnon");
    println!("  RssAnon of the keeper: {before} kB alone, {after} kB with {CROWD} children");
    assert!(before <= 1024, "{before} kB without children");
    assert!(after <= 1024 + 8 * CROWD as u64, "{after} kB");

    drop(daemon);
    for _ in 0..3 {
        stop_half_way(&stable, 2);
    }
    let start = Instant::now();
    let (daemon, adopted) = stable.connect();
    println!("  adopted in {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    assert_eq!(adopted.len(), CROWD);
    for child in &adopted {
        assert_eq!((child.meta.len(), child.io.held.len(), child.exit), (200, 1, None));
        speaks(child);
    }

    let start = Instant::now();
    let mut waiting = Vec::new();
    for child in &adopted {
        let (sender, receiver) = channel();
        daemon.keeper.signal(&child.key, 9, Scope::Tree, answer(sender));
        waiting.push(receiver);
    }
    for answered in waiting {
        let signalled = answered.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(signalled.left, vec![]);
    }
    for _ in 0..CROWD {
        match daemon.event() {
            Event::Exited { key, exit } => {
                assert_eq!(exit, Exit::Signal(9));
                daemon.keeper.ack(&key);
            }
            other => panic!("{other:?}"),
        }
    }
    println!("  {CROWD} trees killed in {:.2} s", start.elapsed().as_secs_f64());
    let empty = status(keeper, "RssAnon");
    println!("  RssAnon afterwards: {empty} kB");
    daemon.keeper.farewell();
    wait_until("the keeper has ended", || !alive(keeper));
}

fn stop_half_way(stable: &Stable, batches: usize) {
    let half = Half::welcome(stable);
    for _ in 0..batches {
        let (batch, fds) = half.hear();
        assert!(fds > 200, "{fds} descriptors in a batch");
        assert_eq!(batch["body"]["batch"]["more"], true);
        half.say(r#"{"id":0,"verb":"adopted"}"#);
    }
    // The next batch lies in the socket, unread.
}

fn a_daemon_stopped_in_mid_adoption_costs_the_next_one_nothing() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    for number in 0..130 {
        daemon.spawn(&format!("child-{number:03}"), cat());
    }
    drop(daemon);
    // It has one batch and says nothing more, but it is there.
    let half = Half::welcome(&stable);
    half.hear();
    match stable.try_connect() {
        Err(ConnectError::Busy { pid }) => assert_eq!(pid, std::process::id()),
        other => panic!("{:?}", other.map(|_| ())),
    }
    drop(half);
    let (_daemon, adopted) = stable.connect();
    assert_eq!(adopted.len(), 130);
    adopted.iter().for_each(speaks);
}

/// A child that becomes root and may not be touched any more. Needs root to prepare it.
fn what_cannot_be_killed_is_listed() {
    if !rustix::process::geteuid().is_root() {
        println!("  skipped: only root can make a set-user-id program");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ladder = dir.path().join("ladder");
    std::fs::copy("/usr/bin/setpriv", &ladder).unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(dir.path(), mode(0o755)).unwrap();
    std::fs::set_permissions(&ladder, mode(0o4755)).unwrap();
    let mut role = Command::new("/proc/self/exe");
    role.arg0("hindered").env("LADDER", ladder).uid(NOBODY).gid(NOBODY);
    run(role);
}

pub(crate) fn hindered() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let ladder = std::env::var("LADDER").unwrap();
    // It ends by itself soon after the test.
    let script = format!("setsid {ladder} --reuid=0 --clear-groups sleep 3 & echo $!; cat");
    let child = daemon.sh("a", &script);
    let root: u32 = read_line(child.io.stdout.as_ref().unwrap()).trim().parse().unwrap();
    wait_until("it is root's", || alive(root) && status(root, "Uid:") == 0);
    let signalled = daemon.signal("a", 9, Scope::Tree).unwrap();
    assert_eq!(daemon.exit("a"), Exit::Signal(9));
    let left: Vec<_> = signalled.left.iter().map(|stray| (stray.pid, stray.key.as_deref())).collect();
    assert_eq!(left, [(root, Some("a"))]);
    assert!(signalled.left[0].why.contains("not permitted"), "{:?}", signalled.left);
}

/// Mounts a file system whose server never answers, in a mount namespace of its own.
fn a_directory_that_hangs_stops_nobody_else() {
    let program = std::env::current_exe().unwrap();
    let script = format!("exec -a stuck {}", program.display());
    let mut role = Command::new("unshare");
    role.args(["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        role.arg("--map-root-user");
    }
    role.args(["/bin/bash", "-c", &script]);
    run(role);
}

struct Hanging(tempfile::TempDir);

impl Hanging {
    fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

pub(crate) fn stuck() {
    // Unmounted and removed after the device is closed: before, that would hang too.
    let place = Hanging(tempfile::tempdir().unwrap());
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("fuse", place.path(), "fuse", flags, Some(options.as_c_str())).unwrap();

    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let listener = daemon.sh("listener", "cat; exit 6");
    let mut lost = cat();
    lost.cwd = place.path().to_owned();
    let hung = ask(&daemon, "hung", lost, Vec::new());
    let mut doomed = cat();
    doomed.cwd = place.path().to_owned();
    let killed = ask(&daemon, "killed", doomed, Vec::new());
    // Everybody else is served, and the end of another child's stdin reaches it.
    for number in 0..20 {
        let key = format!("other-{number}");
        daemon.sh(&key, "exit 0");
        assert_eq!(daemon.exit(&key), Exit::Code(0));
    }
    daemon.keeper.close_stdin("listener");
    drop(listener);
    assert_eq!(daemon.exit("listener"), Exit::Code(6));
    assert!(hung.try_recv().is_err(), "it hangs");
    // A hung start can be ended.
    daemon.signal("killed", 9, Scope::Group).unwrap();
    assert_eq!(daemon.exit("killed"), Exit::Signal(9));
    assert!(killed.recv_timeout(PATIENCE).unwrap().is_ok());
    // The next daemon sees it as it is, also through a new program of the keeper.
    drop(daemon);
    let (daemon, adopted) = stable.connect();
    let hung = adopted.iter().find(|child| child.key == "hung").unwrap();
    assert!(hung.starting);
    let (sender, receiver) = channel();
    daemon.keeper.reexec(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    // The server of the file system goes, and with it the hope.
    drop(device);
    match daemon.event() {
        Event::SpawnFailed { key, error: SpawnError::Failed { step: Step::Chdir, .. } } => assert_eq!(key, "hung"),
        other => panic!("{other:?}"),
    }
    drop(daemon);
    let (_daemon, adopted) = stable.connect();
    assert!(adopted.iter().all(|child| child.key != "hung"), "nothing is left behind");
}

fn the_exits_of_imported_children_are_not_lost() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let mut children = Vec::new();
    for number in 0..100 {
        let key = format!("{number}");
        let child = daemon.sh(&key, "read code; exit $code");
        children.push((key, child));
    }
    kill(daemon.keeper.pid());
    assert_eq!(daemon.event(), Event::KeeperLost);
    drop(daemon);
    stable.launch();
    let (daemon, _) = stable.connect();
    let imports = children.iter().map(|(key, child)| Import {
        key: key.clone(),
        pid: child.pid,
        start_ticks: child.start_ticks,
        meta: Vec::new(),
        io: ChildIo { stdin: child.io.stdin.as_ref().map(|fd| fd.try_clone().unwrap()), ..ChildIo::default() },
        exit: None,
        group: None,
    });
    let (sender, receiver) = channel();
    daemon.keeper.import(imports.collect(), answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    for (key, child) in children {
        let mut stdin = File::from(child.io.stdin.unwrap());
        writeln!(stdin, "{key}").unwrap();
    }
    let mut unknown = 0;
    for _ in 0..100 {
        match daemon.event() {
            Event::Exited { key, exit: Exit::Code(code) } => assert_eq!(key, code.to_string()),
            Event::Exited { exit: Exit::Unknown, .. } => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    let release = rustix::system::uname();
    let release = release.release().to_str().unwrap();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    println!("  {unknown} of 100 exits unknown on Linux {release}");
    assert!(unknown == 0 || version < (6, 15), "this kernel tells");
}

fn a_new_program_takes_over_a_crowd() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let asked: Vec<_> = (0..300).map(|number| ask(&daemon, &format!("child-{number:03}"), cat(), Vec::new())).collect();
    for asked in asked {
        asked.recv_timeout(PATIENCE).unwrap().unwrap();
    }
    let start = Instant::now();
    let (sender, receiver) = channel();
    daemon.keeper.reexec(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    println!("  replaced with 300 children in {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    drop(daemon);
    let (daemon, adopted) = stable.connect();
    assert_eq!(adopted.len(), 300);
    adopted.iter().for_each(speaks);
    let anon = status(daemon.keeper.pid(), "RssAnon");
    assert!(anon <= 1024 + 8 * 300, "{anon} kB");
    // They are still its children: it sees how they end.
    for child in adopted {
        daemon.keeper.close_stdin(&child.key);
        drop(child.io);
        assert_eq!(daemon.exit(&child.key), Exit::Code(0));
    }
}

fn a_request_of_a_newer_daemon_is_answered_by_name() {
    let stable = Stable::new();
    let half = Half::connect(&stable);
    assert_eq!(half.hear().0["body"]["hello"]["protocol"], 4);
    assert_eq!(half.hear().0["body"]["batch"]["more"], false);
    half.say(r#"{"id":0,"verb":"adopted"}"#);
    half.say(r#"{"id":5,"verb":{"groom":{"key":"a"}}}"#);
    let (answer, _) = half.hear();
    assert_eq!(answer["id"], 5);
    assert!(answer["body"]["refused"]["why"].as_str().unwrap().contains("groom"));
    half.say(r#"{"id":6,"verb":{"ack":{"key":"a","since":"always"}}}"#);
    half.say(r#"{"id":7,"verb":"list","page":1}"#);
    assert_eq!(half.hear().0["id"], 7);
}

fn nonsense_costs_a_daemon_its_connection_and_nobody_else_anything() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "cat");
    let keeper = daemon.keeper.pid();
    drop(daemon);
    let nonsense: [&[u8]; 7] =
        [b"x", &[0xff; 4], &[0xff; 5000], b"\0\0\0\0", b"\x02\0\0\0{}", b"\x04\0\0\0null and more", &[0; 120_000]];
    for bytes in nonsense {
        // Instead of a hello, then after one.
        let socket = Half::reach(&stable);
        rustix::net::send(&socket, bytes, SendFlags::empty()).unwrap();
        let half = Half::welcome(&stable);
        half.hear();
        rustix::net::send(&half.socket, bytes, SendFlags::empty()).unwrap();
    }
    let sensible_but_wrong = [
        r#"{"id":1,"verb":"adopted"}"#,
        r#"{"id":1,"verb":{"hello":{"protocol":1,"oldest":1,"pid":1}}}"#,
        r#"{"id":1,"verb":{"spawn":{"key":"b","stdio":["pipe","pipe","pipe"]}}}"#,
        r#"{"id":1,"verb":{"spawn":{"key":"b","stdio":["pipe","pipe","pipe"],"given":999999}}}"#,
        r#"{"id":1,"verb":{"import":{"key":"c","pid":4294967295,"start_ticks":0,"fds":["stdin","held"],"meta":77}}}"#,
        r#"{"id":1,"verb":{"signal":{"key":"a","signal":-1,"scope":"tree"}}}"#,
        r#"{"id":1,"verb":{"signal":{"key":"a","signal":99999,"scope":"group"}}}"#,
        r#"{"id":1,"verb":"reexec"}"#,
        r#"{"id":1,"verb":"guard"}"#,
    ];
    for text in sensible_but_wrong {
        let half = Half::welcome(&stable);
        half.hear();
        half.say(r#"{"id":0,"verb":"adopted"}"#);
        half.say(text);
    }
    let (daemon, adopted) = stable.connect();
    assert_eq!(daemon.keeper.pid(), keeper);
    let known: Vec<_> = adopted.iter().filter(|child| child.key != "c").collect();
    assert_eq!((known.len(), known[0].pid), (1, child.pid));
    speaks(known[0]);
}

fn a_spawn_costs_little_more_than_a_fork() {
    const ROUNDS: usize = 150;
    /// What a daemon with several clients has under way.
    const UNDER_WAY: usize = 8;
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let per_second = |start: Instant| ROUNDS as f64 / start.elapsed().as_secs_f64();
    let bare = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            Command::new("/bin/true").env_clear().status().unwrap();
        }
        per_second(start)
    };
    let kept = |round: usize, under_way: usize| {
        let start = Instant::now();
        let mut keys = (0..ROUNDS).map(|number| format!("{round}-{under_way}-{number}"));
        let mut next = || keys.next().map(|key| drop(ask(&daemon, &key, command(&["/bin/true"]), Vec::new())));
        (0..under_way).for_each(|_| next().unwrap());
        for _ in 0..ROUNDS {
            let Event::Exited { key, exit: Exit::Code(0) } = daemon.event() else { panic!("another end") };
            daemon.keeper.ack(&key);
            next();
        }
        per_second(start)
    };
    let (mut best_bare, mut best_one, mut best_many) = (0.0_f64, 0.0_f64, 0.0_f64);
    for round in 0..3 {
        best_bare = best_bare.max(bare());
        best_one = best_one.max(kept(round, 1));
        best_many = best_many.max(kept(round, UNDER_WAY));
    }
    let keeper = std::fs::read_to_string(format!("/proc/{}/schedstat", daemon.keeper.pid())).unwrap();
    let spent: f64 = keeper.split_ascii_whitespace().next().unwrap().parse().unwrap();
    let spent = spent / 1000.0 / (6 * ROUNDS) as f64;
    println!("  {best_bare:.0}/s bare; through the keeper {best_one:.0}/s one by one, {best_many:.0}/s by {UNDER_WAY}");
    println!("  {spent:.0} us of the keeper's time per child");
    // Rates depend on who else runs here; the keeper's own share hardly does.
    assert!(spent < 1000.0, "{spent:.0} us");
}
