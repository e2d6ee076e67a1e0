//! What ends a watch, and what only interrupts it.

use std::io;

use ostler_api::client::ClientError;

use crate::output::CommandError;

/// What can go wrong: the daemon went away, which is mended, or anything else.
pub(super) enum Trouble {
    Lost,
    Fatal(CommandError),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Closed | ClientError::Io(_) | ClientError::TimedOut(_) => Self::Lost,
            other => Self::Fatal(other.into()),
        }
    }
}

impl From<CommandError> for Trouble {
    fn from(error: CommandError) -> Self {
        Self::Fatal(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<Trouble> for CommandError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Fatal(error) => error,
            Trouble::Lost => ClientError::Closed.into(),
        }
    }
}
