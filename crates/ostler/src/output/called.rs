//! What people call a process or a session: by the name that they gave it.

use ostler_api::{Hosted, ProcessInfo, SessionInfo};
use ostler_door_rpc::called;

use super::visible;

/// Something that people may have given a name.
pub(crate) trait Called {
    /// As it is typed after a verb, and safe to show.
    fn called(&self) -> String;
}

impl Called for ProcessInfo {
    fn called(&self) -> String {
        visible(&called(self.name.as_deref(), &self.id))
    }
}

impl Called for SessionInfo {
    fn called(&self) -> String {
        visible(&called(self.name.as_deref(), &self.id))
    }
}

impl Called for Hosted {
    fn called(&self) -> String {
        visible(&called(self.name.as_deref(), &self.id))
    }
}
