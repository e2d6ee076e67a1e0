//! One client's view of one journal, a process's output or a session's events: a place in it, and the replies that wait
//! for it.

use std::sync::Arc;

use ostler_engine::{EventCursor, Process, Subscription, Wake};

use crate::reader::{LineSource, Reader};
use crate::signal::{Bell, Signal};

/// Something whose journal this connection gets.
pub struct Watch<Tag> {
    of: Of,
    tag: Tag,
    /// Away while a thread reads what is not in memory.
    pub(crate) reader: Option<Reader>,
    position: u64,
    /// Its end answers a request: a client that has stopped to send still waits for it.
    owed: bool,
    /// Replies that must not overtake a frame, with that frame's number.
    held_back: Vec<(u64, Vec<u8>)>,
    subscription: Option<Subscription>,
}

/// Whose journal it is.
enum Of {
    Process(Process),
    Session(String),
}

impl<Tag> Watch<Tag> {
    /// Watches `process` after the frame numbered `after_seq`.
    pub fn new(process: Process, tag: Tag, after_seq: u64) -> Self {
        let reader = Reader::Output(process.cursor(after_seq));
        Self::at(Of::Process(process), tag, reader, after_seq)
    }

    /// Watches the events of a session from where `cursor` stands.
    pub fn events(session: String, tag: Tag, cursor: EventCursor) -> Self {
        let position = cursor.position();
        Self::at(Of::Session(session), tag, Reader::Events(cursor), position)
    }

    /// Watches whatever this source makes lines of.
    pub fn lines(id: String, tag: Tag, source: impl LineSource) -> Self {
        Self::at(Of::Session(id), tag, Reader::Lines(Box::new(source)), 0)
    }

    fn at(of: Of, tag: Tag, reader: Reader, position: u64) -> Self {
        Self { of, tag, reader: Some(reader), position, owed: false, held_back: Vec::new(), subscription: None }
    }

    /// As it is, but its last record answers a request, so the connection stays for it.
    pub fn owed(mut self) -> Self {
        self.owed = true;
        self
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// The id of what is watched.
    pub fn id(&self) -> &str {
        match &self.of {
            Of::Process(process) => process.id(),
            Of::Session(session) => session,
        }
    }

    /// What its frames are written with.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The last frame that was written to this client.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes back, so that frames after `after_seq` are written again; never forward. Only output is read twice on one
    /// connection.
    pub fn rewind(&mut self, after_seq: u64) {
        if let Of::Process(process) = &self.of
            && after_seq < self.position
        {
            self.position = after_seq;
            // A reader that is away is dropped when it comes back.
            self.reader = Some(Reader::Output(process.cursor(after_seq)));
        }
    }

    /// Whether the client's name for it means a newer process by now.
    pub(crate) fn is_superseded(&self) -> bool {
        matches!(&self.of, Of::Process(process) if process.is_superseded())
    }

    pub(crate) fn begin(&mut self, signal: &Arc<Signal>) {
        let wake: Arc<dyn Wake> = Arc::new(Bell { signal: Arc::clone(signal), of: self.id().to_owned() });
        self.subscription = self.reader.as_mut().and_then(|reader| reader.subscribe(wake));
    }

    pub(crate) fn arm(&self) {
        if let Some(subscription) = &self.subscription {
            subscription.arm();
        }
    }

    pub(crate) fn hold_back(&mut self, seq: u64, reply: Vec<u8>) {
        self.held_back.push((seq, reply));
    }

    /// Frame `seq` is written: replies that waited for it follow. Says how many bytes they have.
    pub(crate) fn advance(&mut self, seq: u64, out: &mut Vec<u8>) -> usize {
        self.position = seq;
        self.release(seq, out)
    }

    /// The watch ends: whatever waited goes out. Says how many bytes that was.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> usize {
        self.release(u64::MAX, out)
    }

    fn release(&mut self, seq: u64, out: &mut Vec<u8>) -> usize {
        if self.held_back.is_empty() {
            return 0;
        }
        let before = out.len();
        self.held_back.retain(|(after, reply)| {
            let due = *after <= seq;
            if due {
                out.extend_from_slice(reply);
            }
            !due
        });
        out.len() - before
    }
}
