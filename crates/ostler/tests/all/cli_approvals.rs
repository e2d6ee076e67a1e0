//! The full-screen inbox on a real terminal: whatever happens to it, the terminal is left as it was.

use crate::cli_kit::Home;
use crate::cli_kit::pty::Terminal;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let home = Home::up();
    let hooks = home.path("hooks");
    std::fs::create_dir(&hooks).unwrap();
    let mut terminal = Terminal::run_with(&home, &["approvals"], |command| command.env("OSTLER_HOOKS", &hooks));
    terminal.expect("waiting");
    assert!(terminal.is_raw() && terminal.screen().contains(ENTER));
    std::fs::write(hooks.join("inbox.drawn.fault"), "1").unwrap();
    assert_eq!(terminal.wait(), 101);
    terminal.expect("a test wants it so");
    let screen = terminal.screen();
    let (entered, left) = (screen.rfind(ENTER), screen.rfind(LEAVE));
    assert!(entered < left && left < screen.find("panicked"), "the message is on the wrong screen: {screen:?}");
    assert!(screen.contains("\x1b[?25h"), "no cursor: {screen:?}");
    let (modes, fresh) = (terminal.modes(), &terminal.fresh);
    assert_eq!(modes.local_modes, fresh.local_modes);
    assert_eq!(modes.input_modes, fresh.input_modes);
    assert_eq!(modes.output_modes, fresh.output_modes);
    assert_eq!(modes.control_modes, fresh.control_modes);
    home.ok(&["down", "--kill"]);
}
