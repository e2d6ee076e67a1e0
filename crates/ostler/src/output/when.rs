//! Moments as people say them.

use ostler_api::Timestamp;

use crate::config::show_duration;

/// `just now`, `3m ago`, `2d 4h ago`.
pub(crate) fn ago(moment: Timestamp) -> String {
    let elapsed = moment.elapsed();
    if elapsed.as_secs() == 0 { "just now".to_owned() } else { format!("{} ago", show_duration(elapsed)) }
}

/// To the minute.
pub(crate) fn minute(time: Timestamp) -> String {
    let text = time.to_string();
    let (date, clock) = (text.get(..10).unwrap_or_default(), text.get(11..16).unwrap_or_default());
    format!("{date} {clock} UTC")
}
