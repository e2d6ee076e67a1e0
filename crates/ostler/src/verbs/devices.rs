//! `ostler devices`: which phones, browsers and machines are paired, and putting them out.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ostler_api::client::{Client, ClientError};
use ostler_api::{DeviceAffirmParams, DeviceInfo, DeviceRevokeParams, Empty, methods};

use super::Context;
use super::admit;
use super::affirm::{self, Suspended};
use super::approvals::with_instance;
use super::connect::Reached;
use super::offer::allowed;
use super::recorded::recorded;
use crate::output::{Align, CommandError, Kind, Paint, Table, ago, by_name};
use crate::request::Row;

const HELP: &str = "\
Examples:
  ostler devices
  ostler devices admit              let in a device that waits
  ostler devices revoke phone
  ostler devices revoke --all
  ostler devices affirm             let them in again after ostler was stopped";

/// List paired devices and remove them
#[derive(Debug, Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Devices {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the devices
    List,
    /// Let in a device that waits, or refuse it
    #[command(
        after_help = "Shows each device that came with a code or link and waits, and asks you to press y; anything else refuses \
it. Needs a terminal.\n\nExample:\n  ostler devices admit"
    )]
    Admit {
        /// Name of the device, or id of its request [default: all that wait]
        #[arg(value_name = "NAME")]
        device: Option<String>,
    },
    /// Remove a device; its connections end now
    #[command(override_usage = "ostler devices revoke [OPTIONS] <NAME|--all>")]
    #[command(after_help = "Example:\n  ostler devices revoke phone")]
    Revoke {
        /// Name or id of the device
        #[arg(value_name = "NAME", required_unless_present = "all")]
        device: Option<String>,

        /// Remove all devices
        #[arg(long, conflicts_with = "device")]
        all: bool,
    },
    /// Let devices in again that are suspended since ostler was stopped
    #[command(
        after_help = "A device is only let in as long as ostler runs without a break: nobody else could have written it into the \
record then. After that it waits for you. This shows the devices and asks you to press y; it needs a terminal.\n\n\
Example:\n  ostler devices affirm"
    )]
    Affirm,
}

impl Devices {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        match self.action.unwrap_or(Action::List) {
            Action::List => list(context),
            Action::Admit { device } => admit::run(context, device.as_deref()),
            Action::Revoke { device: Some(device), .. } => revoke(context, &device),
            Action::Revoke { device: None, .. } => revoke_all(context),
            Action::Affirm => affirm::run::<DeviceInfo>(context),
        }
    }
}

impl Suspended for DeviceInfo {
    const NOUN: &'static str = "device";

    fn list(client: &mut Client) -> Result<Vec<Self>, ClientError> {
        let devices = client.call::<methods::DeviceList>(&Empty {})?.devices;
        Ok(devices.into_iter().filter(|device| device.suspended).collect())
    }

    fn affirm(client: &mut Client, digests: Vec<String>) -> Result<Vec<String>, ClientError> {
        Ok(client.call::<methods::DeviceAffirm>(&DeviceAffirmParams { digests })?.names)
    }

    fn digest(&self) -> Option<String> {
        Some(self.digest.clone())
    }

    fn show(&self) -> Vec<Row> {
        let (paired, seen) = (ago(self.paired), ago(self.seen));
        vec![
            Row::new(Paint::Head, &format!("{} may {}", self.name, allowed(self.rights))),
            Row::new(Paint::Dim, &format!("paired {paired} by {}, seen {seen} at {}", self.paired_by, self.address)),
        ]
    }

    fn question(_: &[Self]) -> &'static str {
        "let them in again? [y/N] "
    }
}

/// The devices of every instance that answers.
fn all(reached: &mut [Reached]) -> Result<Vec<(String, DeviceInfo)>, CommandError> {
    let mut rows = Vec::new();
    for instance in reached {
        let devices = instance.client.call::<methods::DeviceList>(&Empty {})?.devices;
        rows.extend(devices.into_iter().map(|device| (instance.found.name.clone(), device)));
    }
    rows.sort_by_key(|(_, device)| device.paired);
    Ok(rows)
}

fn list(context: &Context) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_all_deciding()?;
    let rows = all(&mut reached)?;
    if context.json() {
        let rows: Vec<_> = rows.iter().map(|(name, device)| with_instance(name, device)).collect();
        context.screen.value(&rows)?;
    } else if rows.is_empty() {
        context.screen.note("no devices are paired; pair one: ostler pair");
    } else {
        table(&rows, reached.len() > 1).print(&context.screen)?;
        if rows.iter().any(|(_, device)| device.suspended) {
            context.screen.note("suspended devices are let in again once you confirm them: ostler devices affirm");
        }
    }
    if !context.json() {
        let mut waiting = 0;
        for instance in &mut reached {
            waiting += admit::waiting(&mut instance.client)?.len();
        }
        if waiting > 0 {
            context.screen.note(&format!("waiting to be let in: {waiting}; see them: ostler devices admit"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[(String, DeviceInfo)], several: bool) -> Table {
    let mut columns = vec![("NAME", Align::Left), ("RIGHTS", Align::Left), ("KEY", Align::Left)];
    columns.extend([("SEEN", Align::Left), ("AT", Align::Left), ("PAIRED", Align::Left), ("BY", Align::Left)]);
    let mut table = Table::of_instances(&columns, several);
    for (instance, device) in rows {
        let rights = match device.suspended {
            true => ("suspended".to_owned(), Paint::Warn),
            false => (device.rights.to_string(), Paint::Plain),
        };
        let row = vec![
            (device.name.clone(), Paint::Head),
            rights,
            (if device.key { "yes" } else { "no" }.to_owned(), Paint::Plain),
            (ago(device.seen), Paint::Dim),
            (device.address.clone(), Paint::Plain),
            (ago(device.paired), Paint::Dim),
            (by_name(&device.paired_by), Paint::Plain),
        ];
        table.row_of(instance, row);
    }
    table
}

fn revoke(context: &Context, name: &str) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_all_deciding()?;
    let fits = |(_, device): &(String, DeviceInfo)| device.name == name || device.id == name;
    let found: Vec<(String, DeviceInfo)> = all(&mut reached)?.into_iter().filter(fits).collect();
    let (instance, device) = match found.as_slice() {
        [one] => one,
        [] => {
            return Err(
                CommandError::new(Kind::NotFound, format!("no device `{name}`")).hint("list them: ostler devices")
            );
        }
        _ => return Err(CommandError::usage(format!("several are called `{name}`")).hint("add --instance NAME")),
    };
    if let Some(instance) = reached.iter_mut().find(|one| one.found.name == *instance) {
        let params = DeviceRevokeParams { device: Some(device.id.clone()), all: false };
        recorded::<methods::DeviceRevoke>(&context.screen, &mut instance.client, &params)?;
    }
    if context.json() {
        context.screen.value(&serde_json::json!({ "revoked": device.name }))?;
    } else {
        context.screen.line(&format!("{} revoked", device.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke_all(context: &Context) -> Result<ExitCode, CommandError> {
    let mut revoked = 0;
    for mut instance in context.reach_all_deciding()? {
        let params = DeviceRevokeParams { device: None, all: true };
        revoked += recorded::<methods::DeviceRevoke>(&context.screen, &mut instance.client, &params)?.revoked;
    }
    if context.json() {
        context.screen.value(&serde_json::json!({ "revoked": revoked }))?;
    } else {
        let many = if revoked == 1 { "1 device".to_owned() } else { format!("{revoked} devices") };
        context.screen.line(&format!("{many} revoked"))?;
    }
    Ok(ExitCode::SUCCESS)
}
