//! The way from elsewhere that needs one command: `ostler pair` on a machine with tailscale. Says the command, waits until it was
//! run, and has the device come by the name of the tailnet.

use std::time::Duration;

use ostler_api::{DeviceTailnet, DeviceTailnetParams, TailnetInfo, methods};

use super::approvals::Tty;
use super::connect::Reached;
use crate::output::{CommandError, Kind, visible};

/// How often tailscale is asked whether it was done.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 27;

/// The address for a device: that of the tailnet where there is one, else `own`, which is for this machine only.
pub(super) fn address(tty: &Tty, reached: &mut Reached, own: String) -> Result<String, CommandError> {
    let Some(mut tailnet) = look(tty, reached, false)? else { return Ok(own) };
    if !own.contains("//127.") && !own.contains("//[::1]") && own != tailnet.url {
        // Somebody chose another machine's name.
        return Ok(own);
    }
    if !tailnet.served {
        let TailnetInfo { url, command, .. } = &tailnet;
        let lines = [
            format!("Devices of your tailnet can come to {url} once you run this, in another terminal:"),
            String::new(),
            format!("  {command}"),
            String::new(),
        ];
        say(tty, &lines)?;
        match until_served(tty, reached)? {
            Some(served) => tailnet = served,
            None => return Ok(own),
        }
    }
    if tailnet.public {
        say(tty, &["Note: tailscale passes on what comes from the whole internet too (funnel)".to_owned()])?;
    }
    if !tailnet.allowed {
        match look(tty, reached, true)? {
            Some(allowed) if allowed.allowed => {
                say(tty, &[format!("Paired devices may come by {} from now on.", allowed.url), String::new()])?;
            }
            _ => return Ok(own),
        }
    }
    Ok(tailnet.url)
}

/// Asks the daemon, which asks tailscale. What does not work is said.
fn look(tty: &Tty, reached: &mut Reached, allow: bool) -> Result<Option<TailnetInfo>, CommandError> {
    let DeviceTailnet { tailnet, why_not } =
        reached.client.call::<methods::DeviceTailnet>(&DeviceTailnetParams { allow })?;
    if let Some(why) = why_not {
        say(tty, &[format!("Note: {why}; a device has to be on this machine, or come another way")])?;
    }
    Ok(tailnet)
}

/// Waits until tailscale passes things on; nothing when the person does not want that.
fn until_served(tty: &Tty, reached: &mut Reached) -> Result<Option<TailnetInfo>, CommandError> {
    let raw = tty.raw()?;
    tty.write(b"waiting for that (Enter: for this machine only, q to stop) ")?;
    let found = loop {
        let typed = tty.typed(LOOK_EVERY)?;
        let mut buffer = [0; 64];
        let keys = if typed { tty.read(&mut buffer)? } else { &[] };
        let closed = typed && keys.is_empty();
        if closed || Tty::ended().is_some() || matches!(keys, [b'q' | b'Q' | CTRL_C | ESCAPE]) {
            break Err(CommandError::new(Kind::Refused, "not paired"));
        }
        if matches!(keys, [b'\r' | b'\n']) {
            break Ok(None);
        }
        match look(tty, reached, false)? {
            Some(tailnet) if !tailnet.served => {}
            found => break Ok(found),
        }
    };
    tty.write(b"\r\x1b[K")?;
    drop(raw);
    found
}

fn say(tty: &Tty, lines: &[String]) -> Result<(), CommandError> {
    lines.iter().try_for_each(|line| Ok(tty.write(format!("{}\r\n", visible(line)).as_bytes())?))
}
