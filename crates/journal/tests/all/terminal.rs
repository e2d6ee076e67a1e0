//! Processes on a terminal: output through the relay pipe, input through the master.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, mpsc};

use crate::common::*;
use ostler_journal::{Hosted, Journal, Kind, PumpIo, PumpPty, Pumps};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

struct Terminal {
    child: Child,
    hosted: Hosted,
    journal: Arc<Journal>,
}

fn open() -> (OwnedFd, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    (nonblocking(master), name.into_string().unwrap())
}

impl Terminal {
    fn start(pumps: &Arc<Pumps>, dir: &Path, script: &str) -> Self {
        let (master, name) = open();
        let slave = || open_terminal(&name);
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", "sh", "-c", script])
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        let (relay_read, relay_write) = pipe();
        let journal = Journal::create(dir).unwrap();
        let pty = PumpPty { master, relay_read: nonblocking(relay_read), relay_write: nonblocking(relay_write) };
        let io = PumpIo { pty: Some(pty), ledger: Some(journal.ledger_reader().unwrap()), ..PumpIo::default() };
        let hosted = pumps.host(Arc::clone(&journal), io, false);
        Self { child, hosted, journal }
    }

    fn send(&self, bytes: &[u8]) {
        let (done, answer) = mpsc::channel();
        self.hosted.append_stdin(None, bytes.to_vec(), answer_to(done));
        answer.recv_timeout(LONG).unwrap().unwrap();
    }

    fn text(&self) -> String {
        text_of(&read_all(&self.journal), Kind::Stdout)
    }

    fn finish(&mut self) -> Vec<Frame> {
        let status = self.child.wait().unwrap();
        self.hosted.child_exited(status_of(status));
        wait_until("the exit", || self.journal.bounds().exit.is_some());
        read_all(&self.journal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminal_echoes_and_answers() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let script = "test -t 0 && echo terminal; read line; echo \"got:$line\"; exit 5";
    let mut terminal = Terminal::start(&pumps, &dir.path().join("j"), script);
    wait_until("the greeting", || terminal.text().contains("terminal\r\n"));
    terminal.send(b"hello\n");
    let frames = terminal.finish();
    assert_eq!(text_of(&frames, Kind::Stdout), "terminal\r\nhello\r\ngot:hello\r\n");
    assert_eq!(terminal.journal.bounds().exit.unwrap().how, ostler_story::Exit::Code(5));
}

#[test]
fn a_megabyte_through_a_terminal_arrives_whole() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let script = "stty raw; seq 1 150000";
    let mut terminal = Terminal::start(&pumps, &dir.path().join("j"), script);
    let wanted: String = (1..=150_000).map(|n| format!("{n}\n")).collect();
    assert!(text_of(&terminal.finish(), Kind::Stdout) == wanted);
}

#[test]
fn much_input_to_a_terminal_arrives_whole_and_in_order() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let script = "stty raw -echo; echo ready; sleep 0.2; head -c 200000 | sha256sum";
    let mut terminal = Terminal::start(&pumps, &dir.path().join("j"), script);
    wait_until("raw mode", || terminal.text().contains("ready"));
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 253) as u8).collect();
    terminal.send(&bytes);
    std::fs::write(dir.path().join("truth"), &bytes).unwrap();
    let truth = Command::new("sha256sum").arg(dir.path().join("truth")).output().unwrap();
    let truth = String::from_utf8(truth.stdout).unwrap();
    let sum = truth.split(' ').next().unwrap();
    assert!(text_of(&terminal.finish(), Kind::Stdout).contains(sum));
}

#[test]
fn closing_a_terminals_input_is_what_its_user_would_type() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let mut terminal = Terminal::start(&pumps, &dir.path().join("j"), "stty -echo; echo ready; cat; echo over");
    wait_until("the greeting", || terminal.text().contains("ready"));
    terminal.send(b"line\n");
    let (done, answer) = mpsc::channel();
    terminal.hosted.close_stdin(answer_to(done));
    answer.recv_timeout(LONG).unwrap().unwrap();
    let text = text_of(&terminal.finish(), Kind::Stdout);
    assert_eq!(text, "ready\r\nline\r\nover\r\n");
}

#[test]
fn what_a_former_daemon_left_in_the_relay_comes_first() {
    let (dir, pumps) = (tempfile::tempdir().unwrap(), pumps());
    let (master, name) = open();
    let slave = std::fs::File::options().read(true).write(true).open(&name).unwrap();
    let (relay_read, relay_write) = pipe();
    rustix::io::write(&relay_write, b"left behind, ").unwrap();
    let journal = Journal::create(&dir.path().join("j")).unwrap();
    let pty = PumpPty { master, relay_read: nonblocking(relay_read), relay_write: nonblocking(relay_write) };
    let io = PumpIo { pty: Some(pty), ..PumpIo::default() };
    let _hosted = pumps.host(Arc::clone(&journal), io, true);
    wait_until("the relay", || journal.bounds().out_end == 13);
    std::io::Write::write_all(&mut &slave, b"and on").unwrap();
    wait_until("the rest", || journal.bounds().out_end == 19);
    assert_eq!(text_of(&read_all(&journal), Kind::Stdout), "left behind, and on");
}
