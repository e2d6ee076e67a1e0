//! Pipelines that become root, through the real sudo, for an ordinary user. Needs root to make such users.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::user::{PASSWORD, Terminal, User};
use crate::common::{RunnerFolder, Test, alive, kill, spec, stage, wait_until};
use crate::tests;
use ostler_stages::Elevate::{AskOnTerminal, NeverAsk};
use ostler_stages::{FailKind, Outcome};

const ALL: &str = "USER ALL=(ALL:ALL) ALL";
const ALL_FREE: &str = "USER ALL=(ALL:ALL) NOPASSWD: ALL";
/// A signal that arrives ends a sleep at once, on any machine.
const HANG_UP_WITHIN: Duration = Duration::from_secs(15);

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_password_is_asked_for_on_the_terminal,
        nobody_else_opens_the_terminal_that_sudo_asks_on_and_the_command_does,
        whoever_had_the_terminal_open_before_keeps_sudo_from_asking,
        a_wrong_password_runs_nothing,
        ctrl_c_at_the_password_runs_nothing,
        ctrl_z_at_the_password_asks_again,
        without_password_nobody_is_asked,
        a_password_that_nobody_can_be_asked_for_is_a_clear_error,
        a_command_that_only_sounds_like_sudo_has_run,
        without_a_terminal_nobody_asks,
        one_password_serves_a_whole_pipeline,
        no_password_is_remembered_afterwards,
        a_wrong_password_or_ctrl_c_runs_no_pipeline,
        a_policy_that_remembers_nothing_runs_no_pipeline,
        a_stage_that_is_not_allowed_keeps_the_others_from_running,
        a_pipeline_without_terminal_runs_whole_or_not_at_all,
        a_pipeline_of_root_tells_codes_and_signals,
        a_name_like_an_option_or_an_assignment_is_only_a_name,
        the_environment_arrives_as_asked_for,
        a_pipeline_whose_stages_differ_in_setting_variables_runs_not_at_all,
        variables_that_every_stage_may_set_or_that_need_no_right_arrive,
        a_program_that_changed_is_not_run_as_root,
        the_limit_ends_commands_of_root,
        what_the_limit_could_not_end_is_told,
        the_limit_also_ends_the_question_for_a_password,
        a_runner_that_is_killed_hangs_up_on_commands_of_root,
    ]
}

fn a_password_is_asked_for_on_the_terminal() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let mut terminal = user.start(&place, &spec(AskOnTerminal, &[&["id", "-u"]]));
    terminal.asked(1);
    terminal.type_in(&format!("{PASSWORD}\n"));
    let ran = terminal.finish();
    assert_eq!(ran.codes(), [0], "{}", ran.stderr(0));
    assert_eq!(ran.text(), "0\n");
    assert_eq!(user.tickets(), None, "a single command leaves nothing remembered");
}

/// Another program of the same user tries while sudo asks; the command, and what it runs as that user, has a terminal.
fn nobody_else_opens_the_terminal_that_sudo_asks_on_and_the_command_does() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let script =
        format!("echo >/dev/tty && setpriv --reuid {} --clear-groups sh -c 'echo >/dev/tty && id -u'", user.name);
    let mut terminal = user.start(&place, &spec(AskOnTerminal, &[&["sh", "-c", &script]]));
    terminal.asked(1);
    let tried = user.opens(&terminal.name);
    assert!(tried.contains("busy"), "{tried}");
    terminal.type_in(&format!("{PASSWORD}\n"));
    let ran = terminal.finish();
    assert_eq!(ran.codes(), [0], "{}", ran.stderr(0));
    assert_ne!(ran.text(), "0\n");
}

fn whoever_had_the_terminal_open_before_keeps_sudo_from_asking() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let mut holder = None;
    let spec = spec(AskOnTerminal, &[&["id", "-u"]]);
    let mut terminal = user.start_after(&place, &spec, |name| holder = Some(user.holding(name)));
    wait_until("the runner refuses", || terminal.has_ended());
    assert_eq!(terminal.questions(), 0);
    let ran = terminal.finish();
    let mut holder = holder.unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let (_, kind, message) = ran.failure();
    assert_eq!(kind, FailKind::NoTerminal);
    assert!(message.contains("has opened the runner's terminal"), "{message}");
}

/// A spec whose command leaves a mark, and whether it did.
fn marking(place: &RunnerFolder) -> (ostler_stages::Stage, std::path::PathBuf) {
    (stage(&["touch", &place.text("mark")]), place.path("mark"))
}

fn a_wrong_password_runs_nothing() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let (stage, mark) = marking(&place);
    let mut spec = spec(AskOnTerminal, &[]);
    spec.stages = vec![stage];
    let mut terminal = user.start(&place, &spec);
    for times in 1..=3 {
        terminal.asked(times);
        terminal.type_in("wrong\n");
    }
    assert_eq!(terminal.finish().codes(), [1]);
    assert!(!mark.exists());
}

fn ctrl_c_at_the_password_runs_nothing() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let (stage, mark) = marking(&place);
    let mut spec = spec(AskOnTerminal, &[]);
    spec.stages = vec![stage];
    let mut terminal = user.start(&place, &spec);
    terminal.asked(1);
    terminal.press_until("\x03", Terminal::has_ended);
    assert_eq!(terminal.finish().codes(), [1]);
    assert!(!mark.exists());
}

/// Stopped by its key, sudo goes on at once: nobody is there to say `fg` on a terminal that is passed on.
fn ctrl_z_at_the_password_asks_again() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    for stages in [&[["id", "-u"].as_slice()] as &[&[&str]], &[&["id", "-u"], &["cat"]]] {
        let mut terminal = user.start(&place, &spec(AskOnTerminal, stages));
        terminal.asked(1);
        terminal.press_until("half of it\x1a", |terminal| terminal.questions() >= 2);
        let mut asked = 0;
        // A question that comes late throws away what was typed before it.
        terminal.press_until("", |terminal| {
            if terminal.questions() > asked {
                asked = terminal.questions();
                terminal.type_in(&format!("{PASSWORD}\n"));
            }
            terminal.has_ended()
        });
        let ran = terminal.finish();
        assert_eq!(ran.codes(), vec![0; stages.len()], "{}", ran.stderr(0));
        assert_eq!(ran.text(), "0\n");
    }
}

fn without_password_nobody_is_asked() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    let ran = user.run(&place, &spec(NeverAsk, &[&["id", "-u"]]));
    assert_eq!((ran.codes(), ran.text().as_str()), (vec![0], "0\n"));
    let ran = user.start(&place, &spec(AskOnTerminal, &[&["id", "-u"]])).finish();
    assert_eq!((ran.codes(), ran.text().as_str()), (vec![0], "0\n"));
}

fn a_password_that_nobody_can_be_asked_for_is_a_clear_error() {
    let Some(user) = User::new(ALL) else { return };
    let (at, kind, message) = user.run(&RunnerFolder::new(), &spec(NeverAsk, &[&["id"]])).failure();
    assert_eq!((at, kind), (None, FailKind::PasswordNeeded));
    assert!(message.contains("approve it from a terminal"), "{message}");
    assert!(message.contains("NOPASSWD"), "{message}");
}

fn a_command_that_only_sounds_like_sudo_has_run() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let says = "echo 'sudo: a password is required' >&2; exit 1";
    assert_eq!(user.run(&RunnerFolder::new(), &spec(NeverAsk, &[&["sh", "-c", says]])).codes(), [1]);
}

fn without_a_terminal_nobody_asks() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    for stages in [[["true"].as_slice()].as_slice(), &[&["true"], &["true"]]] {
        let (_, kind, message) = user.run(&place, &spec(AskOnTerminal, stages)).failure();
        assert_eq!(kind, FailKind::NoTerminal, "{message}");
    }
}

fn one_password_serves_a_whole_pipeline() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let stages: [&[&str]; 3] = [&["id", "-u"], &["sed", "s/^/uid /"], &["sh", "-c", "cat; id -u; exit 3"]];
    let mut terminal = user.start(&place, &spec(AskOnTerminal, &stages));
    terminal.asked(1);
    terminal.type_in(&format!("{PASSWORD}\n"));
    let ran = terminal.finish();
    assert_eq!(ran.codes(), [0, 0, 3]);
    assert_eq!(ran.text(), "uid 0\n0\n");
}

fn no_password_is_remembered_afterwards() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let mut terminal = user.start(&place, &spec(AskOnTerminal, &[&["true"], &["true"]]));
    terminal.asked(1);
    terminal.type_in(&format!("{PASSWORD}\n"));
    assert_eq!(terminal.finish().codes(), [0, 0]);
    // Records of the file: version, size, type and flags in sixteen bits each; type 4 is a lock, flag 1 "disabled".
    let tickets = user.tickets().expect("sudo -v has remembered it for a while");
    let mut rest = tickets.as_slice();
    let mut seen = 0;
    while rest.len() >= 8 {
        let field = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
        if field(4) != 4 {
            seen += 1;
            assert_eq!(field(6) & 1, 1, "a record is still valid");
        }
        rest = &rest[usize::from(field(2)).max(8).min(rest.len())..];
    }
    assert_ne!(seen, 0);
}

fn a_wrong_password_or_ctrl_c_runs_no_pipeline() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    let (first, mark) = marking(&place);
    let mut spec = spec(AskOnTerminal, &[&["true"], &["true"]]);
    spec.stages[0] = first;
    for wrong in [3, 0] {
        let mut terminal = user.start(&place, &spec);
        for times in 1..=wrong {
            terminal.asked(times);
            terminal.type_in("wrong\n");
        }
        if wrong == 0 {
            terminal.asked(1);
            terminal.press_until("\x03", Terminal::has_ended);
        }
        let (_, kind, message) = terminal.finish().failure();
        assert_eq!(kind, FailKind::NotAuthenticated, "{message}");
        assert!(!mark.exists());
    }
}

fn a_policy_that_remembers_nothing_runs_no_pipeline() {
    let Some(user) = User::new(&format!("Defaults:USER timestamp_timeout=0\n{ALL}")) else { return };
    let place = RunnerFolder::new();
    let (first, mark) = marking(&place);
    let mut spec = spec(AskOnTerminal, &[&["true"], &["true"]]);
    spec.stages[0] = first;
    let mut terminal = user.start(&place, &spec);
    terminal.asked(1);
    terminal.type_in(&format!("{PASSWORD}\n"));
    let (_, kind, message) = terminal.finish().failure();
    assert_eq!(kind, FailKind::NotRemembered, "{message}");
    assert!(message.contains("timestamp_timeout=0") && message.contains("nothing was run"), "{message}");
    assert!(!mark.exists());
}

fn a_stage_that_is_not_allowed_keeps_the_others_from_running() {
    let touch = stage(&["touch"]).program;
    let policy = |tag: &str| format!("USER ALL=(ALL:ALL) {tag} {}", touch.display());
    let place = RunnerFolder::new();
    let (first, mark) = marking(&place);
    let Some(user) = User::new(&policy("")) else { return };
    let mut ask = spec(AskOnTerminal, &[&["true"], &["id"]]);
    ask.stages[0] = first.clone();
    let mut terminal = user.start(&place, &ask);
    terminal.asked(1);
    terminal.type_in(&format!("{PASSWORD}\n"));
    let (at, kind, message) = terminal.finish().failure();
    assert_eq!((at, kind), (Some(1), FailKind::NotPermitted), "{message}");
    assert!(message.contains(stage(&["id"]).program.to_str().unwrap()), "{message}");
    let user = User::new(&policy("NOPASSWD:")).unwrap();
    let never = ostler_stages::Spec { elevate: NeverAsk, ..ask };
    let (at, kind, _) = user.run(&place, &never).failure();
    assert_eq!((at, kind), (Some(1), FailKind::NotPermitted));
    assert!(!mark.exists());
}

fn a_pipeline_without_terminal_runs_whole_or_not_at_all() {
    let place = RunnerFolder::new();
    let (first, mark) = marking(&place);
    let mut spec = spec(NeverAsk, &[&["true"], &["id", "-u"]]);
    spec.stages[0] = first.clone();
    // The first stage would need no password, the second one would.
    let mixed = format!("{ALL}\nUSER ALL=(ALL:ALL) NOPASSWD: {}", first.program.display());
    for policy in [ALL, &mixed] {
        let Some(user) = User::new(policy) else { return };
        let (_, kind, message) = user.run(&place, &spec).failure();
        assert_eq!(kind, FailKind::PasswordNeeded, "{message}");
        assert!(!mark.exists());
    }
    let ran = User::new(ALL_FREE).unwrap().run(&place, &spec);
    assert_eq!((ran.codes(), ran.text().as_str()), (vec![0, 0], "0\n"));
    assert!(mark.exists());
}

fn a_pipeline_of_root_tells_codes_and_signals() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    let stages: [&[&str]; 2] = [&["yes"], &["head", "-n", "1"]];
    for ran in [user.run(&place, &spec(NeverAsk, &stages)), user.start(&place, &spec(AskOnTerminal, &stages)).finish()]
    {
        assert_eq!((ran.codes(), ran.text().as_str()), (vec![-1, 0], "y\n"));
    }
}

fn a_name_like_an_option_or_an_assignment_is_only_a_name() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    let odd = place.program("LD_CANARY=1", "#!/bin/sh\necho \"$# ${LD_CANARY-none} $(id -u)\"\n");
    let ran = user.run(&place, &spec(NeverAsk, &[&[odd.to_str().unwrap(), "-u", "nobody"]]));
    assert_eq!((ran.codes(), ran.text().as_str()), (vec![0], "2 none 0\n"));
    for name in ["-u", "LD_CANARY=1", "--"] {
        let mut spec = spec(NeverAsk, &[&["id", "-u"]]);
        spec.stages[0].argv[0] = name.into();
        let ran = user.run(&place, &spec);
        assert_eq!((ran.codes(), ran.text().as_str()), (vec![0], "0\n"), "{name}");
    }
}

fn the_environment_arrives_as_asked_for() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let mut spec = spec(NeverAsk, &[&["env"]]);
    let asked = [("DEBIAN_FRONTEND", "noninteractive"), ("TZ", "UTC"), ("LANG", "de_DE.UTF-8"), ("HOME", "/a b=c")];
    spec.env = asked.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let ran = user.run(&RunnerFolder::new(), &spec);
    assert_eq!(ran.codes(), [0]);
    let text = ran.text();
    for (key, value) in asked {
        assert!(text.lines().any(|line| line == format!("{key}={value}")), "{key} in {text}");
    }
}

/// Two stages of root with a variable that only a policy's SETENV lets in.
fn with_home(place: &RunnerFolder, name: &str, value: &str) -> (ostler_stages::Spec, std::path::PathBuf) {
    let (first, mark) = marking(place);
    let mut spec = spec(NeverAsk, &[&["true"], &["env"]]);
    spec.stages[0] = first;
    spec.env = vec![(name.to_owned(), value.to_owned())];
    (spec, mark)
}

fn a_pipeline_whose_stages_differ_in_setting_variables_runs_not_at_all() {
    let program = |name: &str| stage(&[name]).program.display().to_string();
    let (touch, env) = (program("touch"), program("env"));
    let policy = format!("USER ALL=(root) NOPASSWD: SETENV: {touch}, NOSETENV: {env}");
    let Some(user) = User::new(&policy) else { return };
    let place = RunnerFolder::new();
    let (spec, mark) = with_home(&place, "HOME", "/elsewhere");
    let (at, kind, message) = user.run(&place, &spec).failure();
    assert_eq!((at, kind), (None, FailKind::NotPermitted), "{message}");
    assert!(message.contains("SETENV") && message.contains("nothing was run"), "{message}");
    assert!(!mark.exists(), "the first stage has run");
}

fn variables_that_every_stage_may_set_or_that_need_no_right_arrive() {
    let program = |name: &str| stage(&[name]).program.display().to_string();
    let (touch, env) = (program("touch"), program("env"));
    let free = "USER ALL=(root) NOPASSWD:";
    for (policy, name, value) in [
        (ALL_FREE.to_owned(), "HOME", "/elsewhere"),
        (format!("{free} SETENV: {touch}, {env}"), "DEBIAN_FRONTEND", "noninteractive"),
        (format!("{free} SETENV: {touch}, NOSETENV: {env}"), "LC_TIME", "C.UTF-8"),
    ] {
        let Some(user) = User::new(&policy) else { return };
        let place = RunnerFolder::new();
        let (spec, mark) = with_home(&place, name, value);
        let ran = user.run(&place, &spec);
        assert_eq!(ran.codes(), [0, 0], "{policy}: {}", ran.stderr(1));
        assert!(mark.exists() && ran.text().lines().any(|line| line == format!("{name}={value}")), "{}", ran.text());
    }
}

fn a_program_that_changed_is_not_run_as_root() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    let mark = place.path("mark");
    let script = place.program("script", "#!/bin/sh\n");
    let spec = spec(NeverAsk, &[&[script.to_str().unwrap()]]);
    fs::write(&script, format!("#!/bin/sh\n: > {}\n", mark.display())).unwrap();
    let (at, kind, _) = user.run(&place, &spec).failure();
    assert_eq!((at, kind), (Some(0), FailKind::Changed));
    assert!(!mark.exists());
}

fn the_limit_ends_commands_of_root() {
    let Some(user) = User::new(ALL_FREE) else { return };
    let place = RunnerFolder::new();
    // The second does not want to.
    let one = format!("echo $$ > {}; exec sleep 100", place.text("one"));
    let two = stubborn(&place, "two");
    let single: &[&[&str]] = &[&["sh", "-c", &one]];
    let both: &[&[&str]] = &[&["sh", "-c", &one], &["sh", "-c", &two]];
    for (elevate, stages) in [(NeverAsk, both), (AskOnTerminal, single), (AskOnTerminal, both)] {
        let names = ["one", "two", "two.child"].iter().take(stages.len() * 2 - 1);
        let mut spec = spec(elevate, stages);
        spec.limit = Duration::from_secs(2);
        // On a busy machine the limit may come before the stages do; then it was too short to tell anything.
        while !names.clone().all(|name| place.path(name).exists()) {
            spec.limit *= 2;
            let ran = match elevate {
                NeverAsk => user.run(&place, &spec),
                _ => user.start(&place, &spec).finish(),
            };
            assert_eq!(ran.outcome(), Outcome::TimedOut { secs: spec.limit.as_secs(), left: Vec::new() });
        }
        for name in names {
            let pid = fs::read_to_string(place.path(name)).unwrap();
            wait_until("it is gone", || !alive(&pid));
            fs::remove_file(place.path(name)).unwrap();
        }
    }
}

/// A shell that does not want to end, and neither does its child.
fn stubborn(place: &RunnerFolder, name: &str) -> String {
    let (own, child) = (place.text(name), place.text(&format!("{name}.child")));
    format!("trap '' HUP TERM; echo $$ > {own}; while :; do sleep 100 & echo $! > {child}; wait; done")
}

fn what_the_limit_could_not_end_is_told() {
    // Whoever may run a shell may run anything, but nobody else says so for him.
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let Some(user) = User::new(&format!("USER ALL=(ALL:ALL) NOPASSWD: /bin/sh, {}", shell.display())) else { return };
    let place = RunnerFolder::new();
    let mut spec = spec(NeverAsk, &[&["sh", "-c", &stubborn(&place, "one")]]);
    spec.limit = Duration::from_secs(2);
    let mut outcome = None;
    while !place.path("one.child").exists() {
        spec.limit *= 2;
        outcome = Some(user.run(&place, &spec).outcome());
    }
    let child = fs::read_to_string(place.path("one.child")).unwrap();
    let lives = alive(&child);
    kill(&child);
    assert!(lives, "{outcome:?}");
    assert_eq!(outcome, Some(Outcome::TimedOut { secs: spec.limit.as_secs(), left: vec![0] }));
}

fn the_limit_also_ends_the_question_for_a_password() {
    let Some(user) = User::new(ALL) else { return };
    let place = RunnerFolder::new();
    for stages in [[["true"].as_slice()].as_slice(), &[&["true"], &["true"]]] {
        let mut spec = spec(AskOnTerminal, stages);
        spec.limit = Duration::from_secs(2);
        let ran = user.start(&place, &spec).finish();
        assert_eq!(ran.outcome(), Outcome::TimedOut { secs: 2, left: Vec::new() });
    }
}

/// sudo may lose a signal that comes while it is still starting; three in a row it does not.
fn a_runner_that_is_killed_hangs_up_on_commands_of_root() {
    let Some(user) = User::new(ALL_FREE) else { return };
    assert!((0..3).any(|_| a_hang_up_ends_both(&user)), "the hang-up ended nothing, three times");
}

fn a_hang_up_ends_both(user: &User) -> bool {
    let place = RunnerFolder::new();
    let command = |name: &str| format!("echo $$ > {}; exec sleep 100", place.text(name));
    let (one, two) = (command("one"), command("two"));
    let terminal = user.start(&place, &spec(AskOnTerminal, &[&["sh", "-c", &one], &["sh", "-c", &two]]));
    let pid = |name: &str| fs::read_to_string(place.path(name)).ok().filter(|pid| pid.ends_with('\n'));
    wait_until("both run", || pid("one").is_some() && pid("two").is_some());
    terminal.kill_runner();
    let gone = || ["one", "two"].iter().all(|name| !alive(&pid(name).unwrap()));
    let deadline = Instant::now() + HANG_UP_WITHIN;
    while !gone() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    gone()
}
