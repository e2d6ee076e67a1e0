//! Terminal programs: every key to the child, leaving and coming back, and a terminal that is always put back.

use crate::cli_kit::pty::Terminal;
use crate::cli_kit::{Home, OSTLER, kill, number, wait_for};

const DETACH: &str = "\x1d";

#[test]
fn a_terminal_program_gets_a_terminal_of_our_size_and_every_key() {
    let home = Home::up();
    let mut terminal = Terminal::run(
        &home,
        &[
            "run",
            "-t",
            "--",
            "sh",
            "-c",
            "tty; stty size; stty raw -echo; echo is-'raw'; dd bs=1 count=3 2>/dev/null | od -An -tx1; exit 5",
        ],
    );
    terminal.expect("leave it with Ctrl-]");
    terminal.expect("/dev/pts/");
    terminal.expect("24 80");
    wait_for("raw mode", || terminal.is_raw());
    terminal.expect("is-raw");
    // Ctrl-C, Ctrl-Z and Ctrl-D are the child's.
    terminal.type_in("\x03\x1a\x04");
    terminal.expect("03 1a 04");
    assert_eq!(terminal.wait(), 5);
    assert!(!terminal.is_raw(), "the terminal was not put back");
}

#[test]
fn ctrl_bracket_leaves_and_attach_comes_back() {
    let home = Home::up();
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "shell", "--", "sh"]);
    terminal.expect("leave it with Ctrl-]");
    terminal.type_in("echo first-$((40+2))\n");
    terminal.expect("first-42");
    terminal.type_in(DETACH);
    assert_eq!(terminal.wait(), 0);
    terminal.expect("go back to it: ostler attach ");
    assert!(!terminal.is_raw());
    let pid = number(&home.process("shell")["pid"]);

    let mut again = Terminal::run(&home, &["attach", "shell"]);
    // What was on the screen is drawn again.
    again.expect("first-42");
    again.type_in("echo pid-$$\n");
    again.expect(&format!("pid-{pid}"));
    again.type_in("exit 6\n");
    assert_eq!(again.wait(), 6);
    assert!(!again.is_raw());
}

#[test]
fn the_detach_key_is_a_setting_and_is_shown() {
    let home = Home::new();
    std::fs::write(home.path("config.toml"), "attach.detach_key = \"ctrl-o\"\n").unwrap();
    home.ok(&["up"]);
    let mut terminal = Terminal::run(&home, &["run", "-t", "--", "cat"]);
    terminal.expect("leave it with Ctrl-O");
    wait_for("raw mode", || terminal.is_raw());
    terminal.type_in("\x0f");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn the_child_learns_of_a_new_size() {
    let home = Home::up();
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "sized", "--", "sh", "-c", script]);
    terminal.expect("ready");
    wait_for("raw mode", || terminal.is_raw());
    terminal.resize(30, 100);
    terminal.expect("30 100");
    terminal.type_in(DETACH);
    assert_eq!(terminal.wait(), 0);
    // Somebody else's terminal has another size; the program is told, and draws again.
    let again = Terminal::run(&home, &["attach", "sized"]);
    again.expect("23 80");
    again.expect("24 80");
}

#[test]
fn a_full_screen_program_is_repainted_and_its_modes_are_taken_back() {
    let home = Home::up();
    let script = r"printf 'before\n\033[?1049h\033[?2004h\033[?25l\033[2J\033[Hon-screen'; sleep 100";
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "tui", "--", "sh", "-c", script]);
    terminal.expect("on-screen");
    terminal.type_in(DETACH);
    assert_eq!(terminal.wait(), 0);
    for off in ["\x1b[?1049l", "\x1b[?2004l", "\x1b[?25h"] {
        terminal.expect(off);
    }
    let again = Terminal::run(&home, &["attach", "tui"]);
    again.expect("on-screen");
    let shown = again.screen();
    assert!(shown.contains("\x1b[?1049h") && !shown.contains("before"), "{shown:?}");
}

#[test]
fn the_terminal_is_put_back_when_the_client_is_told_to_end() {
    let home = Home::up();
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "cat", "--", "cat"]);
    terminal.expect("leave it");
    wait_for("raw mode", || terminal.is_raw());
    kill(terminal.pid(), 15);
    assert_eq!(terminal.wait(), 128 + 15);
    assert!(!terminal.is_raw());
    assert_eq!(home.process("cat")["state"], "running");
}

#[test]
fn the_terminal_is_put_back_when_the_child_dies() {
    let home = Home::up();
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "cat", "--", "cat"]);
    wait_for("raw mode", || terminal.is_raw());
    home.ok(&["kill", "cat", "--wait"]);
    assert_eq!(terminal.wait(), 128 + 15);
    assert!(!terminal.is_raw());
}

#[test]
fn a_stop_gives_the_terminal_back_and_going_on_takes_it_again() {
    let home = Home::up();
    let mut terminal = Terminal::shell(&home);
    terminal.type_in(&format!("{OSTLER} run -t --name shell -- sh\n"));
    wait_for("raw mode", || terminal.is_raw());
    kill(terminal.pid(), 20);
    wait_for("the terminal to be put back", || !terminal.is_raw());
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).unwrap();
    wait_for("the client to stop", || stat().contains(") T "));
    terminal.type_in("fg\n");
    wait_for("raw mode again", || terminal.is_raw());
    terminal.type_in("echo back-$((2+3))\n");
    terminal.expect("back-5");
}

#[test]
fn where_no_shell_could_continue_it_nothing_stops() {
    let home = Home::up();
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "shell", "--", "sh"]);
    terminal.expect("leave it");
    kill(terminal.pid(), 20);
    terminal.type_in("echo on-$((2+3))\n");
    terminal.expect("on-5");
}

#[test]
fn an_attached_terminal_outlives_the_daemon() {
    let home = Home::up();
    let mut terminal = Terminal::run(&home, &["run", "-t", "--name", "shell", "--", "sh"]);
    terminal.expect("leave it");
    terminal.type_in("echo one-$((1))\n");
    terminal.expect("one-1");
    kill(home.daemon_pid(), 9);
    terminal.expect("reconnected");
    terminal.type_in("echo two-$((1+1))\n");
    terminal.expect("two-2");
    terminal.type_in("exit 3\n");
    assert_eq!(terminal.wait(), 3);
}

#[test]
fn several_watchers_see_the_same() {
    let home = Home::up();
    let mut first = Terminal::run(&home, &["run", "-t", "--name", "shared", "--", "sh"]);
    first.expect("leave it");
    let second = Terminal::run(&home, &["attach", "shared"]);
    second.expect("leave it");
    wait_for("raw mode", || first.is_raw() && second.is_raw());
    first.type_in("echo both-$((7*6))\n");
    first.expect("both-42");
    second.expect("both-42");
}

#[test]
fn a_pipe_process_can_be_fed_from_elsewhere() {
    let home = Home::up();
    home.start("reader", "read a; echo got $a; read b; echo then $b");
    let said = home.run_with_input(&["attach", "reader"], b"one\ntwo\n");
    assert_eq!((said.code, said.out.as_str()), (0, "got one\nthen two\n"));
}

#[test]
fn attaching_with_nothing_to_say_does_not_end_the_childs_input() {
    let home = Home::up();
    home.start("reader", "read a; echo got $a");
    let mut looking = home.command(&["attach", "reader"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(home.process("reader")["state"], "running");
    home.run_with_input(&["attach", "reader"], b"late\n");
    assert_eq!(looking.wait().unwrap().code(), Some(0));
    assert_eq!(home.ok(&["logs", "reader"]), "got late\n");
}

#[test]
fn attach_to_what_has_ended_shows_its_end_and_code() {
    let home = Home::up();
    let id = home.start("over", "echo last words; exit 8");
    wait_for("its end", || home.process(&id)["state"] == "exited");
    let said = home.run(&["attach", &id]);
    assert_eq!((said.code, said.out.as_str()), (8, "last words\n"));
}

#[test]
fn a_terminal_program_that_has_ended_changes_no_terminal_any_more() {
    let home = Home::up();
    let draws = "printf '\\033[?1049h\\033[?1000hdrawn'; exit 3";
    assert_eq!(Terminal::run(&home, &["run", "-t", "--name", "gone", "--", "sh", "-c", draws]).wait(), 3);
    let mut terminal = Terminal::run(&home, &["attach", "gone"]);
    terminal.expect("drawn");
    assert_eq!(terminal.wait(), 3);
    assert!(!terminal.screen().contains("\x1b[?"), "{:?}", terminal.screen());
}

#[test]
fn a_mistake_in_the_settings_keeps_nobody_from_a_process() {
    let home = Home::up();
    std::fs::write(home.path("bad.toml"), "[sesions]\nx = 1\n").unwrap();
    let said = home.command(&["run", "--", "true"]).env("OSTLER_CONFIG", home.path("bad.toml")).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("ostler config check"), "{said:?}");
}

#[test]
fn down_asks_a_person_at_a_terminal() {
    let home = Home::up();
    home.start("sleeper", "sleep 100");
    let mut terminal = Terminal::run(&home, &["down"]);
    terminal.expect("1 process is running.");
    terminal.type_in("\n");
    assert_eq!(terminal.wait(), 5);
    let mut terminal = Terminal::run(&home, &["down"]);
    terminal.expect("[e]nd");
    terminal.type_in("e\n");
    assert_eq!(terminal.wait(), 0);
    terminal.expect("1 process ended");
}
