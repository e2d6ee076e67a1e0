//! Starting a daemon in the background and waiting until it answers: what `up` and `restart` share.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Context;
use ostler_api::{Door, Empty, methods};

use crate::config::KEYS;
use crate::instances::{self, DoorRecord, FoundInstance, InstanceRecord};
use crate::output::{CommandError, visible};
use crate::paths::DEMO_INSTANCE;

/// Recovery of many journals takes a moment; a daemon that says nothing for this long will not.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(60);
/// Short enough not to be felt, long enough not to load the machine.
pub(super) const POLL: Duration = Duration::from_millis(5);
/// How much of the log is quoted when a start fails.
const QUOTE: u64 = 4096;

/// What is noted of a daemon that ended without a word.
const SILENT: &[u8] = b"it did not start, and did not say why\n";

/// How to start.
pub(super) struct Start {
    pub(super) drop_in: bool,
    pub(super) take_over: bool,
}

/// Starts the daemon and comes back when its doors answer.
pub(super) fn launch(context: &Context, start: &Start) -> Result<InstanceRecord, CommandError> {
    let dir = context.paths.prepare_instance(context.instance_name())?;
    let path = dir.join("daemon.log");
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = opened.map_err(|error| {
        CommandError::of_disk(&dir, &error)
            .unwrap_or_else(|| CommandError::failed(format!("{}: {error}", path.display())))
    })?;
    let (from, mut notes) = (log.metadata()?.len(), log.try_clone()?);
    let launched = match super::service::start(context, start.take_over, start.drop_in) {
        Ok(Some(pid)) => wait_until_ready(context, pid, || Ok(None)),
        Ok(None) => launch_here(context, start, log),
        Err(error) => Err(error),
    };
    launched.map_err(move |mut error| {
        let quote = quote(&path, from);
        if !quote.is_empty() {
            error.message = format!("{}:\n{quote}", error.message);
            return error;
        }
        // It says why in its log, where the log takes a word.
        notes.write_all(SILENT).err().and_then(|full| CommandError::of_disk(&dir, &full)).unwrap_or(error)
    })
}

/// In the background, as a process of nobody's service.
fn launch_here(context: &Context, start: &Start, log: File) -> Result<InstanceRecord, CommandError> {
    // Through /proc, so that a program replaced on disk does not change what is started half-way.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ostler").args(["up", "--foreground", "--detached", "--instance", context.instance_name()]);
    if start.drop_in {
        command.arg("--drop-in");
    }
    if start.take_over {
        command.arg("--take-over");
    }
    if context.instance_name() == DEMO_INSTANCE {
        // Its settings are its own; those that the user has exported are for the user's.
        for key in KEYS {
            command.env_remove(key.variable());
        }
    }
    // It stands elsewhere, where a relative path means another place.
    command.envs(crate::paths::made_absolute());
    // A folder that is busy because a daemon stands in it is a nuisance.
    command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn()?;
    wait_until_ready(context, child.id(), || child.try_wait())
}

fn wait_until_ready(
    context: &Context,
    pid: u32,
    mut ended: impl FnMut() -> io::Result<Option<ExitStatus>>,
) -> Result<InstanceRecord, CommandError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        if let Some(status) = ended()? {
            return Err(CommandError::failed(format!("ostler did not start ({status})"))
                .hint("check this machine: ostler doctor; see what happens: ostler up --foreground"));
        }
        let found = instances::find(&context.paths, Some(context.instance_name()))?.pop();
        let ours = |found: &FoundInstance| found.record.as_ref().is_some_and(|record| record.pid == pid);
        if let Some(found) = found.filter(ours)
            && let Ok(mut reached) = context.reach(found)
            && let Some(mut record) = reached.found.record
        {
            if record.doors.is_empty()
                && let Ok(status) = reached.client.call::<methods::InstanceStatus>(&Empty {})
            {
                // Its disk takes no record: what it says of itself is as good.
                let door = |door: Door| DoorRecord { name: door.name, address: door.address, connect: door.connect };
                record.doors = status.doors.into_iter().map(door).collect();
            }
            return Ok(record);
        }
        if Instant::now() > deadline {
            return Err(CommandError::failed(format!(
                "the daemon (pid {pid}) has not become ready in {READY_WITHIN:?}"
            ))
            .hint("it keeps trying; see: ostler logs --daemon -f"));
        }
        std::thread::sleep(POLL);
    }
}

/// Whether a daemon was started with `--drop-in`: its own command line says so.
pub(super) fn is_drop_in(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"--drop-in")
}

/// What the daemon wrote since it was started, safe to show.
fn quote(log: &Path, from: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(QUOTE))))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    text.lines().map(|line| format!("  {}", visible(line))).collect::<Vec<_>>().join("\n")
}
