//! Whose end is nobody's news: somebody ended it, was attached when it ended, or looked at it since. What else fails waits
//! for somebody to look.

use std::sync::atomic::Ordering;

use super::Process;
use crate::MayWait;

impl Process {
    /// Whether somebody knows how it ended, or ends it.
    pub fn is_seen(&self) -> bool {
        self.inner.seen.load(Ordering::Acquire)
    }

    /// Whether it did not end well and nobody knows.
    pub fn has_failed_unseen(&self) -> bool {
        !self.is_seen() && self.exit().is_some_and(ostler_story::Exit::is_failure)
    }

    /// Somebody looked at how it ended. May wait for the disk.
    pub fn see(&self, _wait: &MayWait) {
        if self.has_failed_unseen() {
            self.inner.seen.store(true, Ordering::Release);
            self.note_seen();
        }
    }

    /// Somebody ends it: whatever comes of that, they wanted it.
    pub(super) fn is_told_to_end(&self) {
        self.inner.seen.store(true, Ordering::Release);
    }

    /// It has ended: who is attached sees that.
    pub(super) fn note_if_seen(&self) {
        if !self.viewers().is_empty() {
            self.inner.seen.store(true, Ordering::Release);
        }
        if self.is_seen() && self.exit().is_some_and(ostler_story::Exit::is_failure) {
            self.note_seen();
        }
    }

    /// For the daemons to come.
    fn note_seen(&self) {
        let about = self.described();
        if about.private {
            return;
        }
        if let Some(registry) = self.inner.registry.upgrade()
            && let Err(error) = registry.roll.describe(&about.id, &about.for_roll())
        {
            tracing::warn!("{}: not written down that its end was seen: {error}", self.id());
        }
    }
}
