//! What a child is born with, and what the keeper keeps to itself.

use std::fs::File;
use std::io::Write;

use crate::common::{Stable, Test, command, read_all, read_line, sh};
use crate::tests;
use ostler_keeper::{Own, SpawnSpec, Spawned, StdioKind};
use ostler_story::Exit;

pub(crate) fn tests() -> &'static [Test] {
    tests![
        the_keeper_shows_nothing_of_itself,
        a_child_is_born_clean,
        a_child_gets_what_was_asked_for,
        a_group_is_not_a_session,
        a_given_descriptor_is_not_kept,
        the_daemons_ends_are_as_promised,
        a_terminal_controls_its_child,
        a_terminal_and_its_relay_outlive_the_daemon,
        a_command_may_be_huge,
        a_wrong_request_breaks_nothing,
    ]
}

fn output(child: &Spawned) -> String {
    read_all(child.io.stdout.as_ref().unwrap())
}

fn the_keeper_shows_nothing_of_itself() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let proc = format!("/proc/{}", daemon.keeper.pid());
    let read = |name: &str| std::fs::read(format!("{proc}/{name}")).unwrap();
    let link = |name: &str| std::fs::read_link(format!("{proc}/{name}")).unwrap();
    assert_eq!(read("cmdline"), b"ostler-keeper\0");
    assert_eq!(read("comm"), b"ostler-keeper\n");
    assert_eq!(read("environ"), b"");
    assert_eq!(link("cwd").to_str(), Some("/"));
    for fd in 0..3 {
        assert_eq!(link(&format!("fd/{fd}")).to_str(), Some("/dev/null"));
    }
    let place = stable.path().to_str().unwrap().to_owned();
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&place), "a listing names its socket");
    use std::os::unix::fs::PermissionsExt;
    let socket = std::fs::metadata(stable.path().join("keeper.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
}

fn a_child_is_born_clean() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.spawn(
        "clean",
        SpawnSpec {
            stdio: [StdioKind::Null, StdioKind::Pipe, StdioKind::Null],
            ..command(&["/bin/cat", "/proc/self/status", "/proc/self/oom_score_adj"])
        },
    );
    let status = output(&child);
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("SigBlk:"), "0000000000000000");
    assert_eq!(field("SigIgn:"), "0000000000000000");
    assert_eq!(field("PPid:"), daemon.keeper.pid().to_string());
    let ours = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    assert_eq!(status.lines().last().unwrap(), ours.trim());

    let child = daemon.sh("limits", "ulimit -Sn; ulimit -Hn; umask; ls /proc/self/fd");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let ours = std::fs::read_to_string("/proc/self/status").unwrap();
    let umask = ours.lines().find_map(|line| line.strip_prefix("Umask:"));
    let (soft, hard) = (limit.current.unwrap(), limit.maximum.unwrap());
    let umask = umask.unwrap().trim();
    // The fourth descriptor is the listing's own.
    let expected = format!("{soft}\n{hard}\n{umask}\n0\n1\n2\n3\n");
    assert_eq!(output(&child), expected);

    let child = daemon.spawn(
        "environment",
        SpawnSpec {
            stdio: [StdioKind::Null, StdioKind::Pipe, StdioKind::Null],
            env: vec![("OSTLER_PROCESS".into(), "another".into()), ("A".into(), "b".into())],
            ..command(&["/usr/bin/env"])
        },
    );
    assert_eq!(output(&child), "A=b\nOSTLER_PROCESS=environment\n");
}

fn a_child_gets_what_was_asked_for() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let mut spec = sh(
        "umask; ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; ulimit -Ss; pwd; echo $0; cut -d' ' -f6 /proc/$$/stat",
    );
    spec.umask = Some(0o027);
    spec.nofile = Some((100, 200));
    // Of core dumps and of the stack, in bytes; the shell tells blocks of 512 and of 1,024.
    spec.limits = vec![(4, 1024, 2048), (3, 1 << 20, 2 << 20)];
    spec.cwd = "/usr".into();
    spec.program = "../bin/sh".into();
    spec.argv[0] = "another name".into();
    spec.argv.push("zero".into());
    spec.own = Own::Session;
    let child = daemon.spawn("a", spec);
    let expected = format!("0027\n100\n200\n2\n4\n1024\n/usr\nzero\n{}\n", child.pid);
    assert_eq!(output(&child), expected);
}

fn a_group_is_not_a_session() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "cut -d' ' -f5,6 /proc/$$/stat");
    let said = output(&child);
    let (group, session) = said.trim().split_once(' ').unwrap();
    assert_eq!(group, child.pid.to_string());
    assert_eq!(session, daemon.keeper.pid().to_string());
}

fn a_given_descriptor_is_not_kept() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let mut spec = command(&["/bin/echo", "through a given pipe"]);
    spec.stdio[1] = StdioKind::Given(0);
    spec.given = vec![write];
    let child = daemon.spawn("a", spec);
    assert!(child.io.stdout.is_none());
    // Its end comes only if the keeper has closed its copy.
    assert_eq!(read_all(&read), "through a given pipe\n");
}

fn the_daemons_ends_are_as_promised() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.sh("a", "cat");
    let ends = [&child.io.stdin, &child.io.stdout, &child.io.stderr];
    for end in ends.map(|end| end.as_ref().unwrap()) {
        let flags = rustix::fs::fcntl_getfl(end).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        let flags = rustix::io::fcntl_getfd(end).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    let stdin = child.io.stdin.as_ref().unwrap();
    assert_eq!(rustix::pipe::fcntl_getpipe_size(stdin).unwrap(), 4096);
    let fds = format!("/proc/{}/fd", child.pid);
    for fd in 0..3 {
        let info = std::fs::read_to_string(format!("{fds}info/{fd}")).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        assert_eq!(flags & 0o4000, 0, "the child's own ends block");
    }
}

const TERMINAL: StdioKind = StdioKind::Pty { rows: 33, cols: 77 };

fn terminal(script: &str) -> SpawnSpec {
    SpawnSpec { stdio: [TERMINAL; 3], ..sh(script) }
}

fn a_terminal_controls_its_child() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let script = "trap 'stty size' WINCH; stty size </dev/tty; cut -d' ' -f6 /proc/$$/stat; \
                  echo ready; while :; do sleep 0.01; done";
    let child = daemon.spawn("a", terminal(script));
    let pty = child.io.pty.as_ref().unwrap();
    let text = crate::common::read_until(&pty.master, |all| all.ends_with(b"ready\r\n"));
    let expected = format!("33 77\r\n{}\r\nready\r\n", child.pid);
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    daemon.keeper.resize("a", 11, 22);
    let text = crate::common::read_until(&pty.master, |all| all.ends_with(b"\n"));
    assert_eq!(text, b"11 22\r\n");
    let mut keyboard = File::from(pty.master.try_clone().unwrap());
    keyboard.write_all(b"\x03").unwrap();
    assert_eq!(daemon.exit("a"), Exit::Signal(2));
}

fn a_terminal_and_its_relay_outlive_the_daemon() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let child = daemon.spawn("a", terminal("stty -echo; read line; echo heard $line"));
    let pty = child.io.pty.unwrap();
    rustix::io::write(&pty.relay_write, b"half way").unwrap();
    drop(pty);
    drop(daemon);
    let (daemon, mut adopted) = stable.connect();
    let pty = adopted.remove(0).io.pty.unwrap();
    let mut buffer = [0; 64];
    let length = rustix::io::read(&pty.relay_read, &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"half way");
    rustix::io::write(&pty.master, b"you\n").unwrap();
    let text = crate::common::read_until(&pty.master, |all| all.ends_with(b"heard you\r\n"));
    assert!(text.ends_with(b"heard you\r\n"));
    assert_eq!(daemon.exit("a"), Exit::Code(0));
}

fn a_command_may_be_huge() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let mut spec = sh("echo $#; echo \"$*\" | wc -c");
    spec.argv.push("zero".into());
    // Ten arguments of 90 kB: one of more than 128 KiB the kernel refuses by itself.
    spec.argv.extend((0..10).map(|_| "x".repeat(90_000).into()));
    spec.env.push(("BIG".into(), "y".repeat(100_000).into()));
    let child = daemon.spawn("a", spec);
    assert_eq!(output(&child), "10\n900010\n");
    let mut spec = command(&["/bin/true"]);
    spec.argv.push("x".repeat(200_000).into());
    let error = daemon.spawn_with("b", spec, Vec::new()).unwrap_err();
    let (step, errno) = (ostler_keeper::Step::Exec, 7);
    assert_eq!(error, ostler_keeper::SpawnError::Failed { step, errno });
}

fn a_wrong_request_breaks_nothing() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let refused = |key: &str, spec: SpawnSpec| {
        let error = daemon.spawn_with(key, spec, Vec::new()).unwrap_err();
        assert!(!error.to_string().is_empty());
    };
    refused("", command(&["/bin/true"]));
    refused(&"k".repeat(200), command(&["/bin/true"]));
    refused("nul", command(&["/bin/true", "a\0b"]));
    let mut empty = command(&["/bin/true"]);
    empty.argv.clear();
    refused("empty", empty);
    let mut much = command(&["/bin/true"]);
    much.meta = vec![0; ostler_keeper::META_MAX + 1];
    refused("much", much);
    daemon.keeper.close_stdin("nobody");
    daemon.keeper.ack("nobody");
    daemon.keeper.abandon("nobody");
    daemon.keeper.resize("nobody", 1, 1);
    let child = daemon.sh("works", "echo still here");
    assert_eq!(read_line(child.io.stdout.as_ref().unwrap()), "still here\n");
}
