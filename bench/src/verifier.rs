//! Says of a received stream how many bytes of a coded stream are missing, came twice or came late.
//! It compares with the code alone and never with anything the product stored.

use std::ops::Range;

use crate::code::Code;

/// How many received bytes are needed to find again where a stream goes on: 24 binary bytes are unique
/// among any stream we can hold, 24 text bytes carry 120 bits.
const WINDOW: usize = 24;

/// How far around the expected position a stream is searched for: 256 times the largest usual pipe.
const REACH: u64 = 16 << 20;

/// After so many unplaceable windows the rest of the stream is called foreign, or one broken stream
/// would search for hours.
const MAX_SEARCHES: u32 = 16;

/// Bytes compared at once.
const BLOCK: usize = 4096;

/// What was found wrong, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    /// Received bytes that stand nowhere near in the stream.
    pub(crate) foreign: u64,
}

impl Tally {
    pub(crate) fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

pub(crate) struct Verifier {
    code: Code,
    /// One past the highest position received.
    next: u64,
    /// Positions below `next` that have not arrived.
    holes: Vec<Range<u64>>,
    /// Received bytes whose position is not known yet.
    pending: Vec<u8>,
    duplicated: u64,
    reordered: u64,
    foreign: u64,
    searches: u32,
    scratch: Vec<u8>,
}

impl Verifier {
    pub(crate) fn new(code: Code) -> Self {
        Self {
            code,
            next: 0,
            holes: Vec::new(),
            pending: Vec::new(),
            duplicated: 0,
            reordered: 0,
            foreign: 0,
            searches: 0,
            scratch: Vec::new(),
        }
    }

    /// One past the highest position received.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    pub(crate) fn feed(&mut self, data: &[u8]) {
        let rest = if self.pending.is_empty() {
            let matched = self.matching(self.next, data);
            self.next += matched as u64;
            data.get(matched..).unwrap_or_default()
        } else {
            data
        };
        if !rest.is_empty() {
            self.pending.extend_from_slice(rest);
            while self.pending.len() >= WINDOW && self.place(WINDOW) {}
        }
    }

    /// The verdict once the stream is over, given how many bytes its writer wrote.
    pub(crate) fn finish(mut self, written: u64) -> Tally {
        // A tail too short for a whole window is placed by what there is of it.
        while self.pending.len() >= WINDOW / 3 && self.place(self.pending.len().min(WINDOW)) {}
        let mut tally = self.so_far();
        tally.lost += written.saturating_sub(self.next);
        tally.foreign += self.next.saturating_sub(written) + self.pending.len() as u64;
        tally
    }

    /// What is already certain while the stream goes on.
    pub(crate) fn so_far(&self) -> Tally {
        Tally {
            lost: self.holes.iter().map(|hole| hole.end - hole.start).sum(),
            duplicated: self.duplicated,
            reordered: self.reordered,
            foreign: self.foreign,
        }
    }

    /// How many bytes of `data` are what stands at `position`.
    fn matching(&mut self, position: u64, data: &[u8]) -> usize {
        let mut done = 0;
        for block in data.chunks(BLOCK) {
            self.scratch.resize(block.len(), 0);
            self.code.fill(position + done as u64, &mut self.scratch);
            if self.scratch == block {
                done += block.len();
                continue;
            }
            return done + block.iter().zip(&self.scratch).take_while(|(a, b)| a == b).count();
        }
        done
    }

    /// Finds where the pending bytes belong and accounts for one run of them. False: nothing left to do now.
    fn place(&mut self, window: usize) -> bool {
        if self.searches >= MAX_SEARCHES {
            self.foreign += self.pending.len() as u64;
            self.pending.clear();
            return false;
        }
        let needle = self.pending.get(..window).unwrap_or_default().to_vec();
        let Some(at) = self.locate(&needle) else {
            self.searches += 1;
            self.foreign += 1;
            self.pending.remove(0);
            return true;
        };
        let pending = std::mem::take(&mut self.pending);
        let run = self.matching(at, &pending);
        self.account(at, at + run as u64);
        let rest = pending.get(run..).unwrap_or_default();
        let again = self.matching(self.next, rest);
        self.next += again as u64;
        self.pending = rest.get(again..).unwrap_or_default().to_vec();
        !self.pending.is_empty()
    }

    /// The position where `needle` stands: late bytes first, then ahead, then behind.
    fn locate(&self, needle: &[u8]) -> Option<u64> {
        for hole in &self.holes {
            if let Some(at) = self.search(needle, hole.start, hole.end) {
                return Some(at);
            }
        }
        let ahead = self.search(needle, self.next, self.next + REACH);
        ahead.or_else(|| self.search(needle, self.next.saturating_sub(REACH), self.next))
    }

    /// The first position in `from..to` where the stream continues with `needle`.
    fn search(&self, needle: &[u8], from: u64, to: u64) -> Option<u64> {
        const CHUNK: u64 = 1 << 16;
        let head = needle.first_chunk::<4>();
        let mut buffer = Vec::new();
        let mut start = from;
        while start < to {
            let starts = CHUNK.min(to - start);
            let length = usize::try_from(starts).ok()? + needle.len() - 1;
            buffer.resize(length, 0);
            self.code.fill(start, &mut buffer);
            // The first bytes are compared first: nearly every window ends there.
            let found =
                buffer.windows(needle.len()).position(|bytes| bytes.first_chunk::<4>() == head && bytes == needle);
            if let Some(found) = found {
                return Some(start + found as u64);
            }
            start += starts;
        }
        None
    }

    /// Books the received run `from..to`: fresh beyond `next`, late inside a hole, twice elsewhere.
    fn account(&mut self, from: u64, to: u64) {
        if from > self.next {
            self.holes.push(self.next..from);
        }
        let old_end = to.min(self.next);
        if from < old_end {
            let late = self.take_from_holes(from, old_end);
            self.reordered += late;
            self.duplicated += old_end - from - late;
        }
        self.next = self.next.max(to);
    }

    /// Removes `from..to` from the holes; how many bytes of it were missing until now.
    fn take_from_holes(&mut self, from: u64, to: u64) -> u64 {
        let mut filled = 0;
        let mut left = Vec::with_capacity(self.holes.len() + 1);
        for hole in self.holes.drain(..) {
            let (start, end) = (hole.start.max(from), hole.end.min(to));
            if start >= end {
                left.push(hole);
                continue;
            }
            filled += end - start;
            left.extend([hole.start..start, end..hole.end].into_iter().filter(|part| !part.is_empty()));
        }
        self.holes = left;
        filled
    }
}

#[cfg(test)]
mod tests;
