//! An ordinary user with a password and a sudo policy of its own, and a terminal to type it on.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ostler_stages::Spec;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Ran, RunnerFolder, wait_until};

/// What is typed in; it must never be found anywhere.
pub const PASSWORD: &str = "corkscrew-Velvet-9421";

/// Much longer than a key takes, much shorter than a test may.
const PRESS_AGAIN: Duration = Duration::from_secs(3);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A user who is removed at the end.
pub struct User {
    pub name: String,
}

impl User {
    /// A user with these lines in sudoers, where `USER` stands for the name. Needs root and sudo; skipped without, but
    /// never in CI.
    pub fn new(policy: &str) -> Option<User> {
        let sudo = fs::metadata("/etc/sudoers.d").is_ok() && Command::new("sudo").arg("-V").output().is_ok();
        if !rustix::process::geteuid().is_root() || !sudo {
            assert!(std::env::var_os("CI").is_none(), "CI must have sudo and run this as root");
            println!("skipped: only root can make users and policies");
            return None;
        }
        let name = format!("ost{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let user = User { name };
        // Somebody else may be writing the system's files, which then are locked for a moment.
        wait_until("the user is made", || {
            Command::new("useradd").args(["-M", "-d", "/", "-s", "/bin/sh", &user.name]).status().unwrap().success()
        });
        wait_until("the password is set", || {
            let mut chpasswd = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
            writeln!(chpasswd.stdin.take().unwrap(), "{}:{PASSWORD}", user.name).unwrap();
            chpasswd.wait().unwrap().success()
        });
        let path = user.policy();
        // sudo reads the directory at any moment: a file appears there whole, or not at all (names with a dot are not read).
        let draft = format!("{path}.new");
        fs::write(&draft, policy.replace("USER", &user.name) + "\n").unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(Command::new("visudo").args(["-cqf", &draft]).status().unwrap().success(), "{policy}");
        fs::rename(&draft, path).unwrap();
        Some(user)
    }

    fn policy(&self) -> String {
        format!("/etc/sudoers.d/{}", self.name)
    }

    /// What sudo remembers of this user.
    pub fn tickets(&self) -> Option<Vec<u8>> {
        self.ticket_files().iter().find_map(|path| fs::read(path).ok())
    }

    /// Named by the user, or by its number in later releases.
    fn ticket_files(&self) -> Vec<String> {
        let id = Command::new("id").args(["-u", &self.name]).output().unwrap().stdout;
        let id = String::from_utf8(id).unwrap();
        [self.name.as_str(), id.trim()].iter().map(|name| format!("/run/sudo/ts/{name}")).collect()
    }

    /// A program as this user.
    fn command(&self, program: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &self.name, "--regid", &self.name, "--init-groups"]).args(program);
        command.env_clear().env("PATH", ostler_stages::PATH).env("USER", &self.name).env("LOGNAME", &self.name);
        command.env("HOME", "/").env("TERM", "xterm").current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a spec without a terminal.
    pub fn run(&self, place: &RunnerFolder, spec: &Spec) -> Ran {
        let runner = place.text("runner");
        let mut command = self.command(&["setsid", "--wait", &runner]);
        Ran::of(command.args(place.arguments(spec)).stdin(Stdio::null()).spawn().unwrap())
    }

    /// What this user hears who opens a file.
    pub fn opens(&self, path: &str) -> String {
        let mut command = self.command(&["sh", "-c", "exec 3<>\"$1\"", "sh", path]);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    }

    /// A program of this user that has this file open.
    pub fn holding(&self, path: &str) -> Child {
        let script = "exec 3<>\"$1\" && echo open && exec sleep 60";
        let mut command = self.command(&["sh", "-c", script, "sh", path]);
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut said = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        child
    }

    /// Starts a spec on a terminal that the runner's session owns.
    pub fn start(&self, place: &RunnerFolder, spec: &Spec) -> Terminal {
        self.start_after(place, spec, |_| {})
    }

    /// The same, after something was done about the terminal.
    pub fn start_after(&self, place: &RunnerFolder, spec: &Spec, first: impl FnOnce(&str)) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let name = name.into_string().unwrap();
        assert!(Command::new("chown").args([&self.name, &name]).status().unwrap().success());
        first(&name);
        let runner = place.text("runner");
        let mut command = self.command(&["setsid", "--ctty", "--wait", &runner]);
        let child = command.args(place.arguments(spec)).stdin(slave).spawn().unwrap();
        drop(command);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (reader, sink) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut reader = fs::File::from(reader);
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Terminal { name, master: master.into(), shown, child: Some(child) }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.policy());
        let tickets = self.ticket_files();
        for _ in 0..50 {
            let gone = Command::new("userdel").args(["-f", &self.name]).stderr(Stdio::null()).status();
            if gone.is_ok_and(|status| status.success()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        // Last: a sudo that was on its way out may have written one.
        for path in tickets {
            let _ = fs::remove_file(path);
        }
    }
}

/// A person at the terminal of a runner.
pub struct Terminal {
    pub name: String,
    master: fs::File,
    shown: Arc<Mutex<Vec<u8>>>,
    child: Option<Child>,
}

impl Terminal {
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until sudo has asked this many times.
    pub fn asked(&mut self, times: usize) {
        wait_until("sudo asks", || {
            assert!(!self.has_ended(), "the runner has ended; the screen shows {:?}", self.screen());
            self.questions() >= times
        });
    }

    pub fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Presses a key until `done`: sudo loses a signal that comes after its question and before it reads.
    pub fn press_until(&mut self, key: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let mut pressed = None::<Instant>;
        wait_until("the key has worked", || {
            if done(self) {
                return true;
            }
            if pressed.is_none_or(|at| at.elapsed() > PRESS_AGAIN) {
                self.type_in(key);
                pressed = Some(Instant::now());
            }
            false
        });
    }

    /// How often sudo has asked.
    pub fn questions(&self) -> usize {
        self.screen().matches("password for").count()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Kills the runner, which `setsid` has forked or become.
    pub fn kill_runner(mut self) {
        let child = self.child.as_mut().unwrap();
        let id = child.id();
        let forked = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
        let runner = if name.trim() == "setsid" { forked.trim().to_owned() } else { id.to_string() };
        super::kill(&runner);
    }

    /// Waits for the end. What was typed must be neither on the screen nor in the report.
    pub fn finish(mut self) -> Ran {
        let ran = Ran::of(self.child.take().unwrap());
        let everything = format!("{}{}{}", self.screen(), String::from_utf8_lossy(&ran.report), ran.stderr);
        assert!(!everything.contains(PASSWORD), "the password got out: {everything:?}");
        ran
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
