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

/// Send a prompt to a session and follow the answer
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0 when the agent is done, 1 when it failed or was interrupted. Ctrl-C leaves; the agent keeps working. On a \
terminal you can approve what it asks right here. While the agent works on another prompt, this one is queued.

Examples:
  ostler send fix 'and now the documentation'
  git diff | ostler send s3fk -
  ostler send s3fk 'what is wrong here?' --image screen.png --file src/main.rs
  ostler send s3fk 'run the tests' --no-wait")]
pub(crate) struct Send {
    /// Id or name
    id: String,

    /// The prompt; `-` or nothing reads stdin
    text: Option<String>,

    /// Attach an image (png, jpeg, gif, webp)
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    /// Point the agent to a file
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// Send it once, even when called again with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Do not wait for the answer
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
            Some("-") | None => {
                // First: a prompt that was typed for nobody would be lost.
                context.find_session(&self.id)?;
                from_stdin(self.text.is_some())?
            }
            Some(text) => text.to_owned(),
        };
        if !text.trim().is_empty() {
            blocks.push(PromptBlock::Text { text });
        }
        if blocks.is_empty() {
            return Err(
                CommandError::usage("the prompt is empty").hint(format!("ostler send {} 'your prompt'", self.id))
            );
        }
        let (reached, info) = context.find_session(&self.id)?;
        deliver(context, reached, Order { session: info, blocks, key: self.key, wait: !self.no_wait })
    }
}

fn from_stdin(asked_for: bool) -> Result<String, CommandError> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() && !asked_for {
        eprintln!("ostler: type the prompt, end with Ctrl-D on a new line");
    }
    let mut bytes = Vec::new();
    let read = stdin.lock().take(PROMPT_MAX + 1).read_to_end(&mut bytes);
    if super::stream::hung_up() {
        // Half a prompt is nobody's wish.
        return Err(CommandError::failed("the terminal was closed; nothing was sent"));
    }
    read?;
    if bytes.len() as u64 > PROMPT_MAX {
        return Err(CommandError::usage(format!("the prompt is longer than {} MiB", PROMPT_MAX >> 20))
            .hint("write it to a file in the workspace and use --file"));
    }
    String::from_utf8(bytes).map_err(|_| CommandError::usage("stdin is not valid UTF-8"))
}

fn picture(path: &Path) -> Result<PromptBlock, CommandError> {
    std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    let Some((_, mime)) = PICTURES.iter().find(|(known, _)| *known == end) else {
        return Err(CommandError::usage(format!("{}: not an image that agents accept", path.display()))
            .hint("images are png, jpeg, gif or webp; use --file for other files"));
    };
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    Ok(PromptBlock::Image { mime: (*mime).to_owned(), data: STANDARD.encode(bytes) })
}

fn file(path: &Path) -> Result<PromptBlock, CommandError> {
    let whole = path.canonicalize().map_err(|error| unreadable(path, &error))?;
    if whole.is_dir() {
        return Err(CommandError::usage(format!("{} is a folder", path.display())).hint("--file needs a file"));
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
