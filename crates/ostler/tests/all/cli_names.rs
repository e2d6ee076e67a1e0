//! Who gave a name reads that name: in what is said, and in what to type next. Ids are for what has none.

use crate::cli_kit::hooked::Hooked;
use crate::cli_kit::pty::Terminal;
use crate::cli_kit::{CommandOutput, Home, catches, wait_for};

/// A command that speaks of something with a name speaks of it by that name, and by nothing else.
fn by_name(home: &Home, ids: &[&str], args: &[&str], words: &str) -> CommandOutput {
    let said = home.run(args);
    let text = format!("{}{}", said.out, said.err);
    assert!(text.contains(words), "ostler {args:?}: no {words:?} in {text}");
    let id = ids.iter().find(|id| text.contains(&id[..6]));
    assert_eq!(id, None, "ostler {args:?}: an id in {text}");
    said
}

#[test]
fn a_process_with_a_name_is_spoken_of_by_it() {
    let home = Home::up();
    let id = home.start("build", "sleep 1000");
    let ids = [id.as_str()];
    by_name(&home, &ids, &["forget", &id], "build is still running\n  end it first: ostler kill build --wait");
    by_name(&home, &ids, &["logs", &id, "--screen"], "see its output: ostler logs build");
    by_name(&home, &ids, &["set", &id, "--model", "x"], "ostler set build --name NAME");
    by_name(&home, &ids, &["set", &id, "--name", "web site"], "build  name: build -> web site");
    by_name(&home, &ids, &["forget", &id], "'web site' is still running");
    by_name(&home, &ids, &["kill", &id, "--wait"], "'web site' ended");
    by_name(&home, &ids, &["kill", &id], "'web site' already ended");
    by_name(&home, &ids, &["wait", &id], "'web site': ended by SIGTERM");
    by_name(&home, &ids, &["forget", &id], "'web site' deleted");
    // What has no name is spoken of by its id.
    let bare = home.ok(&["run", "-d", "--", "sleep", "1000"]).trim().to_owned();
    assert_eq!(home.ok(&["kill", &bare, "--wait"]), format!("{bare} ended\n"));
}

#[test]
fn a_session_with_a_name_is_spoken_of_by_it() {
    let home = Home::up();
    let made = home.run(&["new", "echo", "--name", "fix"]);
    assert!(made.out.contains("send a prompt:  ostler send fix 'hello'"), "{made:?}");
    assert!(made.out.contains("follow it:      ostler watch fix"), "{made:?}");
    let id = home.json(&["sessions"])[0]["id"].as_str().unwrap().to_owned();
    let ids = [id.as_str()];
    by_name(&home, &ids, &["attach", &id], "fix is a session");
    by_name(&home, &ids, &["tui", &id], "ostler attach fix");
    by_name(&home, &ids, &["forget", &id], "fix is not closed\n  close it first: ostler close fix");
    by_name(&home, &ids, &["send", &id, "ASK for it", "--no-wait"], "follow it: ostler watch fix --from");
    wait_for("a request", || home.json(&["approvals", "--list"])[0]["id"].is_string());
    by_name(&home, &ids, &["interrupt", &id], "fix interrupted; continue with: ostler send fix '...'");
    by_name(&home, &ids, &["wait", &id], "fix: interrupted");
    by_name(&home, &ids, &["interrupt", &id], "fix was not running");
    by_name(&home, &ids, &["close", &id], "fix closed; to read it: ostler export fix");
    by_name(
        &home,
        &ids,
        &["send", &id, "x"],
        "fix is closed\n  continue it: ostler resume fix; read it: ostler watch fix",
    );
    by_name(&home, &ids, &["export", &id, "-o", "x.md"], "ostler: fix is in x.md");
    by_name(&home, &ids, &["forget", &id], "fix deleted");
}

#[test]
fn who_leaves_is_told_the_name_to_come_back_to() {
    let home = Home::up();
    home.ok(&["new", "echo", "--name", "talk"]);
    let mut terminal = Terminal::run(&home, &["attach", "talk"]);
    terminal.expect("session talk with echo");
    terminal.type_in("\x1d");
    assert_eq!(terminal.wait(), 0);
    terminal.expect("left talk; go back to it: ostler attach talk");
    let mut watch = Terminal::run(&home, &["watch", "talk"]);
    wait_for("the watch", || !home.json(&["sessions"])[0]["id"].is_null());
    wait_for("the watch listens", || catches(watch.pid(), 2));
    watch.type_in("\x03");
    watch.expect("left talk; follow it again: ostler watch talk --from");
    assert_eq!(watch.wait(), 130);
    let mut run = Terminal::run(&home, &["run", "-d", "--name", "web", "--", "sleep", "1000"]);
    assert_eq!(run.wait(), 0);
    run.expect("go back to it: ostler attach web");
    let mut logs = Terminal::run(&home, &["logs", "-f", "web"]);
    wait_for("it listens", || catches(logs.pid(), 2));
    logs.type_in("\x03");
    logs.expect("continue with: ostler logs web -f --from");
    assert_eq!(logs.wait(), 130);
}

/// The key counts from the moment in which one reads of it, whatever the machine is doing.
#[test]
fn a_key_that_is_pressed_when_the_banner_stands_there_is_taken() {
    let home = Home::up();
    for turn in 0..8 {
        let name = format!("shell{turn}");
        let mut terminal = Terminal::run(&home, &["run", "-t", "--name", &name, "--", "sh", "-c", "sleep 1000"]);
        terminal.expect("leave it with Ctrl-]");
        assert!(terminal.is_raw(), "keys still go to the line discipline");
        terminal.type_in("\x1d");
        assert_eq!(terminal.wait(), 0);
        assert!(!terminal.screen().contains("^]"), "it was echoed: {:?}", terminal.screen());
        let mut again = Terminal::run(&home, &["attach", &name, "--read-only"]);
        again.expect("leave it with Ctrl-]");
        again.type_in("\x1d");
        assert_eq!(again.wait(), 0);
    }
}

/// Which disk, and what to do: nobody is told "No space left on device".
#[test]
fn a_disk_that_takes_nothing_is_named_with_what_to_do() {
    let hooked = Hooked::up();
    let home = &hooked.home;
    home.ok(&["new", "echo", "--name", "talk"]);
    let state = home.path("state");
    for (errno, words, hint) in [(28, "the disk is full", "df -h"), (5, "the disk reports errors", "ostler doctor")] {
        let fault = home.path("hooks/derived.write.fault");
        std::fs::write(&fault, errno.to_string()).unwrap();
        let said = home.run(&["send", "talk", "hello"]);
        std::fs::remove_file(&fault).unwrap();
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(&format!("the prompt was not sent: {words} ({}", state.display())), "{said:?}");
        assert!(said.err.contains(hint) && !said.err.contains("os error"), "{said:?}");
        let fault = home.path("hooks/spawn.prepare.fault");
        std::fs::write(&fault, errno.to_string()).unwrap();
        let said = home.run(&["run", "-d", "--", "true"]);
        std::fs::remove_file(&fault).unwrap();
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(&format!("not started: {words} ({}", state.display())), "{said:?}");
    }
    assert_eq!(home.run(&["send", "talk", "hello"]).code, 0, "and with room it works");
}
