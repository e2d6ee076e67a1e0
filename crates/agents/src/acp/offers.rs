//! What an ACP agent offers: commands, modes, models, and options of its configuration.

use ostler_story::{Choice, Json, Offer, Offers};

use crate::json;

/// What an answer to one of our first requests lists.
pub(super) fn told(result: &Json) -> Offers {
    let mut offers = configured(result).unwrap_or_default();
    let list = |name: &str, all: &str, id: &str, current: &str| {
        let entries = json::at(result, &[name, all])?.as_array()?;
        let current = json::text(result, &[name, current]);
        Some(entries.iter().map(|entry| offer(entry, id, current)).collect())
    };
    offers.modes = list("modes", "availableModes", "id", "currentModeId").or(offers.modes);
    offers.models = list("models", "availableModels", "modelId", "currentModelId").or(offers.models);
    offers
}

/// What one `session/update` changes of what was known.
pub(super) fn update(told: &Json, known: &Offers) -> Option<Offers> {
    match json::text(told, &["sessionUpdate"])? {
        "available_commands_update" => {
            let commands = json::list(told, &["availableCommands"]).iter();
            let commands = Some(commands.map(|command| offer(command, "name", None)).collect());
            Some(Offers { commands, ..Offers::default() })
        }
        "config_option_update" => configured(told),
        "current_mode_update" => {
            let current = json::text(told, &["currentModeId"])?;
            let mode = |mode: &Offer| mode.clone().chosen(mode.name == current);
            let modes = known.modes.as_ref().map(|modes| modes.iter().map(mode).collect());
            Some(Offers { modes, ..Offers::default() })
        }
        _ => None,
    }
}

/// Options of the configuration. Modes and models may be among them.
fn configured(told: &Json) -> Option<Offers> {
    let mut offers = Offers::default();
    for option in told.get("configOptions")?.as_array()? {
        let current = json::text(option, &["currentValue"]);
        let values = json::list(option, &["options"]).iter();
        // Values may stand in groups.
        let flat = values.flat_map(|value| match json::list(value, &["options"]) {
            [] => std::slice::from_ref(value),
            group => group,
        });
        let values: Vec<Offer> = flat.map(|value| offer(value, "value", current)).collect();
        match json::text(option, &["category"]) {
            Some("mode") => offers.modes = Some(values),
            Some("model") => offers.models = Some(values),
            _ if values.is_empty() => {}
            _ => {
                let name = json::text_or_empty(option, &["id"]);
                offers.options.get_or_insert_default().push(Choice { name, values });
            }
        }
    }
    Some(offers)
}

fn offer(entry: &Json, id: &str, current: Option<&str>) -> Offer {
    let name = json::text_or_empty(entry, &[id]);
    let about = json::text(entry, &["description"]).or(json::text(entry, &["name"]).filter(|about| *about != name));
    let chosen = current == Some(name.as_str());
    Offer::named(name).about(about.unwrap_or_default()).chosen(chosen)
}
