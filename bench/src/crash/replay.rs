//! The last question: after one more kill, does a fresh connection see from frame 1 exactly what was seen live?

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::battery::Battery;
use super::findings::lock;
use super::track::Track;
use crate::instance::{Instance, TOKEN};
use crate::wire::{self, Attached};

/// A whole replay of one child on a loaded machine.
const REPLAY_DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn check(instance: &Instance, battery: &Battery) -> Result<()> {
    instance.daemon()?.kill()?;
    instance.start().context("start after the last kill")?;
    for (id, child) in (1..).zip(&battery.children) {
        let findings = &battery.findings;
        let live = lock(&child.frames).last();
        let mut track = Track::new("replay from 0", child);
        let mut conn = instance.dial()?;
        let params = json!({"id": child.id, "fromSeq": 0, "wantPid": true});
        let line = wire::request(id, "process.reattach", Some(&params), TOKEN);
        // The reply comes after the last replayed frame, so nothing is waited for beyond it.
        let reply = conn
            .call(&line, id, Instant::now() + REPLAY_DEADLINE, |frame| track.receive(frame, child, findings))
            .with_context(|| format!("replay of {}: stopped {}", child.id, track.describe()))?;
        let attached: Attached = serde_json::from_str(&reply)?;
        if attached.identity().as_ref() != Some(&child.identity) {
            findings.pid_changed(&format!("replay of {}: {:?} became {reply}", child.id, child.identity));
        }
        findings.lost(live.saturating_sub(track.last_seq), &format!("replay of {}: {live} frames live", child.id));
        let more = track.last_seq.saturating_sub(live);
        findings.duplicated(more, &format!("replay of {}: more frames than live", child.id));
        track.finish(&child.report()?, findings);
    }
    Ok(())
}
