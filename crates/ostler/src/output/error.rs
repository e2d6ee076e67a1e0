//! The one error type at the edge: what happened, what to do next, and the exit code that says which kind it was.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use ostler_api::ErrorKind;
use ostler_api::client::ClientError;
pub(crate) use ostler_engine::DiskTrouble;

use super::{visible_json, visible_lines};
use crate::config::ConfigError;
use crate::paths::PathsError;

/// Decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    Usage,
    NoInstance,
    NotFound,
    Refused,
    /// The command that was to run cannot be executed; what a shell says then.
    NotExecutable,
    /// The command that was to run is not there; what a shell says then.
    NoCommand,
    /// Nobody reads our output any more; that is no reason to complain.
    Unread,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Unread => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoInstance => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
            Self::NotExecutable => 126,
            Self::NoCommand => 127,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NoInstance => "no_instance",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::NotExecutable => "not_executable",
            Self::NoCommand => "command_not_found",
        }
    }
}

/// A failure as a person meets it.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// What could not be written here because of the disk; nothing where that is not the reason.
    pub(crate) fn of_disk(path: &Path, error: &io::Error) -> Option<Self> {
        // `df` wants a folder that is there.
        let dir = path.ancestors().find(|dir| dir.is_dir()).unwrap_or(path);
        DiskTrouble::of(dir, error).map(|trouble| Self::failed(trouble.message).hint(trouble.hint))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it on stderr, as text or as JSON, and gives the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        use std::io::Write;
        if self.kind != Kind::Unread {
            let text = if json {
                let body = serde_json::json!({
                    "kind": self.kind.word(), "message": self.message, "hint": self.hint,
                });
                visible_json(&serde_json::json!({ "error": body }).to_string())
            } else {
                match &self.hint {
                    Some(hint) => visible_lines(&format!("ostler: {}\n  {hint}", self.message)),
                    None => visible_lines(&format!("ostler: {}", self.message)),
                }
            };
            // If stderr is gone too there is nobody left to tell.
            let _ = writeln!(io::stderr(), "{text}");
        }
        ExitCode::from(self.kind.code())
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Kind::Unread, "");
        }
        Self::failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for CommandError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<PathsError> for CommandError {
    fn from(error: PathsError) -> Self {
        if let PathsError::Io { path, source } = &error
            && let Some(trouble) = Self::of_disk(path, source)
        {
            return trouble;
        }
        let kind = match error {
            PathsError::InstanceName(_) => Kind::Usage,
            PathsError::Foreign { .. } | PathsError::Shared { .. } => Kind::Refused,
            _ => Kind::Failed,
        };
        let told = Self::new(kind, error.to_string());
        match error {
            PathsError::Io { .. } => {
                told.hint("use a folder that you can write to: set OSTLER_STATE (OSTLER_RUNTIME for sockets)")
            }
            PathsError::NoHome(variable) => told.hint(format!("set HOME, or {variable} to a folder of yours")),
            _ => told,
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::failed(error.to_string()).hint("list all problems: ostler config check")
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let ClientError::Rpc(answer) = &error else {
            let hint = match &error {
                ClientError::TimedOut(_) => "it may be busy; see `ostler logs --daemon`, or `ostler restart`",
                _ => "see `ostler status` and `ostler logs --daemon`",
            };
            return Self::failed(error.to_string()).hint(hint);
        };
        let kind = match answer.kind() {
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::Refused => Kind::Refused,
            ErrorKind::NotExecutable => Kind::NotExecutable,
            ErrorKind::BadParams | ErrorKind::Ambiguous => Kind::Usage,
            _ => Kind::Failed,
        };
        let hint = answer.data.as_ref().and_then(|data| data.hint.clone());
        Self { kind, message: answer.message.clone(), hint }
    }
}
