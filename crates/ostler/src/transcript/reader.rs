//! Records as they come from a daemon, told as pieces of the session's story.

use ostler_api::{SessionEvent, SessionEvents};
use ostler_story::{Piece, Story};

/// One reader of one session. What a newer daemon says and this program has no word for is passed over.
#[derive(Default)]
pub(crate) struct Reader {
    story: Story,
}

impl Reader {
    /// What a record adds to the story.
    pub(crate) fn record(&mut self, record: &SessionEvents) -> Vec<Piece> {
        let at_end = record.source != 0 && record.src_end == u64::MAX;
        let said = record.events.iter().filter_map(SessionEvent::said);
        said.flat_map(|said| self.story.take(said, at_end)).collect()
    }

    /// The story, for what only its end tells.
    pub(crate) fn story(&mut self) -> &mut Story {
        &mut self.story
    }
}
