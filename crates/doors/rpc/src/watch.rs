//! One client's view of one process's output: a cursor, and the replies that wait for it.

use std::sync::Arc;

use ostler_engine::{Cursor, Process, Subscription, Wake};

use crate::connection::Signal;

/// A process whose output this connection gets.
pub struct Watch<Tag> {
    process: Process,
    tag: Tag,
    /// Away while a thread reads what is not in memory.
    pub(crate) cursor: Option<Cursor>,
    position: u64,
    /// Replies that must not overtake a frame, with that frame's number.
    held_back: Vec<(u64, Vec<u8>)>,
    subscription: Option<Subscription>,
}

impl<Tag> Watch<Tag> {
    /// Watches `process` after the frame numbered `after_seq`.
    pub fn new(process: Process, tag: Tag, after_seq: u64) -> Self {
        let cursor = process.cursor(after_seq);
        Self { process, tag, cursor: Some(cursor), position: after_seq, held_back: Vec::new(), subscription: None }
    }

    /// What is watched.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What its frames are written with.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The last frame that was written to this client.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes back, so that frames after `after_seq` are written again; never forward.
    pub fn rewind(&mut self, after_seq: u64) {
        if after_seq < self.position {
            self.position = after_seq;
            // A cursor that is away reading is dropped when it comes back.
            self.cursor = Some(self.process.cursor(after_seq));
        }
    }

    pub(crate) fn begin(&mut self, signal: &Arc<Signal>) {
        self.subscription = Some(self.process.subscribe(Arc::clone(signal) as Arc<dyn Wake>));
    }

    pub(crate) fn arm(&self) {
        if let Some(subscription) = &self.subscription {
            subscription.arm();
        }
    }

    pub(crate) fn hold_back(&mut self, seq: u64, reply: Vec<u8>) {
        self.held_back.push((seq, reply));
    }

    pub(crate) fn is_holding_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Frame `seq` is written: replies that waited for it follow.
    pub(crate) fn advance(&mut self, seq: u64, out: &mut Vec<u8>) {
        self.position = seq;
        self.release(seq, out);
    }

    /// The watch ends: whatever waited goes out.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(u64::MAX, out);
    }

    fn release(&mut self, seq: u64, out: &mut Vec<u8>) {
        if self.held_back.is_empty() {
            return;
        }
        self.held_back.retain(|(after, reply)| {
            let due = *after <= seq;
            if due {
                out.extend_from_slice(reply);
            }
            !due
        });
    }
}
