//! Files that come with a prompt: pictures are shown to the agent, everything else is a path that it can read.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ostler_door_rpc::RpcError;
use ostler_story::Block;
use ostler_workspace::files::{self, ReadError};
use ostler_workspace::{Durable, replace};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Each of them, and all of one prompt: what clients expect.
const FILE_MAX: u64 = 10 * 1024 * 1024;
const ALL_MAX: u64 = 20 * 1024 * 1024;
/// Pictures of one prompt, as far as they are shown: agents read no longer lines. The rest are files like any other.
const SHOWN_MAX: u64 = 5 * 1024 * 1024;
/// As long as a file's name may be, less the digest before it.
const NAME_MAX: usize = 120;

/// Where bytes are kept, made when it is needed.
type Folder<'a> = &'a dyn Fn() -> io::Result<PathBuf>;

/// A file as clients send it: by its path, or whole.
#[derive(Debug, Deserialize)]
pub(crate) struct FileEntry {
    path: Option<PathBuf>,
    #[serde(alias = "dataB64")]
    data_b64: Option<String>,
    filename: Option<String>,
    #[serde(alias = "mimeType")]
    mime_type: Option<String>,
}

/// What is left of the limits of one prompt.
struct Left {
    all: u64,
    shown: u64,
}

/// What an agent is prompted with. Bytes are kept in `folder`, by what they are: the same file is kept once.
/// Paths are those of a client on this machine.
pub(crate) fn blocks(
    prompt: &str,
    files: Vec<FileEntry>,
    local: bool,
    folder: Folder<'_>,
) -> Result<Vec<Block>, RpcError> {
    let mut blocks = Vec::new();
    if !prompt.trim().is_empty() {
        blocks.push(Block::Text { text: prompt.to_owned() });
    } else if files.is_empty() {
        return Err(RpcError::params("the prompt is empty"));
    }
    let mut left = Left { all: ALL_MAX, shown: SHOWN_MAX };
    for file in files {
        if !local && file.data_b64.is_none() && file.path.is_some() {
            return Err(RpcError::params("a path says nothing here: send the file as data_b64"));
        }
        blocks.push(file.block(folder, &mut left)?);
    }
    Ok(blocks)
}

impl FileEntry {
    fn block(self, folder: Folder<'_>, left: &mut Left) -> Result<Block, RpcError> {
        let mime = self.mime_type.filter(|mime| mime.starts_with("image/"));
        let (bytes, path) = match (self.data_b64, self.path) {
            (Some(data), _) => (STANDARD.decode(data).map_err(|_| RpcError::params("data_b64 is not base64"))?, None),
            (None, Some(path)) if path.is_absolute() => (read(&path)?, Some(path)),
            (None, Some(path)) => {
                return Err(RpcError::params(format!("{}: the path must be absolute", path.display())));
            }
            (None, None) => return Err(RpcError::params("an attachment needs a path or data_b64")),
        };
        let size = bytes.len() as u64;
        let fits = left.all.checked_sub(size).filter(|_| size <= FILE_MAX);
        left.all = fits.ok_or_else(|| RpcError::params("attachments may have 10 MiB each, and 20 MiB together"))?;
        if let (Some(mime), Some(rest)) = (mime, left.shown.checked_sub(size)) {
            left.shown = rest;
            return Ok(Block::Image { mime, data: STANDARD.encode(bytes) });
        }
        let path = match path {
            Some(path) => path,
            None => folder()
                .and_then(|folder| keep(&folder, &bytes, self.filename.as_deref()))
                .map_err(|error| RpcError::internal(error.to_string()))?,
        };
        Ok(Block::File { path: path.to_string_lossy().into_owned() })
    }
}

/// A file that is larger than allowed is not read; a pipe or a device not at all.
fn read(path: &Path) -> Result<Vec<u8>, RpcError> {
    files::read(path, FILE_MAX).map_err(|error| RpcError::params(format!("{}: {}", path.display(), unreadable(&error))))
}

fn unreadable(error: &ReadError) -> String {
    match error {
        ReadError::Missing => "there is no such file".to_owned(),
        ReadError::TooLarge => "it has more than 10 MiB".to_owned(),
        _ => "it can not be read".to_owned(),
    }
}

fn keep(folder: &Path, bytes: &[u8], name: Option<&str>) -> io::Result<PathBuf> {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let name: String = name.unwrap_or("file").chars().map(plain).take(NAME_MAX).collect();
    let path = folder.join(format!("{digest}-{name}"));
    if path.is_file() {
        return Ok(path);
    }
    // Whole or not at all: whoever finds it may rely on it.
    let partial = folder.join(format!(".{digest}.{}", ostler_engine::uuid()?));
    replace(&path, &partial, bytes, Durable::No)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use serde_json::json;

    fn entry(value: serde_json::Value) -> FileEntry {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn bytes_are_kept_once_under_a_name_that_stays_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = || Ok(dir.path().to_owned());
        let file = || vec![entry(json!({"data_b64": "aGk=", "filename": "../../etc/passwd"}))];
        let paths: Vec<_> = (0..2).map(|_| blocks("x", file(), true, &folder).unwrap().remove(1)).collect();
        let Block::File { path } = &paths[0] else { panic!() };
        assert_eq!(paths[0], paths[1]);
        assert_eq!((Path::new(path).parent(), fs::read(path).unwrap().as_slice()), (Some(dir.path()), &b"hi"[..]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn pictures_are_shown_as_long_as_agents_can_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = || Ok(dir.path().to_owned());
        let picture = |name: &str, size: u64| {
            let path = dir.path().join(name);
            fs::write(&path, vec![7; usize::try_from(size).unwrap()]).unwrap();
            entry(json!({"path": path, "mimeType": "image/png"}))
        };
        let shown =
            blocks("", vec![picture("small", 3), picture("large", SHOWN_MAX), picture("last", 3)], true, &folder)
                .unwrap();
        assert_eq!(shown[0], Block::Image { mime: "image/png".into(), data: STANDARD.encode([7; 3]) });
        assert!(matches!(&shown[1], Block::File { path } if path.ends_with("/large")));
        assert!(matches!(&shown[2], Block::Image { .. }));
    }

    #[test]
    fn anything_unreadable_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let folder = || Ok(dir.path().to_owned());
        let bad = [
            json!({}),
            json!({"path": "relative"}),
            json!({"data_b64": "!"}),
            json!({"path": "/dev/zero", "mime_type": "image/png"}),
            json!({"path": dir.path()}),
            json!({"path": dir.path().join("missing")}),
            json!({"data_b64": STANDARD.encode(vec![0; FILE_MAX as usize + 1])}),
        ];
        for (index, bad) in bad.into_iter().enumerate() {
            assert!(blocks("x", vec![entry(bad)], true, &folder).is_err(), "{index}");
        }
        assert!(blocks(" \n", Vec::new(), true, &folder).is_err());
    }

    #[test]
    fn a_path_of_another_machine_is_refused_and_what_comes_whole_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (here, folder) = (dir.path().join("here"), || Ok(dir.path().to_owned()));
        fs::write(&here, "x").unwrap();
        let sent = |value| blocks("x", vec![entry(value)], false, &folder);
        assert!(sent(json!({"path": here})).is_err());
        assert_eq!(sent(json!({"path": here, "data_b64": "aGk="})).unwrap().len(), 2);
    }
}
