//! The register of this user's instances: one `instance.json` per instance folder.
//!
//! The daemon writes its record once every door listens and removes it when it leaves; the command line
//! reads them all. A record alone proves nothing: pid and start time must still name a living process.

use std::io;
use std::path::{Path, PathBuf};

use ostler_api::Timestamp;
/// Who holds an instance: a lock says it, also where nobody answers.
pub(crate) use ostler_engine::{Claim, Claimed, claim};
use ostler_workspace::{Durable, read_small, replace};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;

/// Newer reads older; a record of a newer version is reported by name and left alone.
pub(crate) const RECORD_VERSION: u32 = 1;

const RECORD_FILE: &str = "instance.json";
/// 64 KiB: a record has a line for each door.
const RECORD_MAX: u64 = 64 << 10;
/// The beginning of the name of a record that is being written; the writer's pid follows.
const TEMPORARY: &str = "instance.json.";

/// What a running daemon says about itself on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InstanceRecord {
    pub(crate) version: u32,
    pub(crate) name: String,
    /// `up`, or the drop-in name that runs this engine.
    pub(crate) door: String,
    pub(crate) pid: u32,
    /// Field 22 of /proc/PID/stat: with the pid it names one process, even after the pid is reused.
    pub(crate) start_ticks: u64,
    pub(crate) started: Timestamp,
    /// The version of the program that runs.
    pub(crate) program: String,
    /// The native door's socket.
    pub(crate) native: Option<PathBuf>,
    pub(crate) doors: Vec<DoorRecord>,
}

/// One open door, as `up` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DoorRecord {
    pub(crate) name: String,
    /// Socket path or host:port.
    pub(crate) address: String,
    /// A command or sentence that says how to connect.
    pub(crate) connect: String,
}

/// An instance folder with what could be learnt about it.
#[derive(Clone, Debug)]
pub(crate) struct FoundInstance {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) record: Option<InstanceRecord>,
    /// Why there is a record that cannot be used.
    pub(crate) problem: Option<String>,
    /// The recorded daemon is alive.
    pub(crate) alive: bool,
}

impl InstanceRecord {
    /// Replaces the folder's record in one step, readable by the owner only.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        remove_temporary(dir);
        let temporary = dir.join(format!("{TEMPORARY}{}", std::process::id()));
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&dir.join(RECORD_FILE), &temporary, &text, Durable::No)
    }

    /// The record of a daemon that answers at its socket and has none that is true: its disk is full, or its folder was deleted.
    fn of_listener(paths: &Paths, name: &str) -> Option<Self> {
        let native = paths.native_socket(name);
        let Ok(ostler_door_rpc::Occupant::Listener(Some(pid))) = ostler_door_rpc::look(&native) else { return None };
        Some(Self {
            version: RECORD_VERSION,
            name: name.to_owned(),
            door: String::new(),
            pid,
            start_ticks: start_ticks(pid)?,
            started: Timestamp::now(),
            program: String::new(),
            native: Some(native),
            doors: Vec::new(),
        })
    }

    /// The folder's record; `None` when there is none. A newer version or a broken file is an error.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(RECORD_FILE);
        let text = match read_small(&path, RECORD_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        let broken = |what: String| io::Error::other(format!("{}: {what}", path.display()));
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let found: Version = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        if found.version > RECORD_VERSION {
            return Err(broken(format!(
                "written by a newer ostler (record version {}, this one reads up to {RECORD_VERSION})",
                found.version
            )));
        }
        serde_json::from_str(&text).map(Some).map_err(|error| broken(error.to_string()))
    }

    /// Removes the folder's record if it is still this process's own.
    pub(crate) fn remove_own(dir: &Path) -> io::Result<()> {
        match Self::read(dir)? {
            Some(record) if record.pid == std::process::id() => std::fs::remove_file(dir.join(RECORD_FILE)),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// When a process started, in clock ticks since boot; `None` if there is no such process (or only its zombie).
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name may hold spaces and parentheses; everything after the last one is plain.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    // state is field 3, starttime field 22: 18 fields lie between.
    fields.nth(18)?.parse().ok()
}

/// Removes what writers left that were killed in the middle. Only the holder of the instance writes.
fn remove_temporary(dir: &Path) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let left = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)));
    // One that stays is in nobody's way.
    left.for_each(|entry| drop(std::fs::remove_file(entry.path())));
}

/// Whether a socket of this name is that of a door beside the native one, and so no instance.
fn is_of_a_door(name: &str) -> bool {
    let of = |door| name.strip_suffix(door).is_some_and(|instance| instance.ends_with('-'));
    crate::daemon::door_names().chain([crate::daemon::JOIN_SOCKET]).any(of)
}

/// Every instance of this user, by name; `only` narrows to one. By their folders, and by the sockets of those whose folder
/// was deleted or cannot be written.
pub(crate) fn find(paths: &Paths, only: Option<&str>) -> io::Result<Vec<FoundInstance>> {
    let mut found = match in_state(paths, only) {
        Ok(found) => found,
        Err(error) => {
            let listening = listening(paths, only);
            return if listening.is_empty() { Err(error) } else { Ok(listening) };
        }
    };
    for instance in found.iter_mut().filter(|instance| !instance.alive) {
        if let Some(record) = InstanceRecord::of_listener(paths, &instance.name) {
            instance.record = Some(record);
            instance.alive = true;
        }
    }
    for other in listening(paths, only) {
        if !found.iter().any(|known| known.name == other.name) {
            found.push(other);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The instances that listen in the runtime folder.
fn listening(paths: &Paths, only: Option<&str>) -> Vec<FoundInstance> {
    let entries = std::fs::read_dir(paths.runtime_dir()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".sock")?.to_owned()));
    let wanted = names.filter(|name| {
        only.is_none_or(|only| only == name) && !is_of_a_door(name) && crate::paths::check_instance_name(name).is_ok()
    });
    wanted
        .filter_map(|name| {
            let record = InstanceRecord::of_listener(paths, &name)?;
            Some(FoundInstance {
                dir: paths.instance_dir(&name),
                name,
                record: Some(record),
                problem: None,
                alive: true,
            })
        })
        .collect()
}

/// The instances that have a folder.
fn in_state(paths: &Paths, only: Option<&str>) -> io::Result<Vec<FoundInstance>> {
    let told = |error: io::Error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => "; set OSTLER_STATE to a folder of yours",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{}: {error}{advice}", paths.instances_dir().display()))
    };
    let entries = match std::fs::read_dir(paths.instances_dir()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(told(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(told)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if crate::paths::check_instance_name(&name).is_err() || only.is_some_and(|only| only != name) {
            continue;
        }
        let dir = entry.path();
        // One unreadable record must not hide the other instances.
        let (record, problem) = match InstanceRecord::read(&dir) {
            Ok(record) => (record, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let alive = record.as_ref().is_some_and(InstanceRecord::is_alive);
        found.push(FoundInstance { name, dir, record, problem, alive });
    }
    Ok(found)
}

/// The sudo-proxy door of a running `ostler up`: the default instance's before others.
pub(crate) fn sudo_proxy_door(paths: &Paths) -> Option<PathBuf> {
    let mut running = find(paths, None).ok()?;
    running.retain(|found| found.alive);
    running.sort_by_key(|found| found.name != crate::paths::DEFAULT_INSTANCE);
    let records = running.into_iter().filter_map(|found| found.record).filter(|record| record.door == "up");
    let mut doors = records.flat_map(|record| record.doors);
    doors.find(|door| door.name == "sudo-proxy").map(|door| door.address.into())
}

/// What a person calls it: `ostler` is the one that nobody had to name.
pub(crate) fn called(name: &str) -> String {
    if name == crate::paths::DEFAULT_INSTANCE { "ostler".to_owned() } else { format!("`{name}`") }
}

/// What a command needs to mean this instance.
pub(crate) fn flag(name: &str) -> String {
    if name == crate::paths::DEFAULT_INSTANCE { String::new() } else { format!(" --instance {name}") }
}

/// A socket where nobody listens any more.
pub(crate) fn is_stale(socket: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    std::os::unix::net::UnixStream::connect(socket).is_err_and(refused)
}

/// How many processes live without a daemon, with a keeper that waits or without one, as far as that shows without
/// disturbing anybody: by the instance's own notes, and what tells a hosted process from a stranger with its pid.
pub(crate) fn kept(dir: &Path) -> usize {
    let noted = ostler_engine::noted(dir).into_iter();
    let hosted = noted.filter(|(id, pid, ticks)| is_hosted(*pid, *ticks, id)).map(|(_, pid, _)| pid);
    hosted.collect::<std::collections::HashSet<u32>>().len()
}

fn is_hosted(pid: u32, start_ticks: u64, id: &str) -> bool {
    let Ok(stat) = ostler_keeper::procfs::stat(pid) else { return false };
    let marked = || {
        use ostler_keeper::procfs::{Variable, variable};
        match variable(pid, ostler_keeper::COOKIE) {
            Variable::Is(key) => key == id.as_bytes(),
            // Somebody starts a program at this moment under the number that was written down.
            Variable::NotYet => true,
            Variable::Unset | Variable::Hidden => false,
        }
    };
    let below_keeper = || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", stat.parent)).unwrap_or_default();
        name.trim_end() == ostler_keeper::NAME
    };
    !stat.is_zombie() && (stat.start_ticks == start_ticks || below_keeper() || marked())
}

/// Whether a keeper that waits without a daemon holds anything: it is asked in a daemon's place. One that holds nothing
/// leaves with that; one that can not be asked counts as holding.
pub(crate) fn keeper_holds(dir: &Path) -> bool {
    if !keeper_answers(dir) {
        return false;
    }
    let Ok(Claimed::Free(_lease)) = claim(dir, Claim::IfFree) else { return true };
    let hello = ostler_keeper::Hello { program: concat!("ostler ", env!("CARGO_PKG_VERSION")).to_owned() };
    match ostler_keeper::connect(dir, hello, |_| {}) {
        Ok((keeper, held)) => {
            keeper.farewell();
            !held.is_empty()
        }
        Err(ostler_keeper::ConnectError::NoKeeper) => false,
        Err(_) => true,
    }
}

/// Somebody listens where the instance's keeper does.
pub(crate) fn keeper_answers(dir: &Path) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let try_connect = || -> rustix::io::Result<()> {
        let folder =
            rustix::fs::open(dir, rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let short = format!("/proc/self/fd/{}/keeper.sock", std::os::fd::AsRawFd::as_raw_fd(&folder));
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(short)?)
    };
    try_connect().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32, start_ticks: u64) -> InstanceRecord {
        InstanceRecord {
            version: RECORD_VERSION,
            name: "main".into(),
            door: "up".into(),
            pid,
            start_ticks,
            started: Timestamp::now(),
            program: "0".into(),
            native: None,
            doors: Vec::new(),
        }
    }

    #[test]
    fn a_record_survives_the_round_trip_and_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        record(7, 8).write(dir.path()).unwrap();
        assert_eq!(InstanceRecord::read(dir.path()).unwrap().unwrap().start_ticks, 8);
        let mode = std::fs::metadata(dir.path().join(RECORD_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_a_killed_writer_left_goes_with_the_next_record() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("instance.json.4711"), "{").unwrap();
        record(7, 8).write(dir.path()).unwrap();
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [RECORD_FILE]);
    }

    #[test]
    fn a_reused_pid_is_not_mistaken_for_the_daemon() {
        let own = std::process::id();
        let ticks = start_ticks(own).unwrap();
        assert!(record(own, ticks).is_alive());
        assert!(!record(own, ticks + 1).is_alive());
    }

    #[test]
    fn a_newer_record_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let newer = InstanceRecord { version: RECORD_VERSION + 1, ..record(1, 1) };
        newer.write(dir.path()).unwrap();
        let error = InstanceRecord::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("newer ostler"), "{error}");
    }

    #[test]
    fn only_its_own_record_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        record(1, 1).write(dir.path()).unwrap();
        InstanceRecord::remove_own(dir.path()).unwrap();
        assert!(InstanceRecord::read(dir.path()).unwrap().is_some());
        record(std::process::id(), 1).write(dir.path()).unwrap();
        InstanceRecord::remove_own(dir.path()).unwrap();
        assert!(InstanceRecord::read(dir.path()).unwrap().is_none());
    }
}
