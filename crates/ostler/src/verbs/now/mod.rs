//! Now, which `ostler` alone opens: what needs a person, what runs and what ended, over all instances of the user, with the
//! keys to do something about it. The inbox is the part of it that needs a person; whether a decision counts is the daemon's
//! to say.

mod app;
mod changes;
mod detail;
mod draw;
mod errands;
mod feed;
mod frames;
mod inbox;
mod keys;
mod outside;
mod pager;
mod rows;
mod start;
mod state;

use std::io::IsTerminal;
use std::process::ExitCode;

use ostler_api::{ApprovalListParams, methods};

use super::Context;
use super::approvals::{NOTHING, Tty};
use crate::output::{CommandError, Kind, has_cursor};

pub(super) use inbox::Which;
pub(super) use keys::Key;

/// Whether there is a terminal that something can be drawn on.
pub(super) fn has_screen() -> bool {
    has_cursor() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Everything, whether a daemon runs or not.
pub(super) fn everything(context: &Context) -> Result<ExitCode, CommandError> {
    // Whoever may not decide may look.
    let tty = if crate::exclusive::own_place().is_ok() { Tty::deciding()? } else { Tty::open()? };
    app::run(context, tty, "")
}

/// What needs a person, for somebody who came to decide.
pub(super) fn needs_you(context: &Context) -> Result<ExitCode, CommandError> {
    let refused =
        |why: String| CommandError::new(Kind::Refused, why).hint("without a terminal: ostler approvals --list");
    crate::exclusive::own_place().map_err(|why| refused(why.to_string()))?;
    let tty = Tty::deciding().map_err(|error| refused(format!("/dev/tty: {error}")))?;
    let mut waits = false;
    for mut reached in context.reach_all_deciding()? {
        tty.alone(&reached.client)?;
        let list = reached.client.call::<methods::ApprovalList>(&ApprovalListParams { all: false })?;
        waits |= !list.approvals.is_empty();
    }
    // What comes later is shown all the same.
    app::run(context, tty, if waits { "" } else { NOTHING })
}
