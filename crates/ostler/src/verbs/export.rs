//! `ostler export`: a session as a document, whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_api::{SessionEvents, SessionInfo};

use super::Context;
use super::attach::{INTERRUPTED, code};
use super::session::record_line;
use super::stream::{Came, Follow, Followed, Link, missing};
use crate::output::{Called, CommandError, visible_json};
use crate::transcript::{Markdown, Reader};

/// Export a whole session as Markdown or JSON
#[derive(Debug, Args)]
#[command(after_help = "\
Markdown, or with --json one object with every record. Includes everything said so far.

Examples:
  ostler export fix
  ostler export fix -o fix.md
  ostler export fix --json | jq '[.records[].events[] | select(.type == \"tool_call\") | .title]'")]
pub(crate) struct Export {
    /// Id or name
    id: String,

    /// Write Markdown (the default)
    #[arg(long)]
    md: bool,

    /// Write to this file (readable only by you)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.md && context.json() {
            return Err(CommandError::usage("--md and --json cannot be used together").hint("use one of them"));
        }
        let (reached, info) = context.find_session(&self.id)?;
        let mut sink = Sink::open(self.output.as_deref())?;
        let mut document = match context.json() {
            true => Document::Json { first: true },
            false => Document::Markdown { reader: Box::default(), markdown: Markdown::default() },
        };
        sink.write(&document.head(&info)?)?;
        let mut last = 0;
        let follow = Follow::new(Link::new(context, reached), &info, 1)?;
        let followed = follow.run(|came| match came {
            Came::Sent(_) | Came::AtRest => Ok(None),
            Came::Notice(text) => {
                context.screen.note(&format!("ostler: {text}"));
                Ok(None)
            }
            Came::Begun(watching) => {
                // A new daemon after a crash knows at least as much as the one before.
                last = if last == 0 { watching.last } else { last };
                Ok((watching.from > last).then_some(()))
            }
            Came::Gap(gap) => {
                context.screen.note(&missing(gap));
                Ok((gap.first > last).then_some(()))
            }
            Came::Record(record) => {
                sink.write(&document.record(record)?)?;
                Ok((record.record >= last).then_some(()))
            }
        })?;
        sink.write(&document.end())?;
        match followed {
            Followed::Over(()) => {
                let replaces = self.output.as_deref().is_some_and(Path::exists);
                if let Some(path) = sink.finish()? {
                    let note = if replaces { ", replaced" } else { "" };
                    context.screen.note(&format!("ostler: {} is in {}{note}", info.called(), path.display()));
                }
                Ok(ExitCode::SUCCESS)
            }
            Followed::Left { .. } => Ok(code(INTERRUPTED)),
            Followed::Ended { signal, .. } => Ok(code(128 + signal)),
        }
    }
}

enum Document {
    Markdown { reader: Box<Reader>, markdown: Markdown },
    Json { first: bool },
}

impl Document {
    fn head(&self, info: &SessionInfo) -> Result<String, CommandError> {
        match self {
            Self::Markdown { .. } => Ok(Markdown::head(info)),
            Self::Json { .. } => {
                let info = serde_json::to_string(info).map_err(|error| CommandError::failed(error.to_string()))?;
                Ok(format!("{{\"session\":{},\"records\":[", visible_json(&info)))
            }
        }
    }

    fn record(&mut self, record: &SessionEvents) -> Result<String, CommandError> {
        match self {
            Self::Markdown { reader, markdown } => Ok(markdown.take(&reader.record(record), record.time)),
            Self::Json { first } => {
                let comma = if std::mem::take(first) { "\n" } else { ",\n" };
                Ok(format!("{comma}{}", record_line(record)?))
            }
        }
    }

    fn end(&mut self) -> String {
        match self {
            Self::Markdown { reader, markdown } => markdown.finish(reader.story()),
            Self::Json { .. } => "\n]}\n".to_owned(),
        }
    }
}

/// Standard output, or a file that is there only when it is whole.
enum Sink {
    Stdout,
    File { file: io::BufWriter<fs::File>, temporary: PathBuf, path: PathBuf },
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Self, CommandError> {
        let Some(path) = path else { return Ok(Self::Stdout) };
        let mut name = path
            .file_name()
            .map(ToOwned::to_owned)
            .ok_or_else(|| CommandError::usage(format!("{} is not a file name", path.display())))?;
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let file = file.map_err(|error| CommandError::failed(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self::File { file: io::BufWriter::new(file), temporary, path: path.to_owned() })
    }

    fn write(&mut self, text: &str) -> Result<(), CommandError> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(text.as_bytes())?,
            Self::File { file, .. } => file.write_all(text.as_bytes())?,
        }
        Ok(())
    }

    /// The file takes its name.
    fn finish(mut self) -> Result<Option<PathBuf>, CommandError> {
        match &mut self {
            Self::Stdout => {
                io::stdout().lock().flush()?;
                Ok(None)
            }
            Self::File { file, temporary, path } => {
                file.flush()?;
                fs::rename(&*temporary, &*path)?;
                Ok(Some(path.clone()))
            }
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Self::File { temporary, .. } = self {
            // After a rename there is nothing left of that name.
            let _ = fs::remove_file(temporary);
        }
    }
}
