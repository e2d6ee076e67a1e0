//! What an agent wrote, line by line, for who shows lines and not turns. The session's journal says where each ends.

use ostler_agents::{MAX_LINE, claude};

use super::Session;
use crate::MayWait;

pub use claude::said::Line as ClaudeLine;

/// As much as is looked through first for the beginning of a line: most are shorter.
const LOOK_BACK: u64 = 32 * 1024;

/// What a line of claude's says by itself; nothing if it is none.
pub fn claude_line(text: &[u8]) -> Option<ClaudeLine> {
    claude::said::line(text)
}

impl Session {
    /// The line of stdout that ends at `end`, without its end; `before` is where the one before it ended, if that is known.
    /// Nothing when it is no longer kept, or longer than lines are. May wait for the disk.
    pub fn line_at(&self, wait: &MayWait, source: u32, before: Option<u64>, end: u64) -> Option<Vec<u8>> {
        let most = MAX_LINE as u64 + 2;
        let mut bytes = match before.filter(|from| *from <= end && end - *from <= most) {
            Some(from) => self.raw(wait, source, from, end)?,
            None => self.looked_back(wait, source, end, most)?,
        };
        for end in [b'\n', b'\r'] {
            bytes.truncate(bytes.strip_suffix(&[end]).map_or(bytes.len(), <[u8]>::len));
        }
        Some(bytes)
    }

    fn looked_back(&self, wait: &MayWait, source: u32, end: u64, most: u64) -> Option<Vec<u8>> {
        let mut back = LOOK_BACK;
        loop {
            let from = end.saturating_sub(back.min(most));
            let bytes = self.raw(wait, source, from, end)?;
            let (_, whole) = bytes.split_last()?;
            match whole.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => return bytes.get(at + 1..).map(<[u8]>::to_vec),
                None if from == 0 => return Some(bytes),
                None if back >= most => return None,
                None => back *= 16,
            }
        }
    }
}
