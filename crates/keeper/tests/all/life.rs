//! The keeper's own life and custody: strays, restarts of the daemon, replacement of its program,
//! and what a new keeper can take over from a dead one.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{Daemon, PATIENCE, Stable, Test, alive, answer, command, kill, read_line, sh, wait_until};
use crate::tests;
use ostler_keeper::client::{Serves, daemon_of};
use ostler_keeper::{Event, GuardSpec, Hello, Import, RequestError, Scope, Stray, connect};
use ostler_story::Exit;

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_tree_is_found_wherever_it_hides,
        a_polite_signal_to_a_tree_is_heard_once,
        strays_of_a_forgotten_child_are_listed,
        the_survivors_of_an_exited_child_are_reached,
        a_crashed_daemon_is_brought_back,
        a_daemon_that_keeps_dying_is_left_alone,
        a_new_program_keeps_children_and_connection,
        a_keeper_without_children_replaces_itself_too,
        what_a_daemon_entrusts_goes_to_the_next_and_to_the_next_program,
        a_new_keeper_takes_over_from_a_living_daemon,
        a_lost_keeper_is_news_and_fails_every_request,
        a_polite_end_waits_for_the_children,
        an_orphan_of_a_hosted_process_may_not_be_the_daemon,
        anybody_hears_which_process_the_daemon_is_and_takes_nothing_over,
        a_cookie_gives_away_who_is_hosted_here_and_nobody_else,
        a_helper_ends_when_its_time_is_over_also_without_a_daemon,
        a_keeper_stays_with_what_a_forgotten_child_left_behind,
    ]
}

fn pids(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// A shell with one process in a session of its own and another one without environment.
fn hiding(daemon: &Daemon, key: &str) -> Vec<u32> {
    let child = daemon.sh(key, "setsid sleep 1000 & a=$!; env -i setsid sleep 1000 & echo $a $!; cat");
    let hidden = pids(&read_line(child.io.stdout.as_ref().unwrap()));
    assert_eq!(hidden.len(), 2);
    let sleeps = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "sleep\n")
    };
    wait_until("both sleep", || hidden.iter().all(sleeps));
    hidden
}

fn a_tree_is_found_wherever_it_hides() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let other = daemon.sh("other", "cat");
    let hidden = hiding(&daemon, "a");
    let done = daemon.signal("a", 9, Scope::Tree).unwrap();
    assert_eq!((done.strays, done.left), (2, vec![]));
    assert_eq!(daemon.exit("a"), Exit::Signal(9));
    assert!(hidden.iter().all(|pid| !alive(*pid)));
    assert!(alive(other.pid));
}

fn a_polite_signal_to_a_tree_is_heard_once() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let script = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done";
    let child = daemon.sh("a", script);
    let output = child.io.stdout.as_ref().unwrap();
    read_line(output);
    let done = daemon.signal("a", 15, Scope::Tree).unwrap();
    assert_eq!((done.strays, done.left), (0, vec![]));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(read_line(output), "heard\n");
}

fn strays(daemon: &Daemon) -> Vec<Stray> {
    let (sender, receiver) = channel();
    daemon.keeper.strays(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap()
}

fn strays_of_a_forgotten_child_are_listed() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let hidden = hiding(&daemon, "a");
    daemon.signal("a", 9, Scope::Process).unwrap();
    daemon.exit("a");
    daemon.keeper.ack("a");
    wait_until("both belong to the keeper", || strays(&daemon).len() >= 2);
    let found = strays(&daemon);
    let keys: Vec<(u32, Option<&str>)> = found
        .iter()
        .filter(|stray| hidden.contains(&stray.pid))
        .map(|stray| (stray.pid, stray.key.as_deref()))
        .collect();
    assert!(keys.contains(&(hidden[0], Some("a"))), "{found:?}");
    assert!(keys.contains(&(hidden[1], None)), "{found:?}");
    for pid in hidden {
        kill(pid);
    }
}

fn the_survivors_of_an_exited_child_are_reached() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "sleep 1000 & echo $!");
    let sleeper = pids(&read_line(child.io.stdout.as_ref().unwrap()))[0];
    assert_eq!(daemon.exit("a"), Exit::Code(0));
    let done = daemon.signal("a", 9, Scope::Group).unwrap();
    assert_eq!((done.strays, done.left), (1, vec![]));
    assert!(!alive(sleeper));
}

/// A daemon that is a process of its own: this program under another name.
fn daemon(name: &str, stable: &Stable) -> Command {
    let mut daemon = Command::new("/proc/self/exe");
    daemon.arg0(name).arg(stable.path());
    daemon
}

/// What such a daemon does: writes a line, connects, sets a guard, and dies without a farewell or
/// stays until it is told to leave.
pub(crate) fn play(name: &str, dir: &Path) -> ExitCode {
    let mut journal = File::options().append(true).create(true).open(dir.join("journal")).unwrap();
    let (keeper, adopted) = connect(dir, Hello::default(), |_| {}).unwrap();
    let keys: Vec<String> = adopted.into_iter().map(|child| child.key).collect();
    // In one piece: somebody reads it meanwhile.
    journal.write_all(format!("{name} {keys:?}\n").as_bytes()).unwrap();
    let next = if name == "first" { "second" } else { name };
    let spec = GuardSpec {
        program: std::env::current_exe().unwrap(),
        argv: vec![next.into(), dir.into()],
        env: Vec::new(),
        cwd: dir.to_owned(),
        log: dir.join("log"),
    };
    keeper.guard(Some(spec)).unwrap();
    if name == "second" {
        wait_until("it may leave", || dir.join("leave").exists());
        keeper.farewell();
        return ExitCode::SUCCESS;
    }
    let (sender, receiver) = channel();
    keeper.spawn("child", &sh("cat"), Vec::new(), answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    kill(std::process::id());
    ExitCode::FAILURE
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn a_crashed_daemon_is_brought_back() {
    let stable = Stable::new();
    let journal = stable.path().join("journal");
    daemon("first", &stable).status().unwrap();
    wait_until("the second came", || lines(&journal).len() == 2);
    assert_eq!(lines(&journal), ["first []", "second [\"child\"]"]);
    std::fs::write(stable.path().join("leave"), "").unwrap();
    let (_daemon, adopted) = stable.connect();
    assert_eq!(adopted.len(), 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(lines(&journal).len(), 2, "who left is not brought back");
}

fn a_daemon_that_keeps_dying_is_left_alone() {
    let stable = Stable::new();
    daemon("doomed", &stable).status().unwrap();
    let log = stable.path().join("log");
    wait_until("the guard gave up", || {
        lines(&log).iter().any(|line| line.starts_with("ostler-keeper: the daemon died"))
    });
    assert_eq!(lines(&stable.path().join("journal")).len(), 6);
    assert_eq!(daemon_of(stable.path()).unwrap(), Serves::Nobody, "nobody waits for it");
    let (_daemon, adopted) = stable.connect();
    assert_eq!(adopted.len(), 1, "the child does not care");
}

fn a_new_program_keeps_children_and_connection() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let mut spec = sh("while read line; do echo got $line; done; exit 4");
    spec.meta = b"kept".to_vec();
    let child = daemon.spawn("living", spec);
    daemon.sh("dead", "exit 9");
    assert_eq!(daemon.exit("dead"), Exit::Code(9));
    let keeper = daemon.keeper.pid();
    let before = std::fs::metadata(format!("/proc/{keeper}/exe")).unwrap();
    for _ in 0..3 {
        let (sender, receiver) = channel();
        daemon.keeper.reexec(answer(sender));
        receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    }
    let after = std::fs::metadata(format!("/proc/{keeper}/exe")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(before.ino(), after.ino());
    let cmdline = std::fs::read(format!("/proc/{keeper}/cmdline")).unwrap();
    assert_eq!(cmdline, b"ostler-keeper\0");
    assert_eq!(std::fs::read(format!("/proc/{keeper}/comm")).unwrap(), b"ostler-keeper\n");

    let mut stdin = std::fs::File::from(child.io.stdin.unwrap());
    stdin.write_all(b"you\n").unwrap();
    assert_eq!(read_line(child.io.stdout.as_ref().unwrap()), "got you\n");
    drop(daemon);
    let (daemon, adopted) = stable.connect();
    assert_eq!(daemon.keeper.pid(), keeper);
    assert_eq!(adopted[0].exit, Some(Exit::Code(9)));
    assert_eq!((adopted[1].pid, adopted[1].meta.as_slice()), (child.pid, &b"kept"[..]));
    drop(adopted);
    daemon.keeper.close_stdin("living");
    drop(stdin);
    assert_eq!(daemon.exit("living"), Exit::Code(4));
    // Nothing of the old program's was left open in the new one's children.
    let child = daemon.sh("after", "ls /proc/self/fd");
    let listed = crate::common::read_all(child.io.stdout.as_ref().unwrap());
    assert_eq!(listed, "0\n1\n2\n3\n");
}

fn a_keeper_without_children_replaces_itself_too() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let (sender, receiver) = channel();
    daemon.keeper.reexec(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    let child = daemon.sh("a", "exit 1");
    assert_ne!(child.pid, 0);
    assert_eq!(daemon.exit("a"), Exit::Code(1));
}

fn what_a_daemon_entrusts_goes_to_the_next_and_to_the_next_program() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    assert_eq!(daemon.keeper.entrusted(), b"");
    daemon.keeper.entrust(b"first");
    daemon.keeper.entrust(b"key and head");
    // Too much is not kept, and takes nothing away.
    daemon.keeper.entrust(&[7; ostler_keeper::ENTRUSTED_MAX + 1]);
    drop(daemon);
    let (daemon, _) = stable.connect();
    assert_eq!(daemon.keeper.entrusted(), b"key and head");
    let (sender, receiver) = channel();
    daemon.keeper.reexec(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    drop(daemon);
    let (daemon, _) = stable.connect();
    assert_eq!(daemon.keeper.entrusted(), b"key and head");
}

fn a_new_keeper_takes_over_from_a_living_daemon() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "read line; exit $line");
    let quick = daemon.sh("quick", "read line; exit $line");
    kill(daemon.keeper.pid());
    assert_eq!(daemon.event(), Event::KeeperLost);
    drop(daemon);
    // One ends while no keeper watches.
    let mut stdin = std::fs::File::from(quick.io.stdin.unwrap());
    stdin.write_all(b"1\n").unwrap();
    wait_until("it ended", || !alive(quick.pid));

    stable.launch();
    let (daemon, adopted) = stable.connect();
    assert!(adopted.is_empty());
    let import = |key: &str, pid, start_ticks, io| Import {
        key: key.into(),
        pid,
        start_ticks,
        meta: key.as_bytes().to_vec(),
        io,
        exit: None,
        group: None,
    };
    let io = |stdin, stdout: &Option<std::os::fd::OwnedFd>| ostler_keeper::ChildIo {
        stdin,
        stdout: stdout.as_ref().map(|fd| fd.try_clone().unwrap()),
        ..Default::default()
    };
    let (sender, receiver) = channel();
    let children = vec![
        import("a", child.pid, child.start_ticks, io(child.io.stdin, &child.io.stdout)),
        import("reused", std::process::id(), 1, Default::default()),
    ];
    daemon.keeper.import(children, answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(daemon.exit("reused"), Exit::Unknown);
    drop(daemon);

    let (daemon, adopted) = stable.connect();
    let adopted = adopted.into_iter().find(|child| child.key == "a").unwrap();
    assert_eq!((adopted.pid, adopted.meta.as_slice()), (child.pid, &b"a"[..]));
    daemon.signal("a", 0, Scope::Group).unwrap();
    let mut stdin = std::fs::File::from(adopted.io.stdin.unwrap());
    stdin.write_all(b"42\n").unwrap();
    assert_eq!(daemon.exit("a"), Exit::Code(42));
}

fn a_lost_keeper_is_news_and_fails_every_request() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    daemon.sh("a", "cat");
    kill(daemon.keeper.pid());
    assert_eq!(daemon.event(), Event::KeeperLost);
    let error = daemon.spawn_with("b", command(&["/bin/true"]), Vec::new());
    assert_eq!(error.unwrap_err(), ostler_keeper::SpawnError::KeeperGone { begun: false });
    let error = daemon.signal("a", 9, Scope::Group);
    assert_eq!(error.unwrap_err(), RequestError::KeeperGone);
}

fn a_polite_end_waits_for_the_children() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "read line");
    let keeper = daemon.keeper.pid();
    let raw = rustix::process::Pid::from_raw(keeper.try_into().unwrap()).unwrap();
    rustix::process::kill_process(raw, rustix::process::Signal::TERM).unwrap();
    let done = daemon.signal("a", 0, Scope::Process);
    assert!(done.is_ok(), "it goes on");
    drop(daemon);
    assert!(alive(keeper));
    kill(child.pid);
    wait_until("the keeper has ended", || !alive(keeper));
}

/// Says hello, and writes down what came of it.
pub(crate) fn intrude(dir: &Path, said: &Path) -> ExitCode {
    let answer = match connect(dir, Hello::default(), |_| {}) {
        Ok(_) => "welcome".to_owned(),
        Err(error) => error.to_string(),
    };
    std::fs::write(said.with_extension("new"), answer).unwrap();
    std::fs::rename(said.with_extension("new"), said).unwrap();
    ExitCode::SUCCESS
}

/// What a stranger was told.
fn told(said: &Path) -> String {
    wait_until("the stranger has an answer", || said.exists());
    std::fs::read_to_string(said).unwrap()
}

fn an_orphan_of_a_hosted_process_may_not_be_the_daemon() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let program = std::env::current_exe().unwrap();
    for (name, clean) in [("marked", ""), ("unmarked", "env -i")] {
        let said = stable.path().join(name);
        let go = stable.path().join(format!("{name}.go"));
        let line = format!(
            "( while [ ! -e {} ]; do sleep 0.01; done; exec {clean} {} stranger {} {} ) &",
            go.display(),
            program.display(),
            stable.path().display(),
            said.display()
        );
        daemon.sh(name, &line);
        assert_eq!(daemon.exit(name), Exit::Code(0));
        // Its parent is gone before it begins.
        std::fs::write(&go, "").unwrap();
        let answer = told(&said);
        assert!(answer.contains("is hosted here"), "{name}: {answer}");
        assert!(matches!(daemon.event(), Event::Intruder { .. }));
    }
}

fn anybody_hears_which_process_the_daemon_is_and_takes_nothing_over() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    assert_eq!(daemon_of(stable.path()).unwrap(), Serves::Process(std::process::id()));
    daemon.sh("a", "cat");
    drop(daemon);
    wait_until("the keeper sees that nobody is connected", || daemon_of(stable.path()).unwrap() == Serves::Nobody);
    let (_daemon, held) = stable.connect();
    assert_eq!(held.len(), 1, "whoever asked was not taken for a daemon");
}

fn a_cookie_gives_away_who_is_hosted_here_and_nobody_else() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    daemon.sh("a", "cat");
    let ask = |cookie: &str, name: &str| {
        let said = stable.path().join(name);
        let mut stranger = Command::new("/proc/self/exe");
        stranger.arg("stranger").arg(stable.path()).arg(&said).env(ostler_keeper::COOKIE, cookie);
        stranger.status().unwrap();
        told(&said)
    };
    let answer = ask("a", "first");
    assert!(answer.contains("is hosted here (it descends from a)"), "{answer}");
    let answer = ask("of another keeper", "second");
    assert!(!answer.contains("is hosted here") && answer != "welcome", "{answer}");
    drop(daemon);
    wait_until("the stranger of another keeper is let in", || {
        let _ = std::fs::remove_file(stable.path().join("third"));
        ask("of another keeper", "third") == "welcome"
    });
    let answer = ask("a", "fourth");
    assert!(answer.contains("is hosted here"), "{answer}");
}

fn a_helper_ends_when_its_time_is_over_also_without_a_daemon() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let spec = ostler_keeper::SpawnSpec {
        within: Some(Duration::from_millis(300)),
        ..sh("setsid sleep 1000 & echo $!; sleep 1000")
    };
    let helper = daemon.spawn("h1", spec);
    let left = pids(&read_line(helper.io.stdout.as_ref().unwrap()));
    drop(daemon);
    wait_until("its tree is gone", || !alive(helper.pid) && left.iter().all(|pid| !alive(*pid)));
    wait_until("it is forgotten", || stable.connect().1.is_empty());
}

fn a_keeper_stays_with_what_a_forgotten_child_left_behind() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let keeper = daemon.keeper.pid();
    let child = daemon.sh("a", "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!");
    let left = pids(&read_line(child.io.stdout.as_ref().unwrap()));
    assert_eq!(daemon.exit("a"), Exit::Code(0));
    daemon.keeper.ack("a");
    daemon.keeper.farewell();
    drop(daemon);
    std::thread::sleep(Duration::from_millis(500));
    assert!(alive(keeper), "it would free what it leaves behind");
    left.iter().for_each(|pid| kill(*pid));
    wait_until("it has nobody to stay for", || !alive(keeper));
}
