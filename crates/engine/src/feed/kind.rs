//! What sort of change an entry of the audit is.

use ostler_story::FeedKind;

use crate::approval::Record;

pub(crate) fn of_audit(record: &Record) -> FeedKind {
    match record {
        Record::Asked { .. } => FeedKind::ApprovalAsked,
        Record::Shown { .. } => FeedKind::ApprovalShown,
        Record::Decided { .. } => FeedKind::ApprovalDecided,
        Record::Withdrawn { .. } => FeedKind::ApprovalWithdrawn,
        Record::Expired => FeedKind::ApprovalExpired,
        Record::Applied { .. } | Record::Failed { .. } | Record::Finished { .. } | Record::Rebooted => {
            FeedKind::ApprovalDone
        }
        Record::DevicePaired { .. } => FeedKind::DevicePaired,
        Record::DeviceRevoked { .. } => FeedKind::DeviceRevoked,
        _ => FeedKind::AuditNoted,
    }
}
