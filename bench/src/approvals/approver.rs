//! A person who decides quickly and at random, on a terminal of their own: this same program again, because only a process with
//! a controlling terminal that ostler does not host may decide. Prints what it was told, one line per decision.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ostler_api::client::{Client, ClientError};
use ostler_api::{
    ApprovalInfo, ApprovalKind, ApprovalListParams, DecideParams, FeedFollowParams, FeedKind, ShownParams, Verdict,
    methods,
};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::args::Args;
use crate::instance::Instance;
use crate::rng::Rng;

use super::asker::IGNORED;
use super::daemon::native;

/// Starts an approver on a terminal of its own.
pub(crate) fn start(instance: &Instance, seed: u64) -> Result<(Child, ChildStdout)> {
    let (master, slave) = terminal()?;
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(instance.tool()).args(["approver", "--seed", &seed.to_string()]);
    command.arg("--socket").arg(native(instance.dir()));
    command.stdin(slave).stdout(Stdio::piped());
    let mut child = command.spawn().context("start an approver (needs setsid of util-linux)")?;
    // The terminal lives as long as this program.
    std::mem::forget(master);
    let output = child.stdout.take().context("output of an approver")?;
    Ok((child, output))
}

/// A new terminal: the side that a person has, and the side that a program has.
pub(crate) fn terminal() -> Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((master, slave))
}

/// The approver itself: comes back after every death of the daemon, until it is killed.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let socket: PathBuf = args.required("--socket")?;
    let mut rng = Rng::new(args.required("--seed")?);
    args.finish()?;
    loop {
        // The daemon died, or does not live yet.
        if decide(&socket, &mut rng).is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn decide(socket: &Path, rng: &mut Rng) -> Result<(), ClientError> {
    let mut client = Client::connect(socket)?;
    client.answer_within(Some(Duration::from_secs(60)))?;
    let asked = vec![FeedKind::ApprovalAsked];
    client.call::<methods::FeedFollow>(&FeedFollowParams {
        after: None,
        kinds: asked,
        session: None,
        workspace: None,
    })?;
    loop {
        let list = client.call::<methods::ApprovalList>(&ApprovalListParams { all: false })?;
        for approval in list.approvals {
            one(&mut client, &approval, rng)?;
        }
        client.next_notification_within(Duration::from_secs(1))?;
    }
}

/// A question of an agent: red, always.
fn answer(client: &mut Client, approval: &ApprovalInfo) -> Result<(), ClientError> {
    let decision = DecideParams {
        id: approval.id.clone(),
        hash: approval.hash.clone(),
        verdict: Verdict::Answers,
        relays: false,
        message: String::new(),
        interrupt: false,
        input: None,
        answers: Some([("colour".to_owned(), vec!["red".to_owned()])].into()),
        signed: None,
    };
    match client.call::<methods::ApprovalDecide>(&decision) {
        Ok(_) | Err(ClientError::Rpc(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn one(client: &mut Client, approval: &ApprovalInfo, rng: &mut Rng) -> Result<(), ClientError> {
    let shown = ShownParams { id: approval.id.clone(), surface: "bench".into() };
    client.call::<methods::ApprovalShown>(&shown)?;
    if approval.reason == IGNORED {
        return Ok(());
    }
    if approval.kind == ApprovalKind::Question {
        return answer(client, approval);
    }
    let (verdict, word) = if rng.percent(70) { (Verdict::Once, "once") } else { (Verdict::Deny, "deny") };
    // Some have read something else.
    let hash = if rng.percent(10) { "0".repeat(64) } else { approval.hash.clone() };
    let wrong = hash != approval.hash;
    let decision = DecideParams {
        id: approval.id.clone(),
        hash,
        verdict,
        relays: false,
        message: String::new(),
        interrupt: false,
        input: None,
        answers: None,
        signed: None,
    };
    let told = match client.call::<methods::ApprovalDecide>(&decision) {
        Ok(_) if wrong => "counted although it was about something else".to_owned(),
        Ok(_) => format!("counted {word}"),
        Err(ClientError::Rpc(error)) => format!("refused {}", error.message),
        Err(error) => return Err(error),
    };
    let mut out = std::io::stdout();
    // Nobody listens any more when the run is over.
    let _ = writeln!(out, "{} {told}", approval.id);
    let _ = out.flush();
    Ok(())
}
