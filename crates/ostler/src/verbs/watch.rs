//! `ostler watch`: a session as it happens, from any record of its journal.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use ostler_api::client::Client;
use ostler_api::{SessionEvents, SessionGap, SessionRawParams, SessionStatus, Watching, methods};
use ostler_story::{Fact, Piece};

use super::Context;
use super::attach::{INTERRUPTED, code};
use super::session::{InPlace, record_line, write_out};
use super::stream::{Came, Follow, Followed, Link, missing};
use crate::output::{Called, CommandError, visible_bytes};
use crate::transcript::{Live, Reader};

/// Follow a session: prompts, answers, tools and changes
#[derive(Debug, Args)]
#[command(after_help = "\
Shows everything said so far and follows until the session is closed. Ctrl-C leaves (exit code 130); --from continues \
exactly where you left. On a terminal you can approve what the agent asks right here. With --json each record is a line.

Examples:
  ostler watch fix
  ostler watch fix --tail 1          the last prompt and its answer, then what comes
  ostler watch fix --from 120
  ostler watch fix --json | jq -r '.events[] | select(.type == \"text\") | .text'
  ostler watch fix --raw             the agent's own lines")]
pub(crate) struct Watch {
    /// Id or name
    id: String,

    /// Start at this number
    #[arg(long, value_name = "RECORD")]
    from: Option<u64>,

    /// Start with the last N prompts; 0: only what is new
    #[arg(short = 'n', long, value_name = "N", conflicts_with_all = ["from", "raw"])]
    tail: Option<u64>,

    /// Show the agent's own lines, unchanged
    #[arg(long)]
    raw: bool,
}

impl Watch {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (reached, info) = context.find_session(&self.id)?;
        let (id, name) = (info.id.clone(), info.called());
        let from = self.from.unwrap_or(1).max(1);
        let raw = match self.raw {
            true => Some(Raw::new(context.find_session(&id)?.0.client, &id, from)),
            false => None,
        };
        // Where a line of the agent begins is known from the one before it.
        let begin = if self.raw { 1 } else { from };
        // First: it hears Ctrl-C, also while the terminal is taken for questions.
        let follow = Follow::new(Link::new(context, reached), &info, begin)?.with_last(self.tail);
        let in_place = raw.is_none().then(|| InPlace::new(context));
        let live = Live::new(&context.screen).asking_below(in_place.as_ref().is_some_and(InPlace::is_at_terminal));
        let mut viewer = Viewer { context, reader: Reader::default(), live, raw, end: End::default() };
        let follow = in_place.into_iter().fold(follow, Follow::asking);
        let followed = follow.run(|came| match came {
            Came::Begun(watching) => {
                let over = viewer.end.begun(watching);
                if over.is_none() && from > watching.last + 1 {
                    let last = watching.last;
                    context.screen.note(&format!("ostler: {from} does not exist yet (the last is {last}); waiting"));
                }
                Ok(over)
            }
            Came::Gap(gap) => viewer.gap(gap),
            Came::Record(record) => viewer.record(record),
            Came::Notice(text) => viewer.notice(text),
            Came::Sent(_) | Came::AtRest => Ok(None),
        })?;
        write_out(&viewer.live.finish())?;
        let back = |next: u64| {
            context.screen.note(&format!("ostler: left {name}; follow it again: ostler watch {name} --from {next}"));
        };
        match followed {
            Followed::Over(()) => Ok(ExitCode::SUCCESS),
            Followed::Left { next } => {
                back(next);
                Ok(code(INTERRUPTED))
            }
            Followed::Ended { next, signal } => {
                back(next);
                Ok(code(128 + signal))
            }
        }
    }
}

struct Viewer<'a> {
    context: &'a Context,
    reader: Reader,
    live: Live<'a>,
    raw: Option<Raw>,
    end: End,
}

impl Viewer<'_> {
    fn record(&mut self, record: &SessionEvents) -> Result<Option<()>, CommandError> {
        let pieces = self.reader.record(record);
        match &mut self.raw {
            Some(raw) => raw.show(record)?,
            None if self.context.json() => self.context.screen.line(&record_line(record)?)?,
            None => write_out(&self.live.take(&pieces))?,
        }
        Ok(self.end.record(record.record, &pieces))
    }

    /// On a line of its own.
    fn notice(&mut self, text: &str) -> Result<Option<()>, CommandError> {
        write_out(&self.live.finish())?;
        self.context.screen.note(&format!("ostler: {text}"));
        Ok(None)
    }

    fn gap(&mut self, gap: &SessionGap) -> Result<Option<()>, CommandError> {
        match self.context.json() {
            true => {
                let line = serde_json::json!({ "gap": gap.first, "missing": gap.missing });
                self.context.screen.line(&line.to_string())?;
            }
            false => self.context.screen.note(&missing(gap)),
        }
        Ok(None)
    }
}

/// When there is nothing more to come: the session is closed and its process has said its last.
#[derive(Debug, Default)]
struct End {
    closed: bool,
    running: bool,
    /// What was there already when the watch began.
    past: u64,
}

impl End {
    fn begun(&mut self, watching: &Watching) -> Option<()> {
        self.past = watching.last;
        self.closed = watching.session.status == SessionStatus::Closed;
        self.running = watching.session.process.is_some();
        (self.closed && !self.running && watching.from > watching.last).then_some(())
    }

    fn record(&mut self, number: u64, pieces: &[Piece]) -> Option<()> {
        if number > self.past {
            for piece in pieces {
                match piece {
                    Piece::Process { .. } => self.running = true,
                    Piece::Noted(Fact::Exited { .. }) => self.running = false,
                    Piece::Noted(Fact::Closed {}) => self.closed = true,
                    _ => {}
                }
            }
        }
        (number >= self.past && self.closed && !self.running).then_some(())
    }
}

/// The agents' own lines, fetched over a connection of their own.
struct Raw {
    client: Client,
    id: String,
    from: u64,
    /// Where the last line of each process ended.
    ends: HashMap<u32, u64>,
}

impl Raw {
    fn new(client: Client, id: &str, from: u64) -> Self {
        Self { client, id: id.to_owned(), from, ends: HashMap::new() }
    }

    fn show(&mut self, record: &SessionEvents) -> Result<(), CommandError> {
        // What the daemon said, and what it concluded from the end of the output, stand on no line.
        if record.source == 0 || record.src_end == u64::MAX {
            return Ok(());
        }
        let from = self.ends.insert(record.source, record.src_end).unwrap_or(0);
        if record.record < self.from {
            return Ok(());
        }
        let params = SessionRawParams { id: self.id.clone(), source: record.source, from, to: record.src_end };
        let Some(data) = self.client.call::<methods::SessionRaw>(&params)?.data else {
            eprintln!("ostler: {}: output deleted (retention)", record.record);
            return Ok(());
        };
        let bytes = STANDARD.decode(data).map_err(|error| CommandError::failed(error.to_string()))?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let mut out = std::io::stdout().lock();
        match out.is_terminal() {
            true => writeln!(out, "{}", visible_bytes(line))?,
            false => {
                out.write_all(line)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(kind: &str) -> Vec<Piece> {
        let settings = json!({"autonomy": "ask"});
        let object = json!({"type": kind, "source": 1, "drive": "echo", "settings": settings});
        ostler_story::Story::default().take(ostler_story::Said::read(&object).unwrap(), false)
    }

    #[test]
    fn a_watch_ends_when_the_session_is_closed_and_its_process_gone() {
        let mut end = End::default();
        assert_eq!(end.record(1, &said("process")), None);
        assert_eq!(end.record(2, &said("closed")), None);
        assert_eq!(end.record(3, &said("exited")), Some(()));
        let mut idle = End::default();
        assert_eq!(idle.record(1, &said("closed")), Some(()));
    }

    #[test]
    fn a_closed_session_is_read_to_its_end() {
        let mut end = End { closed: true, running: false, past: 3 };
        assert_eq!((end.record(1, &said("process")), end.record(2, &said("exited"))), (None, None));
        assert_eq!(end.record(3, &said("closed")), Some(()));
    }
}
