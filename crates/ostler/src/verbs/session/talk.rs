//! A session at a terminal: what is said is shown as it comes, a line that is typed is a prompt, requests are answered in
//! place, Ctrl-C interrupts the turn, and leaving touches nothing.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;

use ostler_api::{SessionEvents, SessionInfo};
use ostler_story::{Fact, Piece};

use super::answer::write_out;
use super::in_place::InPlace;
use crate::output::{Called, CommandError, visible};
use crate::transcript::{Live, Reader};
use crate::verbs::Context;
use crate::verbs::attach::code;
use crate::verbs::connect::Reached;
use crate::verbs::stream::{Came, Follow, Followed, LastRow, Lines, Link, missing};

/// Prompts of the past that are shown first, with what was answered. Not records: a word can be one, and nobody comes back for
/// the middle of a sentence.
const RECENT: u64 = 2;

struct Talk<'a> {
    context: &'a Context,
    reader: Reader,
    live: Live<'a>,
    /// Prompts that were typed here, which stand on the screen already, and whether they had to wait for their turn.
    own: HashMap<u64, bool>,
    /// How what was written last ends: a line that is typed stands below it.
    row: LastRow,
}

/// Talks until the person leaves or the session is closed.
pub(in crate::verbs) fn talk(
    context: &Context,
    reached: Reached,
    info: &SessionInfo,
    from: Option<u64>,
) -> Result<ExitCode, CommandError> {
    let name = info.called();
    if context.json() || !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(CommandError::usage(format!("{name} is a session, and attaching to it needs a terminal"))
            .hint(format!("follow it: ostler watch {name}; send a prompt: ostler send {name} 'your prompt'")));
    }
    let (key, row) = (context.settings().attach.detach_key, LastRow::default());
    // First: a key that is pressed when the words below are read is one already.
    let lines = Lines::read_with(key, row.clone())?;
    context.screen.note(&format!(
        "ostler: session {name} with {}; type a prompt, Ctrl-C interrupts, {key} or Ctrl-D leaves",
        visible(&info.agent)
    ));
    // What waits is behind what runs.
    let recent = from.is_none().then(|| RECENT.saturating_add(info.queued));
    let follow = Follow::new(Link::new(context, reached), info, from.unwrap_or(1))?.with_last(recent);
    let in_place = InPlace::new(context);
    let live = Live::new(&context.screen).asking_below(in_place.is_at_terminal());
    let (reader, own) = (Reader::default(), HashMap::new());
    let mut talk = Talk { context, reader, live, own, row };
    let follow = follow.asking(in_place).typing(lines);
    let followed = follow.run(|came| talk.came(came))?;
    write_out(&talk.live.finish())?;
    let back = || context.screen.note(&format!("ostler: left {name}; go back to it: ostler attach {name}"));
    Ok(match followed {
        Followed::Over(()) => ExitCode::SUCCESS,
        Followed::Left { .. } => {
            back();
            ExitCode::SUCCESS
        }
        Followed::Ended { signal, .. } => {
            back();
            code(128 + signal)
        }
    })
}

impl Talk<'_> {
    fn came(&mut self, came: Came<'_>) -> Result<Option<()>, CommandError> {
        match came {
            Came::Begun(_) => Ok(None),
            Came::Gap(gap) => {
                self.note(&missing(gap));
                Ok(None)
            }
            Came::Record(record) => self.record(record),
            Came::Notice(text) => {
                write_out(&self.live.finish())?;
                self.note(&format!("ostler: {text}"));
                Ok(None)
            }
            Came::Sent(prompt) => {
                self.own.insert(prompt.number, prompt.position > 0);
                Ok(None)
            }
            Came::AtRest => {
                let key = self.context.settings().attach.detach_key;
                self.note(&format!("ostler: nothing is running; {key} or Ctrl-D leaves"));
                Ok(None)
            }
        }
    }

    fn record(&mut self, record: &SessionEvents) -> Result<Option<()>, CommandError> {
        let (mut text, mut closed) = (String::new(), None);
        for piece in self.reader.record(record) {
            match &piece {
                Piece::Accepted(prompt) if self.own.contains_key(&prompt.number) => continue,
                Piece::Noted(Fact::Closed {}) => closed = Some(()),
                _ => {}
            }
            let shown = self.live.take([&piece]);
            // A prompt that was answered at once stands right above its answer.
            let is_seen = |number: &u64| self.own.get(number) == Some(&false);
            if !matches!(&piece, Piece::Begun { number, .. } if is_seen(number)) {
                text.push_str(&shown);
            }
        }
        write_out(&text)?;
        self.row.wrote(&text);
        Ok(closed)
    }

    fn note(&self, text: &str) {
        self.context.screen.note(text);
        self.row.wrote("\n");
    }
}
