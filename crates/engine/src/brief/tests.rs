use super::*;

const LONG: Duration = Duration::from_secs(30);

fn shell(script: &str, within: Duration) -> Brief {
    Brief::new("/bin/sh", &["-c", script], within)
}

/// Whether the process whose number is in this file has gone, some time soon.
fn goes(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let state = state();
        state.is_empty() || state.contains(") Z ")
    })
}

#[test]
fn a_helper_that_hangs_is_killed_with_all_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let mut brief = shell(&format!("trap '' TERM; sleep 300 & echo $! > {}; sleep 300", file.display()), LONG);
    brief.within = Duration::from_millis(500);
    brief.grace = Duration::from_millis(50);
    assert_eq!(Forker::here().run(&brief).unwrap().ended, Ended::TimedOut);
    assert!(goes(&file));
}

#[test]
fn what_a_helper_says_in_time_is_heard() {
    let here = Forker::here();
    assert_eq!(here.says("sh", &["-c", "echo out; echo err >&2; exit 3"], LONG).unwrap(), b"out\nerr\n");
    assert!(here.runs(Path::new("/bin/true"), "", LONG) && !here.runs(Path::new("/bin/false"), "", LONG));
    assert!(!here.runs(Path::new("/no/such"), "", LONG) && here.says("no-such", &[], LONG).is_none());
}

#[test]
fn a_helper_reads_what_it_is_given_and_nothing_else() {
    let mut brief = shell("cat; echo end >&2", LONG);
    brief.with_stderr = false;
    assert_eq!(Forker::here().run(&brief).unwrap().said, b"");
    brief.stdin = vec![b'x'; 300_000];
    brief.max = 1 << 20;
    assert_eq!(Forker::here().run(&brief).unwrap().said, brief.stdin);
}

#[test]
fn endless_output_is_dropped_or_ends_the_helper() {
    let mut brief = shell("exec cat /dev/zero", LONG);
    brief.beyond = Beyond::Ends;
    assert_eq!(Forker::here().run(&brief).unwrap().ended, Ended::TooMuch);
    brief = shell("head -c 3000000 /dev/zero; exit 7", LONG);
    let ran = Forker::here().run(&brief).unwrap();
    assert_eq!((ran.ended, ran.said.len()), (Ended::Exited(Exit::Code(7)), SAID_MAX));
}

#[test]
fn what_a_helper_leaves_running_is_not_waited_for_and_ends_where_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let mut brief = shell(&format!("sleep 300 & echo $! > {}; echo done", file.display()), LONG);
    brief.leaves_nothing = true;
    assert_eq!(Forker::here().run(&brief).unwrap().said, b"done\n");
    assert!(goes(&file));
}

#[test]
fn a_helper_leads_a_group_of_its_own() {
    let ran = Forker::here().run(&shell("cut -d' ' -f5 </proc/self/stat; echo $$", LONG)).unwrap();
    let text = String::from_utf8(ran.said).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], lines[1]);
}
