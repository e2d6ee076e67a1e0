//! The little of `/proc/PID` that tells one process from another. Reads into a buffer on the stack:
//! the poll loop may ask for `stat` of its own child; `environ` can block and is for helpers only.

use std::io::Read;
use std::time::{Duration, Instant};

use ostler_story::Exit;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// What `/proc/PID/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The short name.
    pub name: String,
    /// One letter.
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// The device of its controlling terminal; 0 without one.
    pub terminal: i32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
    flags: u64,
    pending: u64,
    /// Where its environment ends in its memory; 0 before it has one, and to who may not look.
    env_end: u64,
    exit_code: i32,
}

/// The kernel's mark of a process that is on its way out.
const EXITING: u64 = 0x4;
/// SIGKILL in a set of signals.
const KILL_BIT: u64 = 1 << 8;

impl Stat {
    /// A sleeping process, for tests.
    #[cfg(test)]
    pub(crate) fn fake(parent: u32, group: u32) -> Stat {
        let (state, start_ticks) = (b'S', 1);
        let (session, terminal, flags, pending, env_end, exit_code) = (0, 0, 0, 0, 0, 0);
        let name = "fake".into();
        Stat { name, state, parent, group, session, terminal, start_ticks, flags, pending, env_end, exit_code }
    }

    /// It is dead and only waits to be reaped.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// It is dead, or nothing can keep it from dying: a large one needs a while to give its memory back.
    pub fn is_dying(&self) -> bool {
        self.is_zombie() || self.flags & EXITING != 0 || self.pending & KILL_BIT != 0
    }

    /// How a zombie ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.is_zombie().then(|| sys::exit_of(self.exit_code))
    }
}

/// This moment, in clock ticks since boot as [`Stat::start_ticks`] counts them.
pub fn now_ticks() -> u64 {
    ticks(since_boot())
}

fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn ticks(since_boot: Duration) -> u64 {
    let per_second = rustix::param::clock_ticks_per_second();
    since_boot.as_secs() * per_second + u64::from(since_boot.subsec_nanos()) * per_second / 1_000_000_000
}

/// How far apart the clock that we read and the one that the kernel notes a birth by may be, and more: they are one.
const CLOCKS: Duration = Duration::from_micros(100);

/// Makes a process by `fork`, which says its number, and says with it when it was started, in clock ticks. A tick is a
/// hundred times longer than a fork, so that the clock mostly knows. Around the turn of a tick the system is asked: an entry
/// of `/proc` is made, read and thrown away, a tenth of what the keeper does for a child.
pub(crate) fn born<T>(fork: impl FnOnce() -> Result<(u32, T), Errno>) -> Result<(u32, u64, T), Errno> {
    let before = since_boot();
    let (pid, rest) = fork()?;
    let (first, last) = (ticks(before.saturating_sub(CLOCKS)), ticks(since_boot() + CLOCKS));
    // Our child is not reaped yet, so its state is there to be read even if it is dead.
    let start = if first == last { first } else { stat(pid).map_or(0, |stat| stat.start_ticks) };
    Ok((pid, start, rest))
}

/// Reads the state of one process.
pub fn stat(pid: u32) -> Result<Stat, Errno> {
    let path = format!("/proc/{pid}/stat");
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Fifty-two numbers of at most twenty digits.
    let mut buffer = [0; 1200];
    let length = rustix::io::read(&file, &mut buffer)?;
    parse(buffer.get(..length).unwrap_or_default()).ok_or(Errno::ILSEQ)
}

/// No honest chain of parents is this long, and a walk must end.
const ANCESTORS_MAX: usize = 512;

/// A process, its parent, and so on up to the first of all, or up to one of another user that the system does not show. Where
/// it cannot be said who comes next there is an error, and it ends: a process that is gone, one of our own that hides, too
/// many. Whoever takes that for the end has found nobody where somebody hides.
pub fn lineage(pid: u32) -> impl Iterator<Item = Result<(u32, Stat), Errno>> {
    let (mut next, mut left) = (Some(stat(pid).map(|stat| (pid, stat))), ANCESTORS_MAX);
    std::iter::from_fn(move || {
        let step = next.take()?;
        if let Ok((pid, stat)) = &step {
            left -= 1;
            next = match above(*pid, stat) {
                Some(_) if left == 0 => Some(Err(Errno::LOOP)),
                found => found,
            };
        }
        Some(step)
    })
}

/// The parent of a process; nothing above the first of all.
fn above(pid: u32, own: &Stat) -> Option<Result<(u32, Stat), Errno>> {
    let mut parent = own.parent;
    while parent > 1 {
        // Who started later has only the number of the parent, which is gone.
        if let Some(found) = stat(parent).ok().filter(|found| found.start_ticks <= own.start_ticks) {
            return Some(Ok((parent, found)));
        }
        match stat(pid) {
            Err(error) => return Some(Err(error)),
            Ok(now) if now.start_ticks != own.start_ticks => return Some(Err(Errno::SRCH)),
            // It was handed on.
            Ok(now) if now.parent != parent => parent = now.parent,
            Ok(_) => {
                let number = i32::try_from(parent).ok().and_then(Pid::from_raw);
                let is_anothers = number.is_some_and(|parent| test_kill_process(parent) == Err(Errno::PERM));
                return (!is_anothers).then_some(Err(Errno::ACCESS));
            }
        }
    }
    None
}

/// Largest environment that is looked at.
pub(crate) const ENVIRON_MAX: u64 = 4 * 1024 * 1024;
/// How long the moment between the start of a program and its environment may last: the loading of its interpreter.
const ENVIRON_WITHIN: Duration = Duration::from_millis(500);

/// What can be said of a variable of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// It has this value.
    Is(Vec<u8>),
    /// There is no such variable.
    Unset,
    /// The process runs a program whose environment the kernel does not show yet.
    NotYet,
    /// We may not look, or the process is gone.
    Hidden,
}

/// The value of a variable as the process was given it. Waits while a program starts: it has its name, and for a moment no
/// environment. May block for longer on a process whose memory is in use, so never in the poll loop.
pub fn variable(pid: u32, name: &str) -> Variable {
    if pid == std::process::id() {
        // What we may not be able to read of ourselves, see `shield`.
        use std::os::unix::ffi::OsStringExt;
        return std::env::var_os(name).map_or(Variable::Unset, |value| Variable::Is(value.into_vec()));
    }
    let deadline = Instant::now() + ENVIRON_WITHIN;
    loop {
        match look(pid, name) {
            Variable::NotYet if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            found => return found,
        }
    }
}

fn look(pid: u32, name: &str) -> Variable {
    // First: an environment that is there now is also in what is read after this.
    let is_there = stat(pid).is_ok_and(|stat| stat.env_end != 0);
    let mut environ = Vec::new();
    let read = std::fs::File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(ENVIRON_MAX).read_to_end(&mut environ));
    if read.is_err() {
        return Variable::Hidden;
    }
    if environ.is_empty() {
        return if !is_there && has_memory(pid) { Variable::NotYet } else { Variable::Unset };
    }
    value_of(&environ, name)
}

/// What a whole environment says of a variable.
pub(crate) fn value_of(environ: &[u8], name: &str) -> Variable {
    let mut entries = environ.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    value.map_or(Variable::Unset, |value| Variable::Is(value.to_vec()))
}

/// The user that a process acts as.
pub fn user(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Neither a thread of the kernel nor dead: those never have an environment.
fn has_memory(pid: u32) -> bool {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    pages.split(' ').next().is_some_and(|size| size != "0" && !size.is_empty())
}

/// The name is in parentheses and may itself contain parentheses and spaces.
fn parse(line: &[u8]) -> Option<Stat> {
    let line = String::from_utf8_lossy(line);
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // The field after the name is the third of the documented fifty-two.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        name: name.to_owned(),
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        terminal: field(7)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        flags: field(9)?.parse().ok()?,
        pending: field(31)?.parse().ok()?,
        env_end: field(51)?.parse().ok()?,
        exit_code: field(52).and_then(|code| code.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let mut line = String::from("42 (a) b (c) S 7 8 9");
        for number in 7..=52 {
            line.push_str(&format!(" {number}"));
        }
        let stat = parse(line.as_bytes()).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!((stat.parent, stat.group, stat.session), (7, 8, 9));
        assert_eq!((stat.start_ticks, stat.exit_code), (22, 52));
    }

    #[test]
    fn a_program_that_was_just_started_has_the_environment_it_was_given() {
        for _ in 0..200 {
            let mut child = std::process::Command::new("sleep").arg("30").env("MARK", "m").spawn().unwrap();
            // From the first moment on: as soon as the program has a name it is asked.
            while stat(child.id()).unwrap().name != "sleep" {}
            let found = variable(child.id(), "MARK");
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found, Variable::Is(b"m".to_vec()));
        }
    }

    #[test]
    fn an_empty_environment_is_known_to_be_empty() {
        let mut child = std::process::Command::new("/bin/sleep").arg("30").env_clear().spawn().unwrap();
        let found = variable(child.id(), "MARK");
        child.kill().unwrap();
        // There is nothing to read, or, while its memory is taken down, nothing to open.
        let dying = variable(child.id(), "MARK");
        assert!(matches!(dying, Variable::Unset | Variable::Hidden), "dying or dead: {dying:?}");
        child.wait().unwrap();
        assert_eq!(found, Variable::Unset);
        assert_eq!(variable(child.id(), "MARK"), Variable::Hidden, "gone");
    }

    #[test]
    fn who_was_killed_is_dying_before_it_is_dead() {
        let mut early = 0;
        for _ in 0..200 {
            let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
            assert!(!stat(child.id()).unwrap().is_dying());
            child.kill().unwrap();
            // The kernel takes the signal off its list just before it sets the mark.
            let dying = std::iter::repeat_with(|| stat(child.id()).unwrap()).find(Stat::is_dying).unwrap();
            early += usize::from(!dying.is_zombie());
            child.wait().unwrap();
        }
        assert!(early > 0, "only the dead were seen");
    }

    #[test]
    fn a_lineage_ends_with_the_first_of_all() {
        let all: Vec<_> = lineage(std::process::id()).collect::<Result<_, _>>().unwrap();
        assert_eq!(all.first().unwrap().0, std::process::id());
        assert!(all.windows(2).all(|pair| pair[0].1.parent == pair[1].0));
        assert!(all.last().unwrap().1.parent <= 1);
    }

    #[test]
    fn who_is_gone_or_too_deep_has_an_unknown_lineage_and_not_an_empty_one() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(lineage(child.id()).collect::<Vec<_>>(), [Err(Errno::NOENT)]);
        let script = "import os,sys\nfor _ in range(520):\n  p=os.fork()\n  if p: os.waitpid(p,0); os._exit(0)\nprint(os.getpid(),flush=True); sys.stdin.read()";
        let mut deep = std::process::Command::new("python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(deep.stdout.take().unwrap()), &mut line).unwrap();
        let last = lineage(line.trim().parse().unwrap()).last();
        drop(deep.stdin.take());
        deep.wait().unwrap();
        assert_eq!(last, Some(Err(Errno::LOOP)));
    }

    #[test]
    fn when_a_process_was_born_is_what_the_system_says() {
        let mut told = std::collections::HashSet::new();
        for _ in 0..200 {
            let (pid, start, mut child) = born(|| {
                let child = std::process::Command::new("true").spawn().unwrap();
                Ok((child.id(), child))
            })
            .unwrap();
            assert_eq!(start, stat(pid).unwrap().start_ticks);
            told.insert(start);
            child.wait().unwrap();
        }
        assert!(told.len() > 1, "all within one tick: {told:?}");
    }

    #[test]
    fn our_own_state_is_readable() {
        let stat = stat(std::process::id()).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(!stat.is_zombie());
    }
}
