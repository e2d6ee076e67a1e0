//! Pipelines that run as the user who asks.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Ran, RunnerFolder, Test, alive, kill, plain, stage, wait_until};
use crate::tests;
use ostler_stages::{CAPTURE_MAX, FailKind, Outcome, Report, Stage, copy_stdout};

pub(crate) fn tests() -> &'static [Test] {
    tests![
        a_command_runs_and_is_reported,
        a_stage_has_exactly_the_surroundings_that_the_spec_says,
        the_name_is_what_was_asked_for_even_if_it_looks_like_something_else,
        a_pipeline_is_connected_and_every_code_is_told,
        a_stage_that_a_signal_ended_has_the_code_minus_one,
        a_writer_whose_reader_left_ends_by_its_signal,
        a_script_runs_from_the_file_that_was_compared,
        a_program_that_changed_is_not_run,
        a_program_that_was_replaced_is_not_run,
        a_changed_stage_keeps_the_others_from_running,
        a_program_that_is_gone_is_named,
        a_text_without_interpreter_is_not_given_to_a_shell,
        exactly_the_limit_is_kept_and_one_byte_more_is_cut,
        stderr_is_cut_by_itself,
        an_endless_writer_ends_at_the_limit_and_takes_no_memory,
        the_limit_ends_the_whole_group,
        a_background_child_does_not_hold_the_answer,
        what_was_written_before_the_end_arrives_however_slow_the_reader,
        a_runner_that_was_killed_leaves_a_report_without_outcome,
        a_report_that_nobody_reads_stops_no_command,
        another_spec_than_the_approved_one_is_refused,
        a_spec_that_makes_no_sense_is_refused,
    ]
}

fn a_command_runs_and_is_reported() {
    let ran = RunnerFolder::new().run(&plain(&[&["sh", "-c", "echo out; echo err >&2; exit 7"]]));
    assert_eq!(ran.codes(), [7]);
    assert_eq!((ran.text().as_str(), ran.stderr(0).as_str()), ("out\n", "err\n"));
    assert_eq!(ran.stderr, "");
}

fn a_stage_has_exactly_the_surroundings_that_the_spec_says() {
    let place = RunnerFolder::new();
    let mut spec = plain(&[&["env"]]);
    spec.env = vec![("A".into(), "one two".into()), ("B".into(), String::new())];
    assert_eq!(place.run(&spec).text(), "A=one two\nB=\n");
    assert_eq!(place.run(&plain(&[&["sh", "-c", "pwd; umask"]])).text(), "/\n0077\n");
    // The keeper closes what a runner could inherit; the runner adds nothing to what this test was started with.
    let list = std::process::Command::new("ls").arg("/proc/self/fd").stdin(Stdio::null()).output().unwrap();
    assert_eq!(place.run(&plain(&[&["ls", "/proc/self/fd"]])).stdout(), list.stdout);
    assert_eq!(place.run(&plain(&[&["readlink", "/proc/self/fd/0"]])).text(), "/dev/null\n");
    let stat = place.run(&plain(&[&["cat", "/proc/self/stat"]])).text();
    let fields: Vec<&str> = stat.split(' ').collect();
    assert_eq!(fields[0], fields[4], "it leads a group");
    let session = rustix::process::getsid(None).unwrap().as_raw_nonzero().to_string();
    assert_eq!(fields[5], session, "but no session");
}

fn the_name_is_what_was_asked_for_even_if_it_looks_like_something_else() {
    let place = RunnerFolder::new();
    for name in ["-u", "A=b", "with space", ""] {
        let mut spec = plain(&[&["cat", "/proc/self/cmdline"]]);
        spec.stages[0].argv[0] = name.into();
        assert_eq!(place.run(&spec).text(), format!("{name}\0/proc/self/cmdline\0"));
    }
}

fn a_pipeline_is_connected_and_every_code_is_told() {
    let stages: [&[&str]; 3] =
        [&["sh", "-c", "echo one; echo first >&2; exit 3"], &["sed", "s/one/two/"], &["sh", "-c", "cat; exit 5"]];
    let ran = RunnerFolder::new().run(&plain(&stages));
    assert_eq!(ran.codes(), [3, 0, 5]);
    assert_eq!(ran.text(), "two\n");
    assert_eq!((ran.stderr(0).as_str(), ran.stderr(1).as_str()), ("first\n", ""));
}

fn a_stage_that_a_signal_ended_has_the_code_minus_one() {
    assert_eq!(RunnerFolder::new().run(&plain(&[&["sh", "-c", "kill -9 $$"]])).codes(), [-1]);
}

fn a_writer_whose_reader_left_ends_by_its_signal() {
    let ran = RunnerFolder::new().run(&plain(&[&["yes"], &["head", "-n", "1"]]));
    assert_eq!(ran.codes(), [-1, 0]);
    assert_eq!(ran.text(), "y\n");
}

fn a_script_runs_from_the_file_that_was_compared() {
    let place = RunnerFolder::new();
    let script = place.program("script", "#!/bin/sh\necho \"$# $1\"; exit 4\n");
    let ran = place.run(&plain(&[&[script.to_str().unwrap(), "a b"]]));
    assert_eq!(ran.codes(), [4]);
    assert_eq!(ran.text(), "1 a b\n");
}

/// A stage that leaves a mark when it runs, and the mark.
fn marking(place: &RunnerFolder) -> (Stage, std::path::PathBuf) {
    let mark = place.path("mark");
    let script = place.program("marking", &format!("#!/bin/sh\n: > {}\n", mark.display()));
    (stage(&[script.to_str().unwrap()]), mark)
}

fn a_program_that_changed_is_not_run() {
    let place = RunnerFolder::new();
    let (stage, mark) = marking(&place);
    let file = fs::File::options().write(true).open(&stage.program).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    let text = fs::read(&stage.program).unwrap();
    // The same length, and the old time put back. The clock of file times is coarse: until it has moved on.
    let ctime = || std::os::unix::fs::MetadataExt::ctime_nsec(&file.metadata().unwrap());
    let first = ctime();
    wait_until("the change shows", || {
        fs::write(&stage.program, &text).unwrap();
        file.set_modified(before).unwrap();
        ctime() != first
    });
    let mut spec = plain(&[&["true"]]);
    spec.stages = vec![stage];
    let (at, kind, message) = place.run(&spec).failure();
    assert_eq!((at, kind), (Some(0), FailKind::Changed), "{message}");
    assert!(message.contains("marking has changed since it was shown"), "{message}");
    assert!(!mark.exists());
}

fn a_program_that_was_replaced_is_not_run() {
    let place = RunnerFolder::new();
    let (stage, mark) = marking(&place);
    fs::copy(&stage.program, place.path("other")).unwrap();
    fs::rename(place.path("other"), &stage.program).unwrap();
    let mut spec = plain(&[&["true"]]);
    spec.stages = vec![stage];
    assert_eq!(place.run(&spec).failure().1, FailKind::Changed);
    assert!(!mark.exists());
}

fn a_changed_stage_keeps_the_others_from_running() {
    let place = RunnerFolder::new();
    let (first, mark) = marking(&place);
    let second = stage(&[place.program("second", "#!/bin/sh\n").to_str().unwrap()]);
    fs::write(&second.program, "#!/bin/sh\necho changed\n").unwrap();
    let mut spec = plain(&[&["true"]]);
    spec.stages = vec![first, second];
    let (at, kind, _) = place.run(&spec).failure();
    assert_eq!((at, kind), (Some(1), FailKind::Changed));
    assert!(!mark.exists());
}

fn a_program_that_is_gone_is_named() {
    let place = RunnerFolder::new();
    let (stage, _) = marking(&place);
    fs::remove_file(&stage.program).unwrap();
    let mut spec = plain(&[&["true"], &["true"]]);
    spec.stages[1] = stage;
    let (at, kind, message) = place.run(&spec).failure();
    assert_eq!((at, kind), (Some(1), FailKind::NotFound));
    assert!(message.contains("marking is not there any more"), "{message}");
}

fn a_text_without_interpreter_is_not_given_to_a_shell() {
    let place = RunnerFolder::new();
    let mark = place.path("mark");
    let text = place.program("text", &format!(": > {}\n", mark.display()));
    let (at, kind, _) = place.run(&plain(&[&["true"], &[text.to_str().unwrap()]])).failure();
    assert_eq!((at, kind), (Some(1), FailKind::NotExecutable));
    assert!(!mark.exists());
}

fn exactly_the_limit_is_kept_and_one_byte_more_is_cut() {
    let place = RunnerFolder::new();
    for (written, cut) in [(CAPTURE_MAX, false), (CAPTURE_MAX + 1, true)] {
        let ran = place.run(&plain(&[&["head", "-c", &written.to_string(), "/dev/zero"]]));
        assert_eq!(ran.codes(), [0]);
        let Outcome::Done { stdout, .. } = ran.outcome() else { panic!() };
        assert_eq!((stdout.length, stdout.truncated), (CAPTURE_MAX, cut));
    }
}

fn stderr_is_cut_by_itself() {
    let command = format!("head -c {} /dev/zero >&2; echo fine", CAPTURE_MAX + 70_000);
    let ran = RunnerFolder::new().run(&plain(&[&["true"], &["sh", "-c", &command]]));
    assert_eq!(ran.codes(), [0, 0]);
    let Outcome::Done { stdout, stderr, .. } = ran.outcome() else { panic!() };
    assert_eq!((stderr[1].length, stderr[1].truncated), (CAPTURE_MAX, true));
    assert_eq!((stderr[0].length, stderr[0].truncated), (0, false));
    assert!(!stdout.truncated);
    assert_eq!(ran.text(), "fine\n");
}

fn an_endless_writer_ends_at_the_limit_and_takes_no_memory() {
    let place = RunnerFolder::new();
    let mut spec = plain(&[&["cat", "/dev/zero"]]);
    spec.limit = Duration::from_secs(5);
    let mut child = place.start(&spec);
    let mut report = vec![0; CAPTURE_MAX as usize];
    child.stdout.as_mut().unwrap().read_exact(&mut report).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 12 * 1024, "the runner took {kib} KiB");
    child.stdout.as_mut().unwrap().read_to_end(&mut report).unwrap();
    child.wait().unwrap();
    let outcome = Report::read(report.as_slice()).unwrap().outcome.unwrap();
    assert_eq!(outcome, Outcome::TimedOut { secs: 5, left: Vec::new() });
    assert_eq!(copy_stdout(report.as_slice(), &mut std::io::sink()).unwrap(), CAPTURE_MAX);
}

fn the_limit_ends_the_whole_group() {
    let place = RunnerFolder::new();
    let mut spec = plain(&[&["sh", "-c", "sleep 100 & echo $!; wait"], &["cat"]]);
    spec.limit = Duration::from_secs(4);
    let ran = place.run(&spec);
    assert_eq!(ran.outcome(), Outcome::TimedOut { secs: 4, left: Vec::new() });
    let sleeper = ran.text();
    assert_ne!(sleeper, "");
    wait_until("the sleeper is gone", || !alive(&sleeper));
}

fn a_background_child_does_not_hold_the_answer() {
    let ran = RunnerFolder::new().run(&plain(&[&["sh", "-c", "sleep 100 & echo $!"]]));
    assert_eq!(ran.codes(), [0]);
    let sleeper = ran.text();
    assert!(alive(&sleeper), "it is not ours to end");
    kill(&sleeper);
}

fn what_was_written_before_the_end_arrives_however_slow_the_reader() {
    let place = RunnerFolder::new();
    let pid = place.text("pid");
    // The first bytes fill the report's pipe, so the others stay in the stage's: it ends before anybody reads.
    let command = format!(
        "sleep 100 & echo $! > {pid}; head -c 10000 /dev/zero; sleep 0.3; head -c 60000 /dev/zero; : > {pid}.done"
    );
    let (report, end) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&report, 4096).unwrap();
    let mut child = place.command(&plain(&[&["sh", "-c", &command]])).stdout(end).spawn().unwrap();
    child.stdout = Some(std::os::fd::OwnedFd::from(report).into());
    wait_until("the stage has written everything", || place.path("pid.done").exists());
    std::thread::sleep(Duration::from_millis(700));
    let ran = Ran::of(child);
    kill(&fs::read_to_string(pid).unwrap());
    assert_eq!(ran.codes(), [0]);
    assert_eq!(ran.stdout().len(), 70_000);
}

fn a_runner_that_was_killed_leaves_a_report_without_outcome() {
    let place = RunnerFolder::new();
    let mut child = place.start(&plain(&[&["sh", "-c", "echo $$; exec sleep 100"]]));
    let mut report = vec![0; 8 + 7 + 2];
    child.stdout.as_mut().unwrap().read_exact(&mut report).unwrap();
    child.kill().unwrap();
    child.stdout.as_mut().unwrap().read_to_end(&mut report).unwrap();
    child.wait().unwrap();
    assert_eq!(Report::read(report.as_slice()).unwrap().outcome, None);
    let mut pid = Vec::new();
    copy_stdout(report.as_slice(), &mut pid).unwrap();
    let pid = String::from_utf8(pid).unwrap();
    assert!(alive(&pid), "{pid}");
    kill(&pid);
}

fn a_report_that_nobody_reads_stops_no_command() {
    let place = RunnerFolder::new();
    let mark = place.text("mark");
    let command = format!("echo some; head -c 300000 /dev/zero; : > {mark}");
    let mut child = place.command(&plain(&[&["sh", "-c", &command]])).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(!child.wait().unwrap().success());
    assert!(place.path("mark").exists());
}

fn another_spec_than_the_approved_one_is_refused() {
    let place = RunnerFolder::new();
    let mark = place.text("mark");
    let arguments = place.arguments(&plain(&[&["true"]]));
    place.arguments(&plain(&[&["touch", &mark]]));
    let mut command = std::process::Command::new(place.runner());
    let ran = Ran::of(command.args(arguments).stdout(Stdio::piped()).spawn().unwrap());
    let (at, kind, message) = ran.failure();
    assert_eq!((at, kind), (None, FailKind::BadSpec));
    assert!(message.contains("is not what was approved"), "{message}");
    assert!(!place.path("mark").exists());
}

fn a_spec_that_makes_no_sense_is_refused() {
    let place = RunnerFolder::new();
    let mut wrong = vec![plain(&[]), plain(&[&["true"]]), plain(&[&["true"]]), plain(&[&["true"]])];
    wrong[1].stages[0].program = "true".into();
    wrong[2].stages[0].argv.clear();
    wrong[3].env = vec![("-u".into(), "x".into())];
    wrong.push(plain(&vec![["true"].as_slice(); ostler_stages::STAGES_MAX + 1]));
    for spec in wrong {
        assert_eq!(place.run(&spec).failure().1, FailKind::BadSpec, "{spec:?}");
    }
    let longest = plain(&vec![["true"].as_slice(); ostler_stages::STAGES_MAX]);
    assert_eq!(place.run(&longest).codes(), vec![0; ostler_stages::STAGES_MAX]);
}
