//! `files.*`: looking at files, and unpacking an archive. Symbolic links are followed everywhere.

mod extract;
mod mode;

use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ostler_door_rpc::RpcError;
use ostler_workspace::files::{self as workspace, Hidden, ReadError};
use ostler_workspace::{PathError, clean};

use crate::env::Env;
use crate::gojson::{Object, push_bool, push_bytes_lossy, push_int, push_string};
use crate::goos;

/// The most that one reply carries of a file, limit or not: 256 MiB is beyond what any client shows,
/// and a reply can be six times as long as the file.
const READ_MAX: u64 = 256 << 20;

/// The params of every method here, read as one: a field that a method has no use for must still
/// have the right type.
struct Params<'a> {
    path: Cow<'a, str>,
    max_bytes: i64,
    archive_path: Cow<'a, str>,
    dest_dir: Cow<'a, str>,
}

impl<'a> Params<'a> {
    fn read(params: &Object<'a>) -> Result<Self, RpcError> {
        Ok(Self {
            path: params.string("path")?.unwrap_or_default(),
            max_bytes: params.int("maxBytes")?.unwrap_or_default(),
            archive_path: params.string("archivePath")?.unwrap_or_default(),
            dest_dir: params.string("destDir")?.unwrap_or_default(),
        })
    }

    /// As the client wrote it.
    fn path(&self) -> &Path {
        Path::new(self.path.as_ref())
    }
}

/// Runs `files.METHOD` and writes its result; `None` for a method that does not exist.
pub(crate) fn call(method: &str, params: &Object<'_>, env: &Env, out: &mut Vec<u8>) -> Option<Result<(), RpcError>> {
    let run: fn(&Params<'_>, &Env, &mut Vec<u8>) -> Result<(), RpcError> = match method {
        "stat" => stat,
        "list" => list,
        "read" => read,
        "validate" => validate,
        "extract_tar" => extract::run,
        _ => return None,
    };
    Some(Params::read(params).and_then(|params| run(&params, env, out)))
}

/// How many bytes `files.read` will bring; nothing where it will bring none.
pub(crate) fn size(params: &Object<'_>, env: &Env) -> u64 {
    let stat = Params::read(params).ok().and_then(|params| workspace::stat(&env.place(params.path())).ok());
    stat.map_or(0, |stat| stat.size)
}

fn stat(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let Ok(stat) = workspace::stat(&env.place(params.path())) else {
        out.extend_from_slice(br#"{"exists":false,"isDir":false,"size":0,"mode":""}"#);
        return Ok(());
    };
    out.extend_from_slice(br#"{"exists":true,"isDir":"#);
    push_bool(out, stat.is_dir);
    out.extend_from_slice(br#","size":"#);
    push_int(out, i64::try_from(stat.size).unwrap_or(i64::MAX));
    out.extend_from_slice(br#","mode":"#);
    push_string(out, &mode::text(stat.mode));
    out.push(b'}');
    Ok(())
}

fn list(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let entries = workspace::list(&env.place(params.path()), Hidden::Skip);
    let entries = entries.map_err(|error| internal(&error, params.path()))?;
    let base = match clean(params.path()) {
        here if here == Path::new(".") => Default::default(),
        base => base,
    };
    out.extend_from_slice(br#"{"entries":["#);
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"name":"#);
        push_bytes_lossy(out, entry.name.as_bytes());
        out.extend_from_slice(br#","path":"#);
        push_bytes_lossy(out, base.join(&entry.name).as_os_str().as_bytes());
        out.extend_from_slice(br#","isDir":"#);
        push_bool(out, entry.is_dir);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn read(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let limit = match u64::try_from(params.max_bytes) {
        Ok(limit) if limit > 0 => limit.min(READ_MAX),
        _ => READ_MAX,
    };
    let content = match workspace::read(&env.place(params.path()), limit) {
        Ok(content) => content,
        Err(ReadError::Missing) => {
            out.extend_from_slice(br#"{"content":"","exists":false}"#);
            return Ok(());
        }
        Err(ReadError::Directory) => return Err(RpcError::params("files.read: path is a directory")),
        Err(ReadError::Special) => return Err(RpcError::params("files.read: not a regular file")),
        Err(ReadError::TooLarge) => return Err(RpcError::params("files.read: file exceeds maxBytes")),
        Err(ReadError::Path(error)) => return Err(internal(&error, params.path())),
    };
    out.extend_from_slice(br#"{"content":"#);
    push_bytes_lossy(out, &content);
    out.extend_from_slice(br#","exists":true}"#);
    Ok(())
}

fn validate(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    match workspace::stat(&env.place(params.path())) {
        Ok(stat) => {
            out.extend_from_slice(br#"{"valid":true,"isDir":"#);
            push_bool(out, stat.is_dir);
            out.push(b'}');
        }
        Err(_) => out.extend_from_slice(br#"{"valid":false,"isDir":false,"error":"Path does not exist"}"#),
    }
    Ok(())
}

fn internal(error: &PathError, given: &Path) -> RpcError {
    RpcError::internal(String::from_utf8_lossy(&wording_of(error, given)))
}

fn wording(error: &PathError) -> Vec<u8> {
    wording_of(error, &error.path)
}

/// `open PATH: no such file or directory`, the path as the client knows it; as bytes, for a path need not be text.
fn wording_of(error: &PathError, path: &Path) -> Vec<u8> {
    let mut text = error.op.name().as_bytes().to_vec();
    text.push(b' ');
    text.extend_from_slice(path.as_os_str().as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(reason(&error.source).as_bytes());
    text
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        // A NUL in a path never reaches the system.
        None if error.kind() == io::ErrorKind::InvalidInput => "invalid argument".to_owned(),
        _ => goos::errno(error),
    }
}

#[cfg(test)]
mod tests;
