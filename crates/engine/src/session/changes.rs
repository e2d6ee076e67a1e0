//! What a session changed, read from its journal when somebody asks: which files its agent's tools changed in which turn.

use std::io;

use ostler_story::{Piece, Story, TurnChanged, said};

use super::Session;
use crate::MayWait;

/// Turns that are told at once; the oldest are left out.
const TURNS_MAX: usize = 500;
/// Bytes of all changes together: with escapes still a message that a client can take.
const BYTES_MAX: usize = 6 << 20;

/// A turn, and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTurn {
    /// What its tools changed.
    pub changed: TurnChanged,
    /// When it began, in microseconds of the Unix clock.
    pub began: u64,
    /// When it ended.
    pub ended: Option<u64>,
}

/// What a session changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChanged {
    /// Oldest first; also turns in which nothing was changed by a tool.
    pub turns: Vec<ChangedTurn>,
    /// Something may be missing: retention cut, or there is too much.
    pub cut: bool,
}

impl Session {
    /// What its turns changed, or only this one. Waits for the disk.
    pub fn changes(&self, wait: &MayWait, only: Option<u64>) -> io::Result<SessionChanged> {
        let last = self.view().last;
        let (mut story, mut all) =
            (Story::default(), SessionChanged { cut: self.bounds(wait)?.first > 1, ..Default::default() });
        self.events(wait, 0)?.read_upto(last, |head, payload| {
            let time = head.time_ns / 1000;
            let at_end = head.source != 0 && head.src_end == u64::MAX;
            for said in said(head.source, payload) {
                story.take(said, at_end).iter().for_each(|piece| all.take(piece, time, only));
            }
        })?;
        all.turns.retain(|turn| only.is_none_or(|only| only == turn.changed.number));
        all.bound();
        Ok(all)
    }
}

impl SessionChanged {
    fn take(&mut self, piece: &Piece, time: u64, only: Option<u64>) {
        if let Piece::Begun { number, .. } = piece {
            self.turns.retain(|turn| only.is_none_or(|only| only == turn.changed.number));
            self.turns.push(ChangedTurn { changed: TurnChanged::new(*number), began: time, ended: None });
        }
        if self.turns.len() > TURNS_MAX {
            self.turns.remove(0);
            self.cut = true;
        }
        let Some(turn) = self.turns.last_mut() else { return };
        turn.changed.take(piece);
        if turn.changed.over && turn.ended.is_none() {
            turn.ended = Some(time);
        }
    }

    /// The newest changes that fit.
    fn bound(&mut self) {
        self.cut |= self.turns.iter().any(|turn| turn.changed.cut);
        let mut room = BYTES_MAX;
        for turn in self.turns.iter_mut().rev() {
            for change in turn.changed.changes.iter_mut().rev() {
                let texts = change.diffs.iter().flat_map(|diff| [&diff.old, &diff.new]).flatten();
                let bytes: usize = texts.map(String::len).sum();
                if bytes > room {
                    change.paths.extend(change.diffs.drain(..).map(|diff| diff.path));
                    change.paths.dedup();
                    self.cut = true;
                }
                room = room.saturating_sub(bytes);
            }
        }
    }
}
