//! Calls of sudo. The program is an absolute path behind `--`, so it can be neither an option nor an assignment; the
//! assignments come before `--`, because behind it sudo would take the first of them for the command.

use std::fs;
use std::io::{PipeReader, pipe};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::PATH;
use crate::child::{Child, timespec};
use crate::failure::{Failure, Stop};
use crate::outcome::FailKind;
use crate::setenv::{self, Setenv};
use crate::spec::{Spec, Stage};
use crate::terminal::Terminal;

const SET_USER_ID: u32 = 0o4000;

/// What sudo says last, in this language, when it must not ask; the second is the wording of other releases.
const NOT_ASKED: [&[u8]; 2] = [b"sudo: a password is required", b"sudo: interactive authentication is required"];

/// Longer than any list of rules that a person wrote.
const LISTING_MAX: usize = 1024 * 1024;

/// sudo asks nobody before it forgets.
const FORGET_WAIT: Duration = Duration::from_secs(2);

/// The sudo of this machine.
#[derive(Clone)]
pub(crate) struct Sudo {
    path: PathBuf,
}

impl Sudo {
    /// The first in the fixed path, and only if it is root's and set-uid.
    pub(crate) fn find() -> Result<Self, Failure> {
        Self::find_in(PATH)
    }

    fn find_in(path: &str) -> Result<Self, Failure> {
        let none = |message| Err(Failure::new(FailKind::NoSudo, message));
        let candidates = path.split(':').map(|folder| Path::new(folder).join("sudo"));
        for path in candidates {
            let Ok(file) = fs::metadata(&path) else { continue };
            if file.uid() != 0 || file.permissions().mode() & SET_USER_ID == 0 || !file.is_file() {
                return none(format!("{} is not a set-uid program of root, so it is not used", path.display()));
            }
            return Ok(Self { path });
        }
        none(format!("there is no sudo in {path}: install it, or ask for the command unprivileged"))
    }

    /// sudo with a clean environment of its own. The language is fixed because its words are compared.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0("sudo").args(options).current_dir("/").env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
        for name in ["HOME", "USER", "LOGNAME", "TERM"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The call that runs a stage.
    pub(crate) fn stage(&self, option: &str, spec: &Spec, stage: &Stage) -> Command {
        let mut command = self.command(&[option]);
        command.args(spec.env.iter().map(|(key, value)| format!("{key}={value}")));
        command.arg("--").arg(&stage.program).args(stage.argv.iter().skip(1)).current_dir(&spec.cwd);
        command
    }

    /// Whether sudo, called with these options, says yes.
    fn agrees(&self, options: &[&str], stage: Option<&Stage>, check: &Check) -> Result<bool, Stop> {
        let mut command = self.command(options);
        if let Some(stage) = stage {
            command.arg("--").arg(&stage.program).args(stage.argv.iter().skip(1));
        }
        let started = Child::start(&mut command, check.group);
        let mut child = started.map_err(|error| Failure::system("starting sudo", error))?;
        finish(&mut child, check.deadline).map(|code| code == 0)
    }

    /// Makes a group and lends it the terminal, before the sudo that asks is born into it: one that asks from the
    /// background shows its question while keys still go elsewhere. The group exists for as long as the child is kept,
    /// ended or not; what the child does is of no matter.
    pub(crate) fn take(&self, terminal: &Terminal) -> Result<Child, Failure> {
        let started = Child::start(&mut self.command(&["-h"]), None);
        let holder = started.map_err(|error| Failure::system("starting sudo", error))?;
        terminal.lend(holder.group())?;
        Ok(holder)
    }

    /// Asks for the password on the terminal that was lent to `group`, and leaves sudo remembering it there.
    pub(crate) fn authenticate(&self, terminal: &Terminal, group: Pid, deadline: Instant) -> Result<(), Stop> {
        let mut command = self.command(&["-v"]);
        command.stdout(terminal.writer()?).stderr(terminal.writer()?);
        let started = Child::start(&mut command, Some(group));
        let mut child = started.map_err(|error| Failure::system("starting sudo", error))?;
        if finish(&mut child, deadline)? == 0 {
            return Ok(());
        }
        let why = "sudo let nobody in on the terminal: the password was wrong or was not given, or sudoers does not \
                   know the user; nothing was run";
        Err(Failure::new(FailKind::NotAuthenticated, why).into())
    }

    /// Makes sure that every stage is allowed and none will ask, before the first begins.
    pub(crate) fn check(&self, spec: &Spec, check: &Check) -> Result<(), Stop> {
        if !self.agrees(&["-n", "-v"], None, check)? {
            return Err(match check.group {
                Some(_) => Failure::new(FailKind::NotRemembered, NOT_REMEMBERED).into(),
                None => password_needed().into(),
            });
        }
        for (index, stage) in spec.stages.iter().enumerate() {
            if !self.agrees(&["-n", "-l"], Some(stage), check)? {
                let program = stage.program.display();
                let why = format!("sudo does not allow {program} with these arguments; nothing was run");
                return Err(Failure::new(FailKind::NotPermitted, why).at(index).into());
            }
        }
        self.check_assignments(spec, check)
    }

    /// Makes sure that sudo does not take the variables of one stage and refuse those of the next.
    fn check_assignments(&self, spec: &Spec, check: &Check) -> Result<(), Stop> {
        if spec.env.is_empty() {
            return Ok(());
        }
        let listing = self.listing(check)?;
        if setenv::of(&listing) == Setenv::Alike || setenv::is_let_in(spec, &listing) {
            return Ok(());
        }
        Err(Failure::new(FailKind::NotPermitted, SETENV_DEPENDS).into())
    }

    /// Everything that sudo allows, in its long form.
    fn listing(&self, check: &Check) -> Result<String, Stop> {
        let no_pipe = |error| Failure::system("making a pipe", error);
        let (out, out_end) = pipe().map_err(no_pipe)?;
        let mut command = self.command(&["-n", "-ll"]);
        command.stdout(out_end);
        let started = Child::start(&mut command, check.group);
        // The end of the pipe that is left to us.
        drop(command);
        let mut child = started.map_err(|error| Failure::system("starting sudo", error))?;
        let text = read_until(out, check.deadline)?;
        finish(&mut child, check.deadline)?;
        Ok(text)
    }

    /// Whether a run that ended like this was sudo's refusal to run anything without a password.
    pub(crate) fn wanted_password(&self, code: i32, stderr: &[u8], deadline: Instant) -> Result<bool, Stop> {
        // A command may say the same words, so sudo is asked once more.
        let last = stderr.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let said = code == 1 && NOT_ASKED.contains(&last);
        Ok(said && !self.agrees(&["-n", "-v"], None, &Check { group: None, deadline })?)
    }

    /// Kills a group of processes of root's, where the policy allows that without a password. One that does not is only asked,
    /// which it does not record as an attempt. Whether it says to have done so.
    pub(crate) fn kill_group(&self, group: Pid, deadline: Instant) -> bool {
        let found = PATH.split(':').map(|folder| Path::new(folder).join("kill")).find(|path| path.is_file());
        let Some(program) = found else { return false };
        let argv = ["kill", "-KILL", "--", &format!("-{}", group.as_raw_nonzero())].map(str::to_owned).to_vec();
        let stage = Stage { program, argv, seal: None };
        let check = Check { group: None, deadline };
        let agrees = |options: &[&str]| self.agrees(options, Some(&stage), &check).unwrap_or(false);
        agrees(&["-n", "-l"]) && agrees(&["-n"])
    }

    /// No password stays remembered for this terminal.
    pub(crate) fn forget(&self, check: &Check) {
        // Also when the limit is over: that is no reason to remember one.
        let check = Check { group: check.group, deadline: check.deadline.max(Instant::now() + FORGET_WAIT) };
        // It would outlive neither the session nor the time-out of sudo, so a failure changes nothing.
        let _ = self.agrees(&["-k"], None, &check);
    }
}

/// Where and how long sudo may be asked about the policy.
pub(crate) struct Check {
    /// The group that the terminal was lent to, if there is one.
    pub(crate) group: Option<Pid>,
    pub(crate) deadline: Instant,
}

const NOT_REMEMBERED: &str = "the sudo policy remembers no password (timestamp_timeout=0), which a pipeline needs \
                              because it asks once for all stages; run the stages one by one; nothing was run";

const SETENV_DEPENDS: &str = "sudoers lets some commands set variables and others not (SETENV), and sudo does not say \
                              beforehand which of these stages it would refuse; run the stages one by one, or without \
                              variables; nothing was run";

pub(crate) fn password_needed() -> Failure {
    let why = "sudo needs a password and there is no terminal to ask on; approve it from a terminal (`ostler approvals`), \
               or allow it in sudoers with NOPASSWD; nothing was run";
    Failure::new(FailKind::PasswordNeeded, why)
}

/// Reads to the end, or as much as any policy says.
fn read_until(pipe: PipeReader, deadline: Instant) -> Result<String, Stop> {
    let mut bytes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Stop::TimedOut(Vec::new()));
        }
        match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timespec(left))) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(Failure::system("waiting for sudo", error).into()),
        }
        let mut buffer = [0; 4096];
        match rustix::io::read(&pipe, &mut buffer) {
            Ok(count) if count > 0 && bytes.len() < LISTING_MAX => bytes.extend(buffer.iter().take(count)),
            Err(Errno::INTR) => {}
            // What is cut off is not understood, which is told like a rule that differs.
            _ => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

fn finish(child: &mut Child, deadline: Instant) -> Result<i32, Stop> {
    match child.wait(deadline)? {
        Some(code) => Ok(code),
        None => {
            // Gives the terminal back in the state that sudo found it in.
            child.signal(Signal::TERM);
            Err(Stop::TimedOut(Vec::new()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Elevate;

    fn refusal(path: &str) -> String {
        let failure = Sudo::find_in(path).err().unwrap();
        assert_eq!(failure.kind, FailKind::NoSudo);
        failure.message
    }

    #[test]
    fn a_sudo_that_is_not_set_uid_root_is_refused_even_if_a_good_one_follows() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sudo"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(dir.path().join("sudo"), fs::Permissions::from_mode(0o755)).unwrap();
        let message = refusal(&format!("{}:{PATH}", dir.path().display()));
        assert!(message.contains("is not a set-uid program of root"), "{message}");
    }

    #[test]
    fn a_missing_sudo_is_told_with_the_way_on() {
        assert!(refusal("/nowhere").contains("install it"));
    }

    #[test]
    fn assignments_stand_before_the_dashes_and_the_program_behind_them() {
        let sudo = Sudo { path: "/usr/bin/sudo".into() };
        let argv = ["-x", "-u", "A=b"].map(str::to_owned).to_vec();
        let stage = Stage { program: "/bin/p".into(), argv, seal: None };
        let env = vec![("TZ".to_owned(), "a b".to_owned())];
        let spec = Spec::new(vec![stage.clone()], env, Duration::ZERO, Elevate::NeverAsk);
        let command = sudo.stage("-n", &spec, &stage);
        let given: Vec<_> = command.get_args().collect();
        assert_eq!(given, ["-n", "TZ=a b", "--", "/bin/p", "-u", "A=b"]);
    }
}
