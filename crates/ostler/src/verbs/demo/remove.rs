//! Taking the demo away, whatever state it was left in: its processes first, then its folder.

use std::time::{Duration, Instant};

use ostler_api::{KeyParams, methods};

use super::super::Context;
use super::super::background::{self, Start};
use super::place;
use crate::instances::{Claim, Claimed, claim, keeper_answers, keeper_holds, kept};
use crate::output::CommandError;

/// A daemon that has just been started, or is just ending, and a keeper that leaves after it.
const ENDED_WITHIN: Duration = Duration::from_secs(25);
const POLL: Duration = Duration::from_millis(20);

/// Leaves nothing. Whether there was something.
pub(super) fn remove(demo: &Context) -> Result<bool, CommandError> {
    let root = demo.paths.state_dir();
    let Some(_lock) = place::find(root)? else { return Ok(false) };
    end_processes(demo)?;
    place::delete(root).map_err(|error| CommandError::failed(format!("{}: {error}", root.display())))?;
    Ok(true)
}

/// Ends the daemon with all that it hosts. One that died is replaced first: only a daemon knows what lives.
fn end_processes(demo: &Context) -> Result<(), CommandError> {
    let dir = demo.paths.instance_dir(demo.instance_name());
    if !dir.exists() {
        return Ok(());
    }
    let deadline = Instant::now() + ENDED_WITHIN;
    while Instant::now() < deadline {
        match claim(&dir, Claim::IfFree)? {
            Claimed::Held(_) => stop(demo)?,
            Claimed::Free(lease) | Claimed::TakenFrom(lease, _) => {
                drop(lease);
                if keeper_holds(&dir) || kept(&dir) > 0 {
                    // The keeper's own may be quicker: then that one is stopped.
                    let _ = background::launch(demo, &Start { drop_in: false, take_over: false });
                } else if !keeper_answers(&dir) {
                    return Ok(());
                }
            }
        }
        std::thread::sleep(POLL);
    }
    Err(CommandError::failed("the demo does not stop").hint("try again, or see: ostler status --instance demo"))
}

/// Asks the daemon to end; one that does not answer yet is asked again later.
fn stop(demo: &Context) -> Result<(), CommandError> {
    let Ok(mut reached) = demo.reach_one() else { return Ok(()) };
    reached.client.answer_within(Some(ENDED_WITHIN))?;
    // It may be gone before its answer is.
    let _ = reached.client.call::<methods::InstanceStop>(&KeyParams { key: None });
    Ok(())
}
