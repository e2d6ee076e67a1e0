//! `ostler send`: a prompt for a session, and its answer.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use ostler_api::PromptBlock;

use super::Context;
use super::session::{Order, deliver};
use crate::output::{CommandError, Kind};

/// The longest prompt that agents are known to read.
const PROMPT_MAX: u64 = 8 * 1024 * 1024;
/// Pictures that agents take, by the end of their names.
const PICTURES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Send a prompt to a session and follow its answer
#[derive(Debug, Args)]
#[command(after_help = "\
Follows the answer to its end: exit code 0 when the agent is done, 1 when it failed or was interrupted. Ctrl-C leaves, the \
agent goes on. At a terminal, what the agent asks is answered in place. While another prompt is being answered, this one waits for its turn. Without TEXT, or with `-`, the prompt is \
read from standard input. Sent twice with the same --key, a prompt runs once.

Examples:
  ostler send fix 'and now the documentation'
  git diff | ostler send s3fk -
  ostler send s3fk 'what is wrong here?' --image screen.png --file src/main.rs
  ostler send s3fk 'run the tests' --no-wait")]
pub(crate) struct Send {
    /// Id, unique prefix of it, or name
    id: String,

    /// The prompt; `-` or nothing reads standard input
    text: Option<String>,

    /// A picture to go with it (png, jpeg, gif, webp)
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    /// A file for the agent to look at
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// The same key again is the same prompt
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Only hand it over; do not wait for the answer
    #[arg(long)]
    no_wait: bool,
}

impl Send {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut blocks = self.image.iter().map(|path| picture(path)).collect::<Result<Vec<_>, _>>()?;
        for path in &self.file {
            blocks.push(file(path)?);
        }
        let text = match self.text.as_deref() {
            Some("-") | None => from_stdin(self.text.is_some())?,
            Some(text) => text.to_owned(),
        };
        if !text.trim().is_empty() {
            blocks.push(PromptBlock::Text { text });
        }
        if blocks.is_empty() {
            return Err(CommandError::usage("there is nothing in the prompt").hint("ostler send ID 'some words'"));
        }
        let (reached, info) = context.find_session(&self.id)?;
        deliver(context, reached, Order { session: info.id, blocks, key: self.key, wait: !self.no_wait })
    }
}

fn from_stdin(asked_for: bool) -> Result<String, CommandError> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() && !asked_for {
        eprintln!("ostler: type the prompt, and end it with Ctrl-D on a line of its own");
    }
    let mut bytes = Vec::new();
    let read = stdin.lock().take(PROMPT_MAX + 1).read_to_end(&mut bytes);
    if super::stream::hung_up() {
        // Half a prompt is nobody's wish.
        return Err(CommandError::failed("the terminal is gone; nothing was sent"));
    }
    read?;
    if bytes.len() as u64 > PROMPT_MAX {
        return Err(CommandError::usage(format!("the prompt is longer than {} MiB", PROMPT_MAX >> 20))
            .hint("put it into a file of the workspace and send --file"));
    }
    String::from_utf8(bytes).map_err(|_| CommandError::usage("the prompt on standard input is not UTF-8"))
}

fn picture(path: &Path) -> Result<PromptBlock, CommandError> {
    std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    let Some((_, mime)) = PICTURES.iter().find(|(known, _)| *known == end) else {
        return Err(CommandError::usage(format!("{}: no kind of picture that agents take", path.display()))
            .hint("png, jpeg, gif and webp are; any other file goes with --file"));
    };
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    Ok(PromptBlock::Image { mime: (*mime).to_owned(), data: STANDARD.encode(bytes) })
}

fn file(path: &Path) -> Result<PromptBlock, CommandError> {
    let whole = path.canonicalize().map_err(|error| unreadable(path, &error))?;
    if whole.is_dir() {
        return Err(CommandError::usage(format!("{} is a folder", path.display())).hint("--file takes a file"));
    }
    // The agent is the same user: what can not be read here can not be read there.
    std::fs::File::open(&whole).map_err(|error| unreadable(path, &error))?;
    let path = whole.into_os_string().into_string();
    let path =
        path.map_err(|path| CommandError::usage(format!("{}: the path is not UTF-8", PathBuf::from(path).display())))?;
    Ok(PromptBlock::File { path })
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    let kind = if error.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Failed };
    CommandError::new(kind, format!("{}: {error}", path.display()))
}
