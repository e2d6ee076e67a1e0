//! Custody by control groups. Needs a delegated control group of version 2 (root has one wherever they are mounted).

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;

use crate::common::{Daemon, PATIENCE, Stable, Test, alive, answer, kill, read_line, wait_until};
use crate::tests;
use ostler_keeper::{Custody, Event, Scope, custody_of, procfs};
use ostler_story::Exit;

/// The user without privileges.
const NOBODY: u32 = 65534;

/// Leaves its group, its session, its parents and its environment; says its pid.
const FUGITIVE: &str = "env -i setsid sh -c 'sleep 1000 & echo $!'; exec cat";

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_descendant_that_left_everything_behind_ends_with_its_tree,
        a_polite_signal_to_a_tree_reaches_it_too,
        who_comes_after_a_tree_that_was_killed_lives,
        groups_go_with_their_children_and_the_keeper,
        what_a_dead_keeper_left_is_cleared_up,
        without_delegation_a_fugitive_lives_and_is_listed,
    ]
}

/// Where the keeper makes its groups, or a printed reason.
fn home() -> Option<PathBuf> {
    match custody_of(std::process::id()) {
        Custody::Groups(home) => Some(home),
        Custody::Cookies(why) => {
            println!("  skipped: {why}");
            None
        }
    }
}

/// The groups of a keeper's children.
fn groups(home: &std::path::Path, keeper: u32) -> Vec<PathBuf> {
    let base = std::fs::read_dir(home.join(format!("ostler-keeper-{keeper}")));
    let entries = base.into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
}

/// Starts a child that says little, and gives back its descendant, once that has nobody left but the keeper.
fn fugitive_of(daemon: &Daemon, key: &str) -> u32 {
    let child = daemon.sh(key, FUGITIVE);
    let pid: u32 = read_line(child.io.stdout.as_ref().unwrap()).trim().parse().unwrap();
    let keeper = daemon.keeper.pid();
    wait_until("it has lost its parents", || procfs::stat(pid).unwrap().parent == keeper);
    pid
}

fn a_descendant_that_left_everything_behind_ends_with_its_tree() {
    if home().is_none() {
        return;
    }
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let fugitive = fugitive_of(&daemon, "a");
    let spared = fugitive_of(&daemon, "b");
    // A new program of the keeper knows the groups of the old one.
    let (sender, receiver) = channel();
    daemon.keeper.reexec(answer(sender));
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    let signalled = daemon.signal("a", 9, Scope::Tree).unwrap();
    assert_eq!(daemon.exit("a"), Exit::Signal(9));
    wait_until("the fugitive has ended", || !alive(fugitive));
    assert_eq!((signalled.strays, signalled.left), (1, vec![]));
    assert!(alive(spared), "another child's descendants are left alone");
    daemon.signal("b", 9, Scope::Tree).unwrap();
    wait_until("the other one too", || !alive(spared));
}

fn a_polite_signal_to_a_tree_reaches_it_too() {
    if home().is_none() {
        return;
    }
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let fugitive = fugitive_of(&daemon, "a");
    assert_eq!(daemon.signal("a", 15, Scope::Tree).unwrap().strays, 1);
    assert_eq!(daemon.exit("a"), Exit::Signal(15));
    wait_until("the fugitive has ended", || !alive(fugitive));
}

fn who_comes_after_a_tree_that_was_killed_lives() {
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    for number in 0..20 {
        let (doomed, next) = (format!("doomed {number}"), format!("next {number}"));
        daemon.sh(&doomed, "sleep 100");
        daemon.signal(&doomed, 9, Scope::Tree).unwrap();
        assert_eq!(daemon.exit(&doomed), Exit::Signal(9));
        daemon.keeper.ack(&doomed);
        daemon.sh(&next, "exit 7");
        assert_eq!(daemon.exit(&next), Exit::Code(7), "{number}");
        daemon.keeper.ack(&next);
    }
}

fn groups_go_with_their_children_and_the_keeper() {
    let Some(home) = home() else { return };
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let keeper = daemon.keeper.pid();
    for number in 0..20 {
        daemon.sh(&number.to_string(), "exit 0");
    }
    assert!(groups(&home, keeper).len() <= 20);
    for _ in 0..20 {
        match daemon.event() {
            Event::Exited { key, .. } => daemon.keeper.ack(&key),
            other => panic!("{other:?}"),
        }
    }
    wait_until("the groups are gone", || groups(&home, keeper).is_empty());
    daemon.keeper.farewell();
    wait_until("the keeper has ended", || !alive(keeper));
    assert!(!home.join(format!("ostler-keeper-{keeper}")).exists());
}

fn what_a_dead_keeper_left_is_cleared_up() {
    let Some(home) = home() else { return };
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let keeper = daemon.keeper.pid();
    let child = daemon.sh("a", "exec cat");
    assert_eq!(groups(&home, keeper).len(), 1);
    kill(keeper);
    kill(child.pid);
    wait_until("both have ended", || !alive(keeper) && !alive(child.pid));
    drop(daemon);
    let next = Stable::new();
    let (_daemon, _) = next.connect();
    wait_until("nothing is left", || !home.join(format!("ostler-keeper-{keeper}")).exists());
}

/// What is promised elsewhere: what can not be known is not killed, but listed.
fn without_delegation_a_fugitive_lives_and_is_listed() {
    if !rustix::process::geteuid().is_root() {
        println!("  skipped: only root can become nobody");
        return;
    }
    let mut role = Command::new("/proc/self/exe");
    let status = role.arg0("powerless").uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(status.success(), "{status}");
}

pub(crate) fn powerless() {
    assert!(matches!(custody_of(std::process::id()), Custody::Cookies(_)));
    let stable = Stable::new();
    let (daemon, _) = stable.connect();
    let fugitive = fugitive_of(&daemon, "a");
    daemon.signal("a", 9, Scope::Tree).unwrap();
    assert_eq!(daemon.exit("a"), Exit::Signal(9));
    assert!(alive(fugitive));
    let (sender, receiver) = channel();
    daemon.keeper.strays(answer(sender));
    let strays = receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert!(strays.iter().any(|stray| stray.pid == fugitive), "{strays:?}");
    kill(fugitive);
}
