//! `notify.*`: who is told of what, when and how. Nothing is named by default, so nothing leaves the machine.

use std::path::PathBuf;

use ostler_engine::notice::{Hours, Kind, Rules};

/// Who is told of what, when and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notify {
    pub(crate) rules: Rules,
    /// Where notices are posted.
    pub(crate) webhook: Option<String>,
    /// A file with a token for that.
    pub(crate) webhook_token: Option<PathBuf>,
    /// A program and its arguments.
    pub(crate) command: Vec<String>,
    /// Whether terminals ring.
    pub(crate) bell: bool,
    /// Whether the desktop shows them.
    pub(crate) desktop: bool,
    /// Whether devices may subscribe.
    pub(crate) push: bool,
    /// Whether they may name a private address.
    pub(crate) push_private: bool,
    /// Whom a push service may complain to.
    pub(crate) contact: String,
}

/// An address that notices are posted to.
pub(super) fn webhook(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || "expected an address such as https://ntfy.sh/TOPIC".to_owned();
    let uri: ureq::http::Uri = text.parse().map_err(|_| wrong())?;
    let named =
        uri.authority().is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    match named && matches!(uri.scheme_str(), Some("http" | "https")) {
        true => Ok(Some(text.to_owned())),
        false => Err(wrong()),
    }
}

/// A program and its arguments, parted by spaces: no shell reads them.
pub(super) fn command(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match words.first().is_none_or(|program| program.starts_with('/')) {
        true => Ok(words),
        false => Err("expected the absolute path of a program, and its arguments".to_owned()),
    }
}

/// `needs,failed,ended`.
pub(super) fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let known = [Kind::Needs, Kind::Failed, Kind::Ended];
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| known.into_iter().find(|kind| kind.word() == word))
        .collect::<Option<_>>()
        .ok_or_else(|| "expected some of needs, failed and ended, separated by commas".to_owned())
}

/// `22:00-07:00`.
pub(super) fn quiet(text: &str) -> Result<Option<Hours>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let hours = text.split_once('-').and_then(|(from, to)| Some(Hours { from: minute(from)?, to: minute(to)? }));
    match hours.filter(|hours| hours.from != hours.to) {
        Some(hours) => Ok(Some(hours)),
        None => Err("expected hours such as 22:00-07:00".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_kinds_addresses_and_commands_read_as_written() {
        assert_eq!(quiet("22:00-07:30"), Ok(Some(Hours { from: 1320, to: 450 })));
        assert_eq!(quiet(""), Ok(None));
        for bad in ["22-7", "25:00-07:00", "22:00", "07:00-07:00", "22:60-01:00"] {
            assert!(quiet(bad).is_err(), "{bad}");
        }
        assert_eq!(kinds("failed, needs"), Ok(vec![Kind::Failed, Kind::Needs]));
        assert_eq!(kinds(""), Ok(Vec::new()));
        assert!(kinds("needs,all").is_err());
        assert_eq!(webhook("https://ntfy.sh/x"), Ok(Some("https://ntfy.sh/x".into())));
        for bad in ["ntfy.sh/x", "ftp://a/b", "https://", "https://user@host/", "x y"] {
            assert!(webhook(bad).is_err(), "{bad}");
        }
        assert_eq!(command("/bin/tell  me;now"), Ok(vec!["/bin/tell".into(), "me;now".into()]));
        assert_eq!(command(""), Ok(Vec::new()));
        assert!(command("tell me").is_err());
    }
}
