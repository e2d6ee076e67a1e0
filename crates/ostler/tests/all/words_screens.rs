//! What stands on full screens, for [`words`](super::words): driven on a real terminal, read through a model of one.

use std::fmt::Write;

use crate::cli_kit::pty::Terminal;
use crate::cli_kit::{Home, wait_for};

/// Wide and tall enough that nothing is cut off which is not cut off everywhere.
const SIZE: (u16, u16) = (44, 180);

struct Screen {
    terminal: Terminal,
}

impl Screen {
    fn open(home: &Home, args: &[&str]) -> Self {
        Self { terminal: Terminal::sized(home, args, SIZE) }
    }

    fn text(&self) -> String {
        let mut model = vt100::Parser::new(SIZE.0, SIZE.1, 0);
        model.process(whole_pictures(&self.terminal.screen()).as_bytes());
        model.screen().contents()
    }

    /// Presses keys, and waits until all of this stands there.
    fn after(&mut self, keys: &str, until: &[&str]) -> String {
        self.terminal.type_in(keys);
        wait_for(&format!("{until:?} after {keys:?} in {}", self.text()), || {
            let text = self.text();
            until.iter().all(|words| text.contains(words))
        });
        self.text()
    }

    /// Presses keys, and waits until this is gone.
    fn away(&mut self, keys: &str, words: &str) {
        self.terminal.type_in(keys);
        wait_for(&format!("the end of {words:?} in {}", self.text()), || !self.text().contains(words));
    }
}

/// Without a picture that is still being drawn, as a terminal does that knows synchronized output.
fn whole_pictures(shown: &str) -> &str {
    match shown.rfind("\x1b[?2026h") {
        Some(begin) if !shown[begin..].contains("\x1b[?2026l") => &shown[..begin],
        _ => shown,
    }
}

/// Every full screen, each under what opens it. The daemon stays, so that somebody can ask for its ids.
pub(crate) fn all(home: &Home) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let mut put = |what: &str, text: String| told.push((what.to_owned(), tidy(&text)));
    let mut down = Screen::open(home, &[]);
    put("ostler, while nothing runs", down.after("", &["u  start it", "q  leave"]));
    down.after("q", &[]);
    drop(down);
    home.ok(&["up"]);
    let mut now = Screen::open(home, &[]);
    put("ostler, with nothing in it", now.after("", &["c starts an agent", "q quit"]));
    put("ostler: c", now.after("c", &["Start an agent", "Esc: back"]));
    now.away("\x1b", "Start an agent");
    home.ok(&["new", "echo", "--name", "rests", "-m", "hello"]);
    now.after("", &["rests", "│ > hello"]);
    home.start("build", "echo building; exec sleep 1000");
    home.start("over", "echo last words; exit 3");
    put("ostler", now.after("", &["rests", "building", "exited 3", "│ > hello", "│ hello", "Enter attach"]));
    put("ostler: ?", now.after("?", &["Keys", "q back"]));
    now.away("q", "q back");
    put("ostler: d", now.after("d", &["q back", "is not in a git repository"]));
    now.away("q", "q back");
    put("ostler: /buil", now.after("/buil", &["/buil_"]));
    now.away("\x1b", "/buil");
    put("ostler: y, where nothing is asked", now.after("y", &["nothing to approve here"]));
    put("ostler: what has ended", now.after("kk", &["│ last words", "r run again"]));
    put("ostler: Enter, on what has ended", now.after("\r", &["q back", "all of it"]));
    now.away("q", "q back");
    home.ok(&["new", "echo", "--name", "asks"]);
    home.ok(&["send", "asks", "ASK", "--no-wait"]);
    now.after("", &["1 waiting"]);
    put("ostler: a request", now.after("kkkkkk", &["approve? y/n"]));
    put("ostler: m, on a request", now.after("m", &["deny, because"]));
    now.away("\x1b", "deny, because");
    now.after("", &["not denied"]);
    put("ostler: n, on a request", now.after("n", &["denied by"]));
    now.after("\r", &["OPEN"]);
    home.ok(&["send", "asks", "QUESTION", "--no-wait"]);
    now.after("", &["1 waiting"]);
    put("ostler: a question", now.after("kkkkkk", &["number of a choice"]));
    now.after("q", &[]);
    drop(now);
    let mut attach = Screen::open(home, &["attach", "rests"]);
    put("ostler attach rests", attach.after("", &["type a prompt", "done"]));
    put("ostler attach rests: Ctrl-]", attach.after("\x1d", &["left rests"]));
    let mut build = Screen::open(home, &["run", "-t", "--name", "shown", "--", "sleep", "1000"]);
    put("ostler run -t --name shown -- sleep 1000", build.after("", &["leave it with"]));
    put("ostler run -t --name shown -- sleep 1000: Ctrl-]", build.after("\x1d", &["left shown"]));
    told
}

/// Without what is another one on every machine: which agents there are, how long a rule is, how much is blank.
fn tidy(text: &str) -> String {
    let agents = |line: &&str| line.contains("> Agent") || line.contains("not installed:");
    let me = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let me = String::from_utf8(me).unwrap();
    let (asked, answered) = (format!("asked by    {}", me.trim()), format!("by {} at", me.trim()));
    let text = text.replace(&asked, "asked by    dev").replace(&answered, "by dev at").replace("just now", "1s ago");
    let mut tidy = String::new();
    for line in text.lines().filter(|line| !agents(line) && !line.trim().is_empty()) {
        let rule = line.trim_end().trim_end_matches('─');
        let age = rule.strip_suffix(" now").map_or(rule.to_owned(), |rest| format!("{rest} 1s"));
        let _ = writeln!(tidy, "{age}");
    }
    tidy
}
