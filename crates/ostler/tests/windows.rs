//! The daemon is killed exactly between two steps of starting or taking up a process, and comes back by itself.
//! (The windows inside the journal have tests of their own beside it.)
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod cli_kit;

use std::path::PathBuf;

use cli_kit::{Home, kill, number, wait_for};

const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done";

/// A daemon that stops at whichever hook is set.
struct Hooked {
    home: Home,
}

impl Hooked {
    fn up() -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path("hooks")).unwrap();
        let up = home.command(&["up"]).env("OSTLER_HOOKS", home.path("hooks")).output().unwrap();
        assert!(up.status.success(), "{up:?}");
        Self { home }
    }

    fn fifo(&self, hook: &str) -> PathBuf {
        self.home.path("hooks").join(hook)
    }

    fn set(&self, hook: &str) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, self.fifo(hook), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    /// Waits until a daemon stands at the hook, kills it there, and waits until its successor answers.
    fn kill_at(&self, hook: &str) {
        let hit = self.fifo(&format!("{hook}.hit"));
        let mut pid = 0;
        wait_for(&format!("a daemon at {hook}"), || {
            let text = std::fs::read_to_string(&hit).unwrap_or_default();
            pid = text.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
            pid != 0
        });
        std::fs::remove_file(self.fifo(hook)).unwrap();
        kill(pid, 9);
        wait_for("the next daemon", || {
            let said = self.home.run(&["status", "--json"]);
            said.code == 0 && !said.out.contains(&format!("\"pid\":{pid},"))
        });
    }

    /// The output so far, which must be 1, 2, 3 and so on without a hole.
    fn assert_counts_on(&self) {
        let before = self.home.ok(&["logs", "w"]).lines().count();
        wait_for("more output", || self.home.ok(&["logs", "w"]).lines().count() > before + 5);
        for (at, line) in self.home.ok(&["logs", "w"]).lines().enumerate() {
            assert_eq!(line, (at + 1).to_string());
        }
    }
}

#[test]
fn a_daemon_killed_before_the_fork_leaves_nothing_behind() {
    let hooked = Hooked::up();
    hooked.set("spawn.prepared");
    let mut run = hooked.home.command(&["run", "-d", "--name", "w", "--", "sh", "-c", COUNTER]).spawn().unwrap();
    hooked.kill_at("spawn.prepared");
    // The caller asks the next daemon the same again; of the first attempt nothing is left.
    assert!(run.wait().unwrap().success());
    let all = hooked.home.json(&["ps", "-a"]);
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    let left = std::fs::read_dir(hooked.home.path("state/instances/main/procs")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [all[0]["id"].as_str().unwrap()], "a folder of a process that never was");
}

fn survives_its_own_birth(hook: &str) {
    let hooked = Hooked::up();
    hooked.set(hook);
    let mut run = hooked.home.command(&["run", "-d", "--name", "w", "--", "sh", "-c", COUNTER]).spawn().unwrap();
    hooked.kill_at(hook);
    // The caller asks the next daemon the same again, and gets the process that was already started.
    assert!(run.wait().unwrap().success());
    assert_eq!(hooked.home.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    assert_eq!(hooked.home.process("w")["state"], "running");
    hooked.assert_counts_on();
    hooked.home.ok(&["kill", "w", "--wait"]);
}

#[test]
fn a_child_forked_just_before_the_kill_is_taken_up() {
    survives_its_own_birth("spawn.forked");
}

#[test]
fn a_child_described_just_before_the_kill_is_taken_up_once() {
    survives_its_own_birth("spawn.described");
}

fn survives_a_second_kill(hook: &str) {
    let hooked = Hooked::up();
    hooked.home.start("w", COUNTER);
    hooked.home.wait_for_log("w", "5");
    let pid = number(&hooked.home.process("w")["pid"]);
    hooked.set(hook);
    kill(hooked.home.daemon_pid(), 9);
    hooked.kill_at(hook);
    assert_eq!(number(&hooked.home.process("w")["pid"]), pid);
    hooked.assert_counts_on();
}

#[test]
fn a_daemon_killed_while_it_learns_who_lives_loses_nobody() {
    survives_a_second_kill("adopt.listed");
}

#[test]
fn a_daemon_killed_while_it_takes_up_children_loses_nobody() {
    survives_a_second_kill("adopt.hosted");
}

#[test]
fn a_keeper_that_is_killed_is_replaced_and_its_children_go_on() {
    let home = Home::up();
    home.start("w", COUNTER);
    home.wait_for_log("w", "5");
    let (pid, keeper) = (number(&home.process("w")["pid"]), home.keeper_pid());
    kill(keeper, 9);
    wait_for("another keeper", || home.keeper_pid() != keeper);
    // The new keeper's charge survives the daemon like any other.
    kill(home.daemon_pid(), 9);
    let hooked = Hooked { home };
    wait_for("the next daemon", || hooked.home.run(&["status"]).code == 0);
    assert_eq!(number(&hooked.home.process("w")["pid"]), pid);
    hooked.assert_counts_on();
    hooked.home.ok(&["kill", "w", "--wait"]);
    assert_ne!(hooked.home.process("w")["state"], "running");
}
