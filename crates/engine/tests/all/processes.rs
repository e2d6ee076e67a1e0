//! Hosted processes through the deaths of daemons and keepers.

use std::time::Duration;

use crate::stable::{Stable, Test, wait_until};
use crate::tests;
use serde_json::{Value, json};

pub(crate) fn tests() -> &'static [Test] {
    tests![
        arguments_of_a_megabyte_are_started_and_known_in_full_to_the_next_daemon,
        the_same_key_at_once_is_one_process,
        a_key_whose_start_failed_can_be_used_again,
        a_spawn_that_the_keeper_carried_out_unheard_is_not_reported_as_failed,
        a_terminal_outlives_keeper_and_daemon,
        a_process_whose_description_is_lost_is_still_listed,
        a_process_that_says_and_hears_nothing_makes_no_folder,
        the_end_of_a_silent_process_survives_a_kill_at_every_step,
        the_first_input_is_delivered_once_whenever_the_daemon_dies,
        nothing_of_a_forgotten_process_is_on_the_disk,
        who_starts_many_pushes_out_only_its_own,
        a_helper_is_the_keepers_child_and_in_no_list,
        a_helper_over_its_time_ends_with_all_that_it_started,
        a_keeper_lost_in_the_middle_of_a_helper_is_an_error_and_the_helper_ends,
        helpers_leave_no_descriptor_and_no_child_behind,
    ]
}

fn spawn(stable: &Stable, argv: &[&str], more: Value) -> Vec<Value> {
    let mut what = json!({"do": "spawn", "argv": argv});
    what.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stable.ask(what).as_array().unwrap().clone()
}

fn process(stable: &Stable, id: &Value) -> Value {
    stable.ask(json!({"do": "process", "id": id}))
}

fn says(stable: &Stable, id: &Value, text: &str) {
    wait_until(&format!("{id} says {text:?}"), || process(stable, id)["said"] == text);
}

fn arguments_of_a_megabyte_are_started_and_known_in_full_to_the_next_daemon() {
    let stable = Stable::new();
    // One argument alone may have no more than 128 KiB.
    let long = "x".repeat(100_000);
    let argv: Vec<&str> = ["sh", "-c", "echo $#; exec sleep 60", "sh"].into_iter().chain([long.as_str(); 9]).collect();
    let length = argv[1..].concat().len();
    let id = spawn(&stable, &argv, json!({})).remove(0);
    says(&stable, &id, "9\n");
    stable.restart();
    let known = process(&stable, &id);
    assert_eq!((&known["args"], &known["running"]), (&json!(length), &json!(true)));
    // And when the daemon dies before it has heard of the fork.
    stable.set("spawn.forked");
    stable.tell(&json!({"do": "spawn", "argv": argv}));
    stable.kill_at("spawn.forked");
    let all = stable.ask(json!({"do": "processes"}));
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    let other = all.as_array().unwrap().iter().find(|other| **other != id).unwrap();
    says(&stable, other, "9\n");
    let known = process(&stable, other);
    assert_eq!(known["args"], length);
    assert_ne!(known["pid"], 0);
}

fn the_same_key_at_once_is_one_process() {
    let stable = Stable::new();
    let ids = spawn(&stable, &["sleep", "60"], json!({"key": "k", "times": 4}));
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([ids[0]]));
    stable.restart();
    assert_eq!(spawn(&stable, &["sleep", "60"], json!({"key": "k", "times": 2})), [ids[0].clone(), ids[0].clone()]);
}

fn a_key_whose_start_failed_can_be_used_again() {
    let stable = Stable::new();
    let failed = spawn(&stable, &["/does/not/exist"], json!({"key": "k", "times": 3}));
    assert!(failed.iter().all(|outcome| outcome["error"].is_string()), "{failed:?}");
    let id = spawn(&stable, &["echo", "now"], json!({"key": "k"})).remove(0);
    says(&stable, &id, "now\n");
}

fn a_spawn_that_the_keeper_carried_out_unheard_is_not_reported_as_failed() {
    let stable = Stable::new();
    let id = spawn(&stable, &["sh", "-c", "echo here; exec sleep 60"], json!({"cut": true})).remove(0);
    assert!(id.is_string(), "{id}");
    says(&stable, &id, "here\n");
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([id]));
}

fn a_terminal_outlives_keeper_and_daemon() {
    let stable = Stable::new();
    let script = "read word < /dev/tty; echo got $word";
    let id = spawn(&stable, &["sh", "-c", script], json!({"key": "approval:a", "relayed": true})).remove(0);
    let keeper = stable.ask(json!({"do": "keeper"}));
    let pid = rustix::process::Pid::from_raw(keeper.as_i64().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("there is another keeper", || stable.ask(json!({"do": "keeper"})) != keeper);
    // Until it has what the daemon hands over.
    std::thread::sleep(Duration::from_secs(1));
    stable.restart();
    assert_eq!(stable.ask(json!({"do": "type", "id": "a", "text": "friend\n"})), true);
    says(&stable, &id, "got friend\n");
}

fn a_process_whose_description_is_lost_is_still_listed() {
    let stable = Stable::new();
    let id = spawn(&stable, &["echo", "said"], json!({})).remove(0);
    wait_until("it has ended", || process(&stable, &id)["running"] == false);
    stable.kill();
    let roll = stable.path("roll");
    let mut bytes = std::fs::read(&roll).unwrap();
    let at = bytes.windows(9).position(|part| part == b"\"version\"").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&roll, bytes).unwrap();
    stable.up();
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([id]));
    says(&stable, &id, "said\n");
}

/// Names in the folder of processes.
fn folders(stable: &Stable) -> usize {
    std::fs::read_dir(stable.path("procs")).unwrap().count()
}

fn ended(stable: &Stable, id: &Value, exit: &str) {
    wait_until(&format!("{id} has ended"), || process(stable, id)["running"] == false);
    assert_eq!(process(stable, id)["exit"], exit, "{id}");
}

fn a_process_that_says_and_hears_nothing_makes_no_folder() {
    let stable = Stable::new();
    let silent = spawn(&stable, &["sh", "-c", "exit 3"], json!({})).remove(0);
    let killed = spawn(&stable, &["sh", "-c", "kill -9 $$"], json!({})).remove(0);
    let lives = spawn(&stable, &["sleep", "60"], json!({})).remove(0);
    ended(&stable, &silent, "Some(Code(3))");
    ended(&stable, &killed, "Some(Signal(9))");
    assert_eq!(folders(&stable), 0);
    for _ in 0..2 {
        stable.restart();
        ended(&stable, &silent, "Some(Code(3))");
        ended(&stable, &killed, "Some(Signal(9))");
        assert_eq!(process(&stable, &silent)["said"], "");
        assert_eq!(process(&stable, &lives)["running"], true);
        assert_eq!(folders(&stable), 0);
    }
    let speaker = spawn(&stable, &["echo", "said"], json!({})).remove(0);
    says(&stable, &speaker, "said\n");
    assert_eq!(folders(&stable), 1);
}

fn the_end_of_a_silent_process_survives_a_kill_at_every_step() {
    for hook in ["spawn.forked", "roll.appended", "exit.due", "exit.recorded", "exit.drained"] {
        let stable = Stable::new();
        stable.set(hook);
        stable.tell(&json!({"do": "spawn", "argv": ["sh", "-c", "exit 3"]}));
        stable.kill_at(hook);
        let all = stable.ask(json!({"do": "processes"}));
        let [id] = all.as_array().unwrap().as_slice() else { panic!("{hook}: {all}") };
        ended(&stable, id, "Some(Code(3))");
        stable.restart();
        ended(&stable, id, "Some(Code(3))");
        assert_eq!(folders(&stable), 0, "{hook}");
    }
}

fn the_first_input_is_delivered_once_whenever_the_daemon_dies() {
    for hook in ["journal.half_made", "journal.made", "stdin.appended", "stdin.delivered"] {
        let stable = Stable::new();
        let id = spawn(&stable, &["cat"], json!({})).remove(0);
        stable.set(hook);
        stable.tell(&json!({"do": "feed", "id": id, "bytes": "once\n", "at": 0}));
        stable.kill_at(hook);
        // As a client does that has heard no answer.
        assert_eq!(stable.ask(json!({"do": "feed", "id": id, "bytes": "once\n", "at": 0})), true, "{hook}");
        assert_eq!(stable.ask(json!({"do": "feed", "id": id, "bytes": "then\n", "at": 5})), true, "{hook}");
        says(&stable, &id, "once\nthen\n");
        stable.restart();
        assert_eq!(stable.ask(json!({"do": "feed", "id": id, "bytes": "last\n", "at": 10})), true, "{hook}");
        says(&stable, &id, "once\nthen\nlast\n");
    }
}

fn nothing_of_a_forgotten_process_is_on_the_disk() {
    let stable = Stable::new();
    let id = spawn(&stable, &["sh", "-c", "exit 0", "hunter2"], json!({})).remove(0);
    let kept = spawn(&stable, &["sh", "-c", "exit 4"], json!({})).remove(0);
    ended(&stable, &id, "Some(Code(0))");
    ended(&stable, &kept, "Some(Code(4))");
    let holds = |word: &[u8]| std::fs::read(stable.path("roll")).unwrap().windows(word.len()).any(|part| part == word);
    assert!(holds(b"hunter2"));
    assert_eq!(stable.ask(json!({"do": "forget process", "id": id})), true);
    assert!(!holds(b"hunter2"));
    stable.restart();
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([kept]));
    ended(&stable, &kept, "Some(Code(4))");
}

fn who_starts_many_pushes_out_only_its_own() {
    let stable = Stable::new();
    std::fs::write(stable.path("count"), "3").unwrap();
    stable.restart();
    let over = |argv: &[&str], more| {
        let id = spawn(&stable, argv, more).remove(0);
        ended(&stable, &id, "Some(Code(0))");
        id
    };
    let kept = over(&["true"], json!({}));
    let living = spawn(&stable, &["sleep", "60"], json!({"alias": "sleeper"})).remove(0);
    let many: Vec<Value> = (0..8).map(|n| over(&["echo", "so"], json!({"alias": n.to_string()}))).collect();
    let expected = json!([kept, living, many[5], many[6], many[7]]);
    wait_until("the oldest are gone", || stable.ask(json!({"do": "processes"})) == expected);
}

fn brief(stable: &Stable, script: &str, within_ms: u64) -> Value {
    stable.ask(json!({"do": "brief", "script": script, "within_ms": within_ms}))
}

fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

fn a_helper_is_the_keepers_child_and_in_no_list() {
    let stable = Stable::new();
    let ran = brief(&stable, "cat /proc/$PPID/comm; echo err >&2; cat; exit 3", 60_000);
    assert_eq!(ran, json!({"ended": "exit status: 3", "said": format!("{}\nerr\n", ostler_keeper::NAME)}));
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([]));
    assert_eq!(std::fs::read_dir(stable.path("procs")).unwrap().count(), 0);
    assert!(brief(&stable, "exec /no/such/program", 60_000)["ended"].as_str().unwrap().contains("127"));
}

fn a_helper_over_its_time_ends_with_all_that_it_started() {
    let stable = Stable::new();
    let file = stable.path("pid");
    // By the group it could not be found.
    let script = format!("setsid sleep 300 & echo $! > {}; sleep 300", file.display());
    assert_eq!(brief(&stable, &script, 500)["ended"], "no end in time");
    let pid = std::fs::read_to_string(&file).unwrap();
    wait_until("all of it is gone", || is_gone(&pid));
}

fn a_keeper_lost_in_the_middle_of_a_helper_is_an_error_and_the_helper_ends() {
    let stable = Stable::new();
    let file = stable.path("pid");
    let script = format!("echo $$ > {}; kill -9 $PPID; sleep 300", file.display());
    assert_eq!(brief(&stable, &script, 120_000)["error"], "the process that holds the others died while it ran");
    let pid = std::fs::read_to_string(&file).unwrap();
    wait_until("it is gone", || is_gone(&pid));
    assert_eq!(brief(&stable, "echo again", 60_000)["said"], "again\n");
}

fn helpers_leave_no_descriptor_and_no_child_behind() {
    let stable = Stable::new();
    let keeper: u32 = brief(&stable, "echo $PPID", 60_000)["said"].as_str().unwrap().trim().parse().unwrap();
    let open = || std::fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().count();
    let before = open();
    for _ in 0..50 {
        brief(&stable, "true", 60_000);
    }
    wait_until("the keeper holds what it held before", || open() <= before);
    assert_eq!(stable.ask(json!({"do": "processes"})), json!([]));
}
