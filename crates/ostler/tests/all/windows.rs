//! The daemon is killed exactly between two steps of starting or taking up a process, and comes back by itself.
//! (The windows inside the journal have tests of their own beside it.)

use std::path::{Path, PathBuf};

use crate::cli_kit::hooked::Hooked;
use crate::cli_kit::{Home, kill, number, wait_for};

const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done";

/// The output so far, which must be 1, 2, 3 and so on without a hole.
fn assert_counts_on(hooked: &Hooked) {
    let before = hooked.home.ok(&["logs", "w"]).lines().count();
    wait_for("more output", || hooked.home.ok(&["logs", "w"]).lines().count() > before + 5);
    for (at, line) in hooked.home.ok(&["logs", "w"]).lines().enumerate() {
        assert_eq!(line, (at + 1).to_string());
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

#[test]
fn a_child_forked_just_before_the_kill_is_taken_up() {
    let hooked = Hooked::up();
    hooked.set("spawn.forked");
    let mut run = hooked.home.command(&["run", "-d", "--name", "w", "--", "sh", "-c", COUNTER]).spawn().unwrap();
    hooked.kill_at("spawn.forked");
    // The caller asks the next daemon the same again, and gets the process that was already started.
    assert!(run.wait().unwrap().success());
    assert_eq!(hooked.home.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    assert_eq!(hooked.home.process("w")["state"], "running");
    assert_counts_on(&hooked);
    hooked.home.ok(&["kill", "w", "--wait"]);
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
    assert_counts_on(&hooked);
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
    assert_counts_on(&hooked);
    hooked.home.ok(&["kill", "w", "--wait"]);
    assert_ne!(hooked.home.process("w")["state"], "running");
}

/// The kinds of all index records of a process, flags included.
fn records(journal: &Path) -> Vec<u16> {
    let idx = std::fs::read(journal.join("idx")).unwrap();
    idx.chunks_exact(32).map(|record| u16::from_le_bytes([record[24], record[25]])).collect()
}

/// What a program holds of children: pipes, and files of this journal. A pipe of which it has both ends is for the next child.
fn held(pid: u32, journal: &Path) -> Vec<PathBuf> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links: Vec<PathBuf> = links.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
    let of_a_child = |link: &&PathBuf| {
        let one_end = links.iter().filter(|other| other == link).count() == 1;
        link.starts_with(journal) || (link.to_string_lossy().starts_with("pipe:") && one_end)
    };
    links.iter().filter(of_a_child).cloned().collect()
}

const EXIT: u16 = 3;
const LATE: u16 = 0x8000;

#[test]
fn what_a_grandchild_says_after_the_exit_record_survives_every_kill() {
    let hooked = Hooked::up();
    let home = &hooked.home;
    let keeper = home.keeper_pid();
    let script = "(until [ -e go ]; do sleep 0.02; done
        i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo late $i; echo error $i >&2; done
        touch said; until [ -e end ]; do sleep 0.02; done; echo last) & echo early; exit 3";
    let journal = home.path("state/instances/main/procs").join(home.start("w", script));
    wait_for("the exit record", || home.process("w")["state"] != "running");
    let kept = held(keeper, &journal);
    assert!(!kept.is_empty(), "the pipes are kept while somebody may write to them");
    // Said while no daemon lives who could hear it: the next one is not that far when it is killed.
    hooked.set("adopt.listed");
    kill(home.daemon_pid(), 9);
    hooked.wait_at("adopt.listed");
    std::fs::write(home.path("home/go"), "").unwrap();
    wait_for("all of it said", || home.path("home/said").exists());
    hooked.kill_at("adopt.listed");
    let out: String = (1..=2000).map(|line| format!("late {line}\n")).collect();
    let out = format!("early\n{out}");
    wait_for("all of it journaled", || std::fs::read_to_string(journal.join("out")).unwrap() == out);
    // And once more between a late byte and its record.
    hooked.set("journal.spliced");
    std::fs::write(home.path("home/end"), "").unwrap();
    hooked.kill_at("journal.spliced");
    wait_for("nothing kept for a process that is over and drained", || {
        let daemon = held(home.daemon_pid(), &journal);
        held(keeper, &journal).is_empty()
            && !daemon.iter().any(|link| kept.contains(link) || link.starts_with(&journal))
    });
    assert_eq!(std::fs::read_to_string(journal.join("out")).unwrap(), format!("{out}last\n"));
    let err: String = (1..=2000).map(|line| format!("error {line}\n")).collect();
    assert_eq!(std::fs::read_to_string(journal.join("err")).unwrap(), err);
    let records = records(&journal);
    let exit = records.iter().position(|kind| *kind == EXIT).unwrap();
    assert_eq!(exit, 1, "one frame, then the exit: {records:x?}");
    assert!(records[exit + 1..].iter().all(|kind| kind & LATE != 0 && kind & EXIT != EXIT), "{records:x?}");
    assert_eq!(home.process("w")["exit"]["code"], 3);
}

#[test]
fn a_forgotten_process_costs_its_keeper_nothing_though_a_grandchild_holds_its_pipes() {
    let hooked = Hooked { home: Home::up() };
    let home = &hooked.home;
    let keeper = home.keeper_pid();
    let id = home.start("w", "(until [ -e end ]; do sleep 0.02; done) & exit 0");
    let journal = home.path("state/instances/main/procs").join(&id);
    wait_for("the exit record", || home.process("w")["state"] != "running");
    assert!(!held(keeper, &journal).is_empty(), "the pipes are kept while somebody may write to them");
    home.ok(&["forget", "w"]);
    wait_for("nothing kept", || held(keeper, &journal).is_empty());
    std::fs::write(home.path("home/end"), "").unwrap();
}
