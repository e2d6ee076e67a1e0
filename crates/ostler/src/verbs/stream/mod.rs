//! Watching: one loop ([`watched`]) over the daemon's socket, the keyboard and signals, for a process ([`ProcessWatch`]:
//! `run`, `attach`, `logs`, `wait`) and for a session ([`Follow`]: `watch`, `attach`, `send`, `wait`, `export`).
//!
//! A watch is a position in a journal. Whatever happens to this program or to the daemon, the position is
//! enough to go on, so a lost connection is taken up again and a person who leaves is told how to come back.

mod edit;
mod follow;
mod input;
mod keys;
mod lines;
mod link;
mod process;
mod repaint;
mod signals;
mod sink;
mod terminal;
mod trouble;
mod watched;
mod whole;

use ostler_api::client::{Client, ClientError};
use ostler_api::{AttachParams, DetachParams, Exit, Notification, ViewerParams, methods};

pub(super) use follow::{Came, Follow, Followed, missing};
pub(super) use input::Input;
pub(super) use lines::{LastRow, Lines};
pub(super) use link::Link;
pub(super) use process::{Outcome, ProcessWatch, View};
pub(super) use signals::stop;
pub(super) use sink::{Format, Sink};
pub(super) use terminal::{Mode, hung_up, size};
pub(super) use whole::watch_whole;

/// Says that somebody was told how a process ended: it needs nobody any more.
pub(super) fn see_end(client: &mut Client, id: &str) -> Result<(), ClientError> {
    let viewer = Some(ViewerParams { size: None, types: false });
    let params = AttachParams { id: id.to_owned(), from: None, tail: Some(0), lines: None, since: None, viewer };
    let watch = client.call::<methods::ProcessAttach>(&params)?.watch;
    // That watch is over with the exit, if it has come by now.
    drop(client.call::<methods::ProcessDetach>(&DetachParams { watch }));
    Ok(())
}

/// Waits for a process's exit without reading its output.
pub(super) fn wait_exit(client: &mut Client, id: &str) -> Result<Exit, ClientError> {
    client.answer_within(None)?;
    // Of the past only the last frame is of interest: it is the exit, or comes before it.
    let params = AttachParams { id: id.to_owned(), from: None, tail: Some(0), lines: None, since: None, viewer: None };
    client.call::<methods::ProcessAttach>(&params)?;
    loop {
        match client.next_notification()? {
            Notification::Exit(exited) => return Ok(exited.exit),
            Notification::Lost(lost) => return Err(ClientError::Garbled(lost.message)),
            _ => {}
        }
    }
}
