//! Where a request stands, in words for the person who answered it or came too late.

use ostler_api::{ApprovalInfo, ApprovalKind, ApprovalState};

use crate::output::{ago, by_name};

/// One line.
pub(in crate::verbs) fn told(info: &ApprovalInfo) -> String {
    let by = match (&info.decided_by, info.decided) {
        (Some(by), Some(at)) => format!(" by {}, {}", by_name(by), ago(at)),
        _ => String::new(),
    };
    let because = |text: &Option<String>| text.as_ref().map_or(String::new(), |text| format!(": {text}"));
    match info.state {
        ApprovalState::Pending => "waiting for approval".into(),
        ApprovalState::Accepted => format!("approved{by}; not started yet"),
        ApprovalState::Applied if info.detail.is_none() && info.kind == ApprovalKind::Command => {
            format!("approved{by}; running")
        }
        ApprovalState::Applied => format!("approved{by}{}", because(&info.detail)),
        ApprovalState::Failed => format!("approved{by}, but failed{}", because(&info.detail)),
        ApprovalState::Denied => format!("denied{by}{}", because(&info.detail)),
        ApprovalState::Expired => "expired: not answered in time".into(),
        ApprovalState::Withdrawn => format!("withdrawn{}", because(&info.detail)),
        ApprovalState::Unknown => format!("approved{by}; the machine restarted, the outcome is unknown"),
    }
}

/// One word for tables.
pub(super) fn word(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "pending",
        ApprovalState::Accepted => "approved",
        ApprovalState::Applied => "approved",
        ApprovalState::Failed => "failed",
        ApprovalState::Denied => "denied",
        ApprovalState::Expired => "expired",
        ApprovalState::Withdrawn => "withdrawn",
        ApprovalState::Unknown => "unknown",
    }
}

/// Whether nothing can happen to it any more.
pub(super) fn is_over(info: &ApprovalInfo) -> bool {
    match info.state {
        ApprovalState::Pending | ApprovalState::Accepted => false,
        ApprovalState::Applied => info.detail.is_some(),
        _ => true,
    }
}
