//! Paths that somebody is shown at the other end of a connection: bytes that are no text are told as such text shows them. For
//! what is executed this would not do.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

/// Tells a path.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// Reads one that was told.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    PathBuf::deserialize(from)
}

/// The same where there may be none.
pub mod option {
    use super::{Deserialize, Deserializer, PathBuf, Serializer};

    /// Tells it.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        match path {
            Some(path) => to.serialize_some(&path.to_string_lossy()),
            None => to.serialize_none(),
        }
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Option::deserialize(from)
    }
}
