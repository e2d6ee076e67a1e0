//! Paths of files in JSON, on the wire and in journals. Most are text; one that is not is its bytes, so that every name that was
//! told can be given back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path from the workspace's root on; or the root itself, or another name of git's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePath(pub PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes { base64: String },
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_os_str().as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Wire::Bytes { base64: STANDARD.encode(bytes) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match Wire::deserialize(deserializer)? {
            Wire::Text(text) => text.into_bytes(),
            Wire::Bytes { base64 } => STANDARD.decode(base64).map_err(D::Error::custom)?,
        };
        Ok(Self(PathBuf::from(OsStr::from_bytes(&bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_as_it_is_whatever_its_bytes() {
        for (name, wire) in [(b"a b\n".as_slice(), r#""a b\n""#), (b"\xff", r#"{"base64":"/w=="}"#), (b"", r#""""#)] {
            let path = FilePath(PathBuf::from(OsStr::from_bytes(name)));
            assert_eq!(serde_json::to_string(&path).unwrap(), wire);
            assert_eq!(serde_json::from_str::<FilePath>(wire).unwrap(), path);
        }
        assert!(serde_json::from_str::<FilePath>(r#"{"base64":"?"}"#).is_err());
    }
}
