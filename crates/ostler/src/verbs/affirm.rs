//! `ostler rules affirm` and `ostler devices affirm`: shows everything that is suspended, whole, and takes one key on the
//! person's own terminal. What was not on the screen is not affirmed: each thing is named by the hash of all of it.

use std::process::ExitCode;

use ostler_api::client::{Client, ClientError};
use ostler_api::{Empty, methods};

use super::Context;
use super::approvals::{Tty, with_instance};
use super::confirmed::confirmed;
use super::connect::Reached;
use crate::output::{CommandError, Kind, Paint};
use crate::request::Row;

/// What nothing vouches for once ostler was stopped.
pub(super) trait Suspended: Sized {
    /// One of them, and its verb in the plural.
    const NOUN: &'static str;

    /// Those that are suspended now.
    fn list(client: &mut Client) -> Result<Vec<Self>, ClientError>;

    /// Vouches for those with these hashes, and says what they are called.
    fn affirm(client: &mut Client, digests: Vec<String>) -> Result<Vec<String>, ClientError>;

    /// The hash of all of it; nothing where not all of it can be shown.
    fn digest(&self) -> Option<String>;

    /// All of it.
    fn show(&self) -> Vec<Row>;

    fn question(all: &[Self]) -> &'static str;
}

pub(super) fn run<S: Suspended>(context: &Context) -> Result<ExitCode, CommandError> {
    let noun = S::NOUN;
    let tty = crate::exclusive::own_place().ok().and_then(|_| Tty::deciding().ok());
    let mut affirmed = Vec::new();
    let mut found = false;
    for mut reached in context.reach_all_deciding()? {
        let suspended = S::list(&mut reached.client)?;
        if suspended.is_empty() {
            continue;
        }
        found = true;
        let Some(tty) = &tty else { return Err(refusal::<S>(&mut reached)) };
        tty.alone(&reached.client)?;
        if !is_yes(context, tty, &mut reached, &suspended)? {
            return Err(CommandError::failed("nothing was affirmed")
                .hint(format!("remove a {noun} that is not yours: ostler {noun}s revoke NAME")));
        }
        let digests = suspended.iter().filter_map(S::digest).collect();
        let names = S::affirm(&mut reached.client, digests)?;
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
        context.screen.note(&format!("no {noun} is suspended"));
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried; nothing is named.
fn refusal<S: Suspended>(reached: &mut Reached) -> CommandError {
    match S::affirm(&mut reached.client, Vec::new()) {
        Err(error) => error.into(),
        Ok(_) => CommandError::new(Kind::Refused, "affirming needs a terminal"),
    }
}

fn is_yes<S: Suspended>(
    context: &Context,
    tty: &Tty,
    reached: &mut Reached,
    suspended: &[S],
) -> Result<bool, CommandError> {
    let (noun, name) = (S::NOUN, &reached.found.name);
    let first = format!("Nothing vouches for these {noun}s of `{name}` since ostler was stopped. Are they yours?");
    let mut rows = vec![Row::ours(Paint::Plain, first)];
    for one in suspended {
        rows.push(Row::ours(Paint::Plain, ""));
        rows.extend(one.show());
    }
    rows.push(Row::ours(Paint::Plain, ""));
    confirmed(&context.screen, tty, &rows, S::question(suspended), || {
        reached.client.call::<methods::InstanceStatus>(&Empty {})?;
        Ok(true)
    })
}
