//! `ostler devices admit`: a device that came with a code or link somebody else was shown waits for a person. This shows each, and
//! takes one key on the person's own terminal: `y` lets it in, anything else refuses it.

use std::process::ExitCode;

use ostler_api::client::Client;
use ostler_api::{Empty, OfferInfo, OfferParams, OfferState, methods};

use super::Context;
use super::approvals::Tty;
use super::offer::decide;
use crate::output::{CommandError, Kind, visible};

/// Those that wait now.
pub(super) fn waiting(client: &mut Client) -> Result<Vec<OfferInfo>, CommandError> {
    let now = client.call::<methods::DeviceOffers>(&Empty {})?;
    Ok(now.offers.into_iter().filter(|offer| offer.state == OfferState::Claimed).collect())
}

/// Asks about every device that waits, or about those that are called this.
pub(super) fn run(context: &Context, wanted: Option<&str>) -> Result<ExitCode, CommandError> {
    let tty = crate::exclusive::own_place().ok().and_then(|_| Tty::deciding().ok());
    let is_meant =
        |offer: &OfferInfo| wanted.is_none_or(|name| offer.offer == name || offer.name.as_deref() == Some(name));
    let mut settled = Vec::new();
    for mut reached in context.reach_all_deciding()? {
        for offer in waiting(&mut reached.client)?.into_iter().filter(is_meant) {
            let Some(tty) = &tty else { return Err(refusal(&mut reached.client)) };
            let place = format!("`{}`", reached.found.name);
            let yes = decide(context, tty, &mut reached.client, &offer, &place)?;
            settled.push((offer.name.unwrap_or_default(), yes));
        }
    }
    if context.json() {
        let rows: Vec<_> =
            settled.iter().map(|(name, yes)| serde_json::json!({ "name": name, "admitted": yes })).collect();
        context.screen.value(&rows)?;
    } else if settled.is_empty() {
        context.screen.note("no device waits to be let in");
    }
    for (name, yes) in settled.iter().filter(|_| !context.json()) {
        let became = if *yes { "let in" } else { "refused" };
        context.screen.line(&visible(&format!("{name} {became}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried; nothing is named.
fn refusal(client: &mut Client) -> CommandError {
    match client.call::<methods::DeviceAdmit>(&OfferParams { offer: String::new() }) {
        Err(error) => error.into(),
        Ok(_) => CommandError::new(Kind::Refused, "letting a device in needs a terminal"),
    }
}
