//! Whether a device may call a method, and why it was refused, in the protocol's words. What each method needs is in the table.

use ostler_api::{ErrorKind, RpcError};
use ostler_engine::Engine;
use ostler_engine::access::device::{DeviceError, Guest, Required};

/// Refuses a device what it may not do. What is no method needs nothing that a device could have.
pub(crate) fn check(engine: &Engine, guest: &Guest, method: &str, required: Option<Required>) -> Result<(), RpcError> {
    match required {
        None | Some(Required::Person) => {
            let message = format!("no device may call {method}");
            Err(RpcError::new(ErrorKind::Refused, message).hint("use a terminal of the machine itself"))
        }
        Some(Required::Nothing) => Ok(()),
        Some(Required::Right(right)) => engine.guest_may(guest, right).map_err(|error| refusal(&error)),
    }
}

/// Why a device, or a pairing, was refused, in the protocol's words.
pub(crate) fn refusal(error: &DeviceError) -> RpcError {
    let (kind, hint) = match error {
        DeviceError::NotFound(_) => (ErrorKind::NotFound, Some("list them: ostler devices")),
        DeviceError::Offer(_) => (ErrorKind::Refused, None),
        DeviceError::Store(_) | DeviceError::Random(_) => (ErrorKind::Failed, None),
        DeviceError::Hosted(_) | DeviceError::Unknown => (ErrorKind::Refused, Some("use a terminal of your own")),
        DeviceError::Right(_) => (ErrorKind::Refused, Some("pair it again with more rights: ostler pair --rights")),
        _ => (ErrorKind::Refused, None),
    };
    let refusal = RpcError::new(kind, error.to_string());
    match hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn required(method: &str) -> Option<Required> {
        table::find(method).map(|entry| entry.required)
    }

    #[test]
    fn every_method_says_what_a_device_needs_for_it() {
        for method in ostler_api::METHODS {
            assert!(required(method.name).is_some(), "{} has no line in the table", method.name);
        }
        assert_eq!(required("process.explode"), None, "what is not there is open to no device");
    }

    #[test]
    fn what_to_do_is_said_once() {
        let refused = refusal(&DeviceError::NotAPerson("pid 1 has no terminal: use a terminal of your own".into()));
        assert_eq!(refused.data.and_then(|data| data.hint), None);
    }

    #[test]
    fn who_only_watches_changes_nothing_and_who_answers_types_nothing() {
        use ostler_engine::access::device::Preset;
        let open = |preset: Preset| {
            let may = |required: Required| match required {
                Required::Nothing => true,
                Required::Right(right) => preset.rights().has(right),
                Required::Person => false,
            };
            let names = ostler_api::METHODS.iter().map(|method| method.name);
            names.filter(|name| required(name).is_some_and(may)).collect::<Vec<_>>()
        };
        let watch = open(Preset::Watch);
        for name in [
            "session.prompt",
            "session.review",
            "process.spawn",
            "session.create",
            "rule.add",
            "device.offer",
            "instance.stop",
        ] {
            assert!(!watch.contains(&name), "{name}");
        }
        assert!(watch.contains(&"git.diff") && !watch.contains(&"workspace.write") && !watch.contains(&"git.commit"));
        let answer = open(Preset::Answer);
        assert!(answer.contains(&"session.prompt") && answer.contains(&"approval.decide"));
        for name in ["process.stdin", "process.spawn", "session.screen", "rule.add", "device.admit", "process.kill"] {
            assert!(!answer.contains(&name), "{name}");
        }
        let full = open(Preset::Full);
        for name in ["instance.stop", "approval.terminal", "rule.affirm", "device.affirm", "process.access"] {
            assert!(!full.contains(&name), "{name} is for a person at the machine");
        }
    }
}
