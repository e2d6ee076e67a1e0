//! A person at a terminal: types, sees, resizes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{Home, OSTLER, SOON, kill};

pub(crate) struct Terminal {
    master: std::fs::File,
    /// Kept open, so that the terminal outlives the program, and to look at its modes.
    slave: OwnedFd,
    /// The modes that it had before anything ran on it.
    pub(crate) fresh: Termios,
    seen: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Runs ostler on a terminal of its own, which is its controlling terminal.
    pub(crate) fn run(home: &Home, args: &[&str]) -> Self {
        Self::run_with(home, args, |command| command)
    }

    /// The same on a terminal of another size.
    pub(crate) fn sized(home: &Home, args: &[&str], (rows, cols): (u16, u16)) -> Self {
        Self::begin(home, OSTLER, args, (rows, cols), |command| command)
    }

    /// A shell that runs what is typed, as jobs that can be stopped and continued.
    pub(crate) fn shell(home: &Home) -> Self {
        Self::begin(home, "sh", &["-i"], (24, 80), |command| command)
    }

    /// The same with other surroundings.
    pub(crate) fn run_with(home: &Home, args: &[&str], more: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        Self::begin(home, OSTLER, args, (24, 80), more)
    }

    fn begin(
        home: &Home,
        program: &str,
        args: &[&str],
        (rows, cols): (u16, u16),
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave =
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&master, size(rows, cols)).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        home.prepare(&mut command);
        command.args(["--ctty", "--wait", program]).args(args).stdin(end()).stdout(end()).stderr(end());
        let fresh = tcgetattr(&slave).unwrap();
        let child = more(&mut command).spawn().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (reader, sink) = (master.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut reader = std::fs::File::from(reader);
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { master: master.into(), slave, fresh, seen, child }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        tcsetwinsize(&self.master, size(rows, cols)).unwrap();
    }

    /// Everything shown so far.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Forgets what was shown.
    pub(crate) fn look_away(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// Waits until `text` has been shown.
    pub(crate) fn expect(&self, text: &str) {
        let deadline = Instant::now() + SOON;
        while !self.screen().contains(text) {
            assert!(Instant::now() < deadline, "waited in vain for {text:?}; the screen shows {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; gives back the exit code.
    pub(crate) fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return code(status);
            }
            assert!(Instant::now() < deadline, "it does not end; the screen shows {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }

    pub(crate) fn is_raw(&self) -> bool {
        !self.modes().local_modes.contains(rustix::termios::LocalModes::ICANON)
    }

    /// The pid of ostler itself, which `setsid` has forked or become, or a shell runs.
    pub(crate) fn pid(&self) -> u32 {
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(own)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        kill(self.pid(), 9);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
