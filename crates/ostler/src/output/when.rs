//! Moments as people say them.

use ostler_api::Timestamp;

use crate::config::show_duration;

/// `just now`, `3m ago`, `2d 4h ago`.
pub(crate) fn ago(moment: Timestamp) -> String {
    let elapsed = moment.elapsed();
    if elapsed.as_secs() == 0 { "just now".to_owned() } else { format!("{} ago", show_duration(elapsed)) }
}
