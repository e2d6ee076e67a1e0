//! After a yes: the terminal of a command that may ask for a password, passed on to the person who approved, and how it
//! all ended. Keys go from one terminal to the other; they are neither shown nor kept here.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_api::client::{Client, Incoming, parse};
use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalKind, ApprovalState, FeedKind, FeedUnfollowParams, TerminalParams, methods,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::told::is_over;
use super::tty::Tty;
use crate::output::CommandError;
use crate::output::escape::{Filter, Policy};
use crate::verbs::follow_feed;

/// Ctrl-]: leaves the terminal of a command that goes on.
const LEAVE_KEY: u8 = 0x1d;
/// Ctrl-U: what was typed of a password before the program was stopped is not part of it.
const ERASE_KEY: u8 = 0x15;
/// A question is shorter.
const LINE_MAX: usize = 1024;
/// The daemon lets nobody wait longer than this in one request.
const LISTEN_MS: u64 = 10_000;
/// A terminal that takes no key for so long has nobody behind it.
const TYPE_MS: u64 = 200;
/// Approved, but not started yet: how soon to look again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The feed tells sooner.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// From a yes to a running command; longer means that nobody carries it out.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Follows an approved request until there is something to tell: a privileged command to its end, anything else until it
/// has begun.
pub(in crate::verbs) fn follow(
    client: &mut Client,
    tty: &Tty,
    info: &ApprovalInfo,
) -> Result<ApprovalInfo, CommandError> {
    if !has_terminal(info) {
        return begun(client, &info.id);
    }
    let raw = tty.raw()?;
    let over = relay(client, tty, &info.id);
    drop(raw);
    match over? {
        true => wait(client, &info.id, is_over),
        false => wait(client, &info.id, |_| true),
    }
}

/// The request once it is carried out, or as it is when nobody does that.
pub(in crate::verbs) fn begun(client: &mut Client, id: &str) -> Result<ApprovalInfo, CommandError> {
    wait(client, id, |info| info.state != ApprovalState::Accepted)
}

/// Whether it may ask for a password once it runs.
pub(in crate::verbs) fn has_terminal(info: &ApprovalInfo) -> bool {
    info.kind == ApprovalKind::Command && info.privileged
}

/// Both directions, until the command is over (`true`) or the person leaves.
fn relay(client: &mut Client, tty: &Tty, id: &str) -> Result<bool, CommandError> {
    client.answer_within(None)?;
    let ask = |keys: &[u8], wait_ms| TerminalParams { id: id.to_owned(), keys: STANDARD.encode(keys), wait_ms };
    let mut listening = client.send::<methods::ApprovalTerminal>(&ask(&[], LISTEN_MS))?;
    let mut filter = Filter::new(Policy::Show);
    let mut line = Vec::new();
    while Tty::ended().is_none() {
        let mut ready = [PollFd::new(tty.file(), PollFlags::IN), PollFd::new(&*client, PollFlags::IN)];
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut ready, Some(&second)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [typed, answered] = ready.map(|one| !one.revents().is_empty());
        if typed {
            let mut buffer = [0; 1024];
            let keys = tty.read(&mut buffer)?;
            if keys.is_empty() || keys.contains(&LEAVE_KEY) {
                return Ok(false);
            }
            if Tty::is_stop(keys) {
                client.send::<methods::ApprovalTerminal>(&ask(&[ERASE_KEY], TYPE_MS))?;
                tty.stop()?;
                tty.write(&line)?;
                continue;
            }
            client.send::<methods::ApprovalTerminal>(&ask(keys, TYPE_MS))?;
        }
        if !answered {
            continue;
        }
        client.fill()?;
        while let Some(incoming) = client.take()? {
            let Incoming::Reply { id: request, result } = incoming else { continue };
            let heard = parse::<methods::ApprovalTerminal>(&result.map_err(ostler_api::client::ClientError::Rpc)?)?;
            let mut shown = Vec::new();
            filter.feed(&STANDARD.decode(&heard.output).unwrap_or_default(), &mut shown);
            tty.write(&shown)?;
            note(&mut line, &shown);
            if heard.ended {
                return Ok(true);
            }
            if request == listening {
                if heard.output.is_empty() {
                    std::thread::sleep(LOOK_AGAIN);
                }
                listening = client.send::<methods::ApprovalTerminal>(&ask(&[], LISTEN_MS))?;
            }
        }
    }
    Ok(false)
}

/// Keeps the line that is being shown, to show it again to somebody who was away.
fn note(line: &mut Vec<u8>, shown: &[u8]) {
    match shown.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => *line = shown.get(end + 1..).unwrap_or_default().to_vec(),
        None => line.extend_from_slice(shown),
    }
    line.truncate(LINE_MAX);
}

/// The request once `enough` holds, or as it is when nothing more happens.
fn wait(client: &mut Client, id: &str, enough: impl Fn(&ApprovalInfo) -> bool) -> Result<ApprovalInfo, CommandError> {
    client.answer_within(Some(ostler_api::client::ANSWER_TIMEOUT))?;
    // Before it is looked at: what changes meanwhile is told. Where there is no feed, it is looked at again every so often.
    let watch = follow_feed::follow(client, FeedKind::AUDIT.to_vec()).ok();
    let until = Instant::now() + STARTS_WITHIN;
    let found = loop {
        let info = client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: id.to_owned() })?;
        if enough(&info) || Instant::now() > until {
            break info;
        }
        client.next_notification_within(LOOK_ANYWAY)?;
    };
    if let Some(watch) = watch {
        client.call::<methods::FeedUnfollow>(&FeedUnfollowParams { watch })?;
    }
    Ok(found)
}
