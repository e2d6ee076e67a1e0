//! `ostler devices affirm`: shows every suspended device and takes one key on the person's own terminal, as `rules affirm` does.

use std::process::ExitCode;

use ostler_api::{DeviceAffirmParams, DeviceInfo, Empty, methods};

use super::Context;
use super::approvals::{Tty, with_instance};
use super::confirmed::confirmed;
use super::connect::Reached;
use super::offer::allowed;
use crate::output::{CommandError, Kind, Paint, ago};
use crate::request::Row;

pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    let tty = ostler_engine::access::own_place().ok().and_then(|_| Tty::deciding().ok());
    let mut affirmed = Vec::new();
    let mut found = false;
    for mut reached in context.reach_all_deciding()? {
        let devices = reached.client.call::<methods::DeviceList>(&Empty {})?.devices;
        let devices: Vec<DeviceInfo> = devices.into_iter().filter(|device| device.suspended).collect();
        if devices.is_empty() {
            continue;
        }
        found = true;
        let Some(tty) = &tty else { return Err(refusal(&mut reached)) };
        tty.alone(&reached.client)?;
        if !is_yes(context, tty, &mut reached, &devices)? {
            return Err(CommandError::failed("nothing was affirmed")
                .hint("remove a device that is not yours: ostler devices revoke NAME"));
        }
        let digests = devices.into_iter().map(|device| device.digest).collect();
        let names = reached.client.call::<methods::DeviceAffirm>(&DeviceAffirmParams { digests })?.names;
        affirmed.extend(names.into_iter().map(|name| (reached.found.name.clone(), name)));
    }
    if context.json() {
        let rows =
            affirmed.iter().map(|(instance, name)| with_instance(instance, &serde_json::json!({"affirmed": name})));
        context.screen.value(&rows.collect::<Vec<_>>())?;
    } else if found {
        for (_, name) in affirmed {
            context.screen.line(&format!("{name} affirmed"))?;
        }
    } else {
        context.screen.note("no device is suspended");
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried; nothing is named.
fn refusal(reached: &mut Reached) -> CommandError {
    match reached.client.call::<methods::DeviceAffirm>(&DeviceAffirmParams { digests: Vec::new() }) {
        Err(error) => error.into(),
        Ok(_) => CommandError::new(Kind::Refused, "affirming needs a terminal"),
    }
}

fn is_yes(context: &Context, tty: &Tty, reached: &mut Reached, devices: &[DeviceInfo]) -> Result<bool, CommandError> {
    let name = &reached.found.name;
    let first = format!("Devices of `{name}` that nothing vouches for since ostler was stopped. Are they yours?");
    let mut rows = vec![Row::ours(Paint::Plain, first)];
    for device in devices {
        let (paired, seen) = (ago(device.paired), ago(device.seen));
        rows.extend([
            Row::ours(Paint::Plain, ""),
            Row::new(Paint::Head, &format!("{} may {}", device.name, allowed(&device.rights))),
            Row::new(
                Paint::Dim,
                &format!("paired {paired} by {}, seen {seen} at {}", device.paired_by, device.address),
            ),
        ]);
    }
    rows.push(Row::ours(Paint::Plain, ""));
    confirmed(&context.screen, tty, &rows, "let them in again? [y/N] ", || {
        reached.client.call::<methods::InstanceStatus>(&Empty {})?;
        Ok(true)
    })
}
